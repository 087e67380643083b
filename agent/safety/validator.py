"""Whether a text can be taken at all: its length, NUL bytes, and oddities worth a warning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.model.tool_call import JsonValue

MAX_BYTES = 100_000
MAX_DEPTH = 16  # nested deeper, arguments are refused rather than walked

_REPEATED = re.compile(r"(.)\1{20,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Validation:
    """Errors refuse the text; warnings do not."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TooDeep:
    """A place where arguments are nested more than `MAX_DEPTH` levels."""

    path: str


def validate_text(text: str, *, may_be_empty: bool = False, max_bytes: int = MAX_BYTES) -> Validation:
    """Check one text of a user or of a tool's arguments."""
    errors: list[str] = []
    if not text and not may_be_empty:
        errors.append("is empty")
    if (size := len(text.encode(errors="replace"))) > max_bytes:
        errors.append(f"is {size} bytes long; at most {max_bytes} are allowed")
    if "\x00" in text:
        errors.append("contains a NUL byte")
    warnings: list[str] = []
    if len(text) > 100 and sum(map(str.isspace, text)) > len(text) * 0.9:
        warnings.append("is almost all white space")
    if _REPEATED.search(text):
        warnings.append("repeats one character many times")
    return Validation(tuple(errors), tuple(warnings))


def strings_in(value: JsonValue, path: str = "") -> Iterator[tuple[str, str] | TooDeep]:
    """Every string of a JSON value with the path to it, keys of objects included."""
    yield from _walk(value, path, MAX_DEPTH)


def _walk(value: JsonValue, path: str, depth: int) -> Iterator[tuple[str, str] | TooDeep]:
    match value:
        case str():
            yield path, value
        case Mapping() | list() | tuple() if depth == 0:
            yield TooDeep(path)
        case Mapping():
            for key, item in value.items():
                yield f"{path} (name)".strip(), str(key)
                yield from _walk(item, f"{path}.{key}" if path else str(key), depth - 1)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _walk(item, f"{path}[{index}]", depth - 1)
        case _:
            pass
