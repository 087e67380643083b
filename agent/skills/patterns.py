"""Regular expressions out of skill files: matched in linear time, whatever they look like.

`re` backtracks: a short expression can hold it for hours, and it has no time limit. RE2 never backtracks, so its time
is bounded by the size of the expression times the length of the text; both are bounded here. `regex`, the other
candidate, has a time limit instead, which would let the outcome depend on how busy the machine is. RE2 knows no
look-around and no back references: an expression with them is a bad one.
"""

from __future__ import annotations

from typing import Protocol

LONGEST_PATTERN = 500
"""Characters of an expression."""
MOST_INSTRUCTIONS = 1000
"""Of a compiled expression: what a step over one byte of text can cost."""
_MOST_COMPILED_BYTES = 64 * 1024


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: bytes, /) -> object | None:
        """What was found in a UTF-8 text, or None."""
        ...


def compile_pattern(source: str) -> Pattern | None:
    """The expression, matched without regard to case; None if it is not valid or too large. RE2 loads at first use."""
    if not source or len(source) > LONGEST_PATTERN:
        return None
    import re2  # type: ignore[import-untyped]  # the library has no stubs

    options = re2.Options()
    options.max_mem = _MOST_COMPILED_BYTES
    options.case_sensitive = False
    options.log_errors = False
    try:
        compiled = re2.compile(source, options)
    except (re2.error, UnicodeEncodeError):
        return None
    pattern: Pattern = compiled
    return pattern if compiled.programsize <= MOST_INSTRUCTIONS else None
