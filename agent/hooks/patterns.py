"""Regular expressions out of files of hooks, run on texts that strangers choose.

RE2 needs time in proportion to the text, whatever the expression; it has no back references and no look-around. Its
library loads with the first expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from channels.text import whole_text

MOST_INSTRUCTIONS = 5_000
"""Of a compiled expression: what a step over one byte of text can cost."""
MOST_MATCHES = 10_000
"""Matches that are replaced in one text. Each costs a search of its own."""
_MOST_COMPILED_BYTES = 1024 * 1024

_GROUP = re.compile(r"\$([0-9$])")


class BadPattern(ValueError):
    """An expression or a replacement that cannot be used. The text says why."""


class TooManyMatches(Exception):
    """A text in which more is to be replaced than may be."""


class _Match(Protocol):
    def __getitem__(self, group: int, /) -> str | None: ...


class _Compiled(Protocol):
    @property
    def groups(self) -> int: ...

    def search(self, text: str, /) -> _Match | None: ...

    def subn(self, repl: Callable[[_Match], str], text: str, count: int, /) -> tuple[str, int]: ...


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression."""

    compiled: _Compiled

    def is_in(self, text: str) -> bool:
        """Whether it matches anywhere in a text."""
        return self.compiled.search(whole_text(text)) is not None


@dataclass(frozen=True, slots=True)
class Substitution:
    """A compiled expression and what its matches become."""

    compiled: _Compiled
    replacement: str

    def apply(self, text: str) -> str:
        """The text with all matches replaced. Raises TooManyMatches."""
        changed, count = self.compiled.subn(self._filled, whole_text(text), MOST_MATCHES + 1)
        if count > MOST_MATCHES:
            raise TooManyMatches
        return changed

    def _filled(self, match: _Match) -> str:
        return _GROUP.sub(lambda name: "$" if name[1] == "$" else match[int(name[1])] or "", self.replacement)


def compile_pattern(expression: str) -> Pattern:
    """The expression, to be looked for anywhere in a text. Raises BadPattern."""
    return Pattern(_compiled(expression))


def compile_substitution(expression: str, replacement: str) -> Substitution:
    """The expression and its replacement: `$0` to `$9` are what the groups matched, `$$` is a dollar.

    Raises BadPattern.
    """
    compiled = _compiled(expression)
    highest = max((int(name) for name in _GROUP.findall(replacement) if name != "$"), default=0)
    if "$" in _GROUP.sub("", replacement):
        raise BadPattern("in a replacement $ is followed by a digit or by another $")
    if highest > compiled.groups:
        raise BadPattern(f"the replacement names group {highest}, but there are {compiled.groups}")
    return Substitution(compiled, replacement)


def _compiled(expression: str) -> _Compiled:
    import re2  # type: ignore[import-untyped]  # the library has no stubs

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_COMPILED_BYTES
    try:
        compiled = re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else b""
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise BadPattern(f"the expression {expression[:80]!r} cannot be used: {reason}") from None
    if compiled.programsize > MOST_INSTRUCTIONS:
        raise BadPattern(f"the expression {expression[:80]!r} is too large")
    found: _Compiled = compiled
    return found
