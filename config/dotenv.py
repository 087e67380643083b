"""The `.env` file: lines of NAME=VALUE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=[ \t]*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^'"\s#].*?|))
    [ \t]*(?:(?<=\s)\#.*|(?<==)\#.*)?""",
    re.VERBOSE | re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Dotenv(NamedTuple):
    """What a `.env` file says, and the numbers of the lines that say nothing we understand."""

    variables: dict[str, str]
    bad_lines: tuple[int, ...]


def parse_dotenv(text: str) -> Dotenv:
    """The variables of a `.env` file; total. A later line wins over an earlier one of the same name.

    Values may stand in single quotes (taken as they are) or double quotes (with backslash escapes); a bare value ends
    before ` #`. Nothing is expanded. A value ends on its line.
    """
    variables: dict[str, str] = {}
    bad: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if (match := _LINE.fullmatch(stripped)) is None:
            bad.append(number)
            continue
        variables[match["name"]] = _value(match)
    return Dotenv(variables, tuple(bad))


def _value(match: re.Match[str]) -> str:
    if (single := match["single"]) is not None:
        return single
    if (double := match["double"]) is not None:
        return "".join(_unescaped(double))
    return (match["bare"] or "").strip()


def _unescaped(text: str) -> Iterator[str]:
    for escaped, plain in re.findall(r"\\(.)|([^\\])", text, re.DOTALL):
        yield _ESCAPES.get(escaped, escaped) if escaped else plain
