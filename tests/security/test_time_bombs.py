"""Every regular expression of the program, against texts made to hold it up.

A text that grows with the square of its length costs whole seconds of the processor here, one that does not some
thousandths. The bound lies between them, far from both: no machine is slow enough to fail an honest expression.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]  # the only one who knows what an expression is made of
from types import FrameType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "channels", "bot", "config")
LENGTH = 20_000
"""Characters. A square of it takes a second and more."""
LIMIT_SECONDS = 0.6
_ANCHORED = frozenset({"match", "fullmatch", "pattern"})

BOUNDED: Mapping[str, str] = {
    "agent.extensions.services._HOST": "names of hosts out of files of the operator",
    "agent.llm.wire.openai_chat._REASONING": "names of models",
    "config.dotenv._LINE": "lines of a file of the operator",
    "agent.tools.builtin.shell_commands.WRAPPERS": "one word of a command, matched whole",
}
"""Expressions that see short texts alone, and whose."""

REPORTED: Mapping[str, str] = {}
"""Expressions that are known to be slow. Each is a fault to be mended; the test fails once it is."""


@dataclass(frozen=True)
class Found:
    """An expression, where it stands, and whether it is looked for anywhere in a text or at its beginning alone."""

    where: str
    pattern: re.Pattern[str]
    anchored: bool


@cache
def sources() -> Mapping[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """All expressions in a module's value, however deep they lie in its tuples and records."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from patterns_in(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        yield from patterns_in(list(value.values()), depth)
    elif depth < 4 and is_dataclass(value) and not isinstance(value, type):
        yield from patterns_in([getattr(value, each.name, None) for each in fields(value)], depth)


@cache
def uses() -> Mapping[str, frozenset[str]]:
    """The methods that are called on each constant, by its name."""
    found: dict[str, set[str]] = {}
    for source in sources().values():
        for name, method in re.findall(r"\b(_?[A-Z][A-Z0-9_]*)\.([a-z]+)\b", source):
            found.setdefault(name, set()).add(method)
    return {name: frozenset(methods) for name, methods in found.items()}


@cache
def in_modules() -> tuple[Found, ...]:
    """Those that modules keep, each once."""
    return tuple(_in_modules())


def _in_modules() -> Iterator[Found]:
    seen: set[tuple[str, int]] = set()
    for package in PACKAGES:
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if "migrations" in info.name or info.name.endswith("__main__"):
                continue
            module = importlib.import_module(info.name)
            for name, value in list(vars(module).items()):
                for pattern in patterns_in(value):
                    if (pattern.pattern, pattern.flags) not in seen:
                        seen.add((pattern.pattern, pattern.flags))
                        methods = uses().get(name, frozenset())
                        yield Found(f"{info.name}.{name}", pattern, bool(methods) and methods <= _ANCHORED)


def in_calls() -> Iterator[Found]:
    """Those that stand in a call, such as `re.sub("…", …)`."""
    for path, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=use), args=[ast.Constant(value=str(text)), *_]
                ) if use != "compile":
                    yield Found(f"{path}: {text[:12]}", re.compile(text), use in _ANCHORED)


def letters_of(tree: Iterable[tuple[object, object]]) -> Iterator[str]:
    """The literal texts of an expression, and a letter of each of its classes."""
    run = ""
    for kind, value in tree:
        if str(kind) == "LITERAL":
            run += chr(int(str(value)))
            continue
        if run:
            yield run
        run = ""
        match str(kind), value:
            case "SUBPATTERN", tuple(parts):
                yield from letters_of(parts[3])
            case (("MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT"), tuple(parts)):
                yield from letters_of(parts[2])
            case "BRANCH", tuple(parts):
                for branch in parts[1]:
                    yield from letters_of(branch)
            case (("ASSERT" | "ASSERT_NOT"), tuple(parts)):
                yield from letters_of(parts[1])
            case "IN", list(choices):
                for kind_of, choice in choices[:3]:
                    if str(kind_of) == "LITERAL":
                        yield chr(choice)
                    elif str(kind_of) == "RANGE":
                        yield chr(choice[0])
            case _:
                pass
    if run:
        yield run


def attacks_on(pattern: re.Pattern[str]) -> Iterator[str]:
    """Long texts that nearly match: its own words over and over, alone, in pairs and after a beginning."""
    words = list(dict.fromkeys(letters_of(_parser.parse(pattern.pattern, pattern.flags))))[:6]
    pairs = dict.fromkeys(one + other for one in words[:3] for other in words[:3] if one != other)
    plain = [*words, " ", "\n", "a", "0", "\u200b"]
    for head, unit in (*((head, unit) for head in ("", *words[:1]) for unit in plain), *(("", pair) for pair in pairs)):
        yield f"{head}{unit * (LENGTH // len(unit))}\x01"


class TookTooLong(Exception):
    """The processor was at it for longer than the limit."""


@contextmanager
def limited() -> Iterator[None]:
    """Raise TookTooLong in a match that goes on and on: the engine looks for signals now and then."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow_on(found: Found) -> str | None:
    """The beginning of a text that holds the expression up, or None."""
    for text in attacks_on(found.pattern):
        try:
            with limited():
                if found.anchored:
                    found.pattern.match(text)
                    found.pattern.fullmatch(text)
                else:
                    for _ in found.pattern.finditer(text):
                        pass
        except TookTooLong:
            return text[:40]
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_no_expression_is_held_up_by_a_text_made_for_it(package: str) -> None:
    slow = {
        found.where: slow_on(found)
        for found in in_modules()
        if found.where.startswith(package) and found.where not in BOUNDED
    }

    assert {where: text for where, text in slow.items() if text is not None and where not in REPORTED} == {}
    assert [where for where, text in slow.items() if text is None and where in REPORTED] == [], "mended: take it out"


def test_no_expression_in_a_call_is_held_up_either() -> None:
    slow = {found.where: slow_on(found) for found in in_calls()}

    assert {where: text for where, text in slow.items() if text is not None and where not in REPORTED} == {}
    assert [where for where, text in slow.items() if text is None and where in REPORTED] == [], "mended: take it out"


def test_exceptions_name_expressions_that_exist() -> None:
    assert {*BOUNDED, *REPORTED} <= {found.where for found in (*in_modules(), *in_calls())}


def test_a_slow_expression_would_be_noticed() -> None:
    assert slow_on(Found("here", re.compile(r"\s+$"), anchored=False)) is not None
    assert slow_on(Found("here", re.compile(r"(a+)+b"), anchored=True)) is not None
    assert len(list(in_modules())) > 100
    assert "agent.safety.sanitizer" in sys.modules
