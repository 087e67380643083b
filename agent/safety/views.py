"""A text as its readers may take it: without what cannot be seen, with escapes undone. Each view knows the way back."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"
INVISIBLE = (
    f"{_CONTROLS}\x80-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""For a class of a regular expression: controls but for tab and line ends, marks of direction, fillers, tags."""

# What can stand inside a key without being part of it: invisible characters, line ends and the indentation after them.
_LINE_END = r"[\r\n][\r\n \t]*"
_GAP = re.compile(rf"{_LINE_END}|[{INVISIBLE}]+")
# The same for what most texts are: two simple searches take half the time of one with a choice in it.
_LINE_GAP = re.compile(_LINE_END)
_CONTROL = re.compile(f"[{_CONTROLS}]")
# Printable ASCII as JSON and JavaScript, URLs and HTML write it.
_ESCAPE = re.compile(
    r"\\u00([2-7][0-9a-f])|\\x([2-7][0-9a-f])|%([2-7][0-9a-f])|&#x0{0,6}([2-7][0-9a-f]);|&#0{0,6}([0-9]{2,3});",
    re.IGNORECASE,
)
_DECIMAL = 5  # the group of the last form


@dataclass(frozen=True, slots=True)
class View:
    """A text read in another way.

    From character `at[i]` on, `skipped[i]` characters of the original were left out so far. `ends`: where escapes end.
    """

    text: str
    at: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    ends: frozenset[int] = frozenset()

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original text that became self.text[start:end]."""
        return self._before(start), self._before(end) if end in self.ends else self._before(end - 1) + 1

    def _before(self, position: int) -> int:
        index = bisect_right(self.at, position) - 1
        return position + (self.skipped[index] if index >= 0 else 0)


def views_of(text: str) -> Iterator[View]:
    """The text itself, and where they differ the text without gaps, and that with its escapes undone."""
    yield View(text)
    pattern = _LINE_GAP if text.isascii() and not _CONTROL.search(text) else _GAP
    gaps = [(gap.start(), gap.end(), "") for gap in pattern.finditer(text)]
    if gaps:
        yield _replaced(text, gaps)
    if escapes := list(_escapes(text)):
        yield _replaced(text, sorted((*gaps, *escapes)))


def without_gaps(text: str) -> str:
    """`text` as it reads where nothing invisible and no line end stands in it."""
    return _GAP.sub("", text)


def _escapes(text: str) -> Iterator[tuple[int, int, str]]:
    if "\\" not in text and "%" not in text and "&#" not in text:
        return
    for match in _ESCAPE.finditer(text):
        group = match.lastindex or _DECIMAL
        code = int(match[group], 10 if group == _DECIMAL else 16)
        if 0x20 < code < 0x7F:
            yield match.start(), match.end(), chr(code)


def _replaced(text: str, spans: list[tuple[int, int, str]]) -> View:
    parts: list[str] = []
    at: list[int] = []
    skipped: list[int] = []
    kept = left_out = end = 0
    for start, stop, instead in spans:
        parts += (text[end:start], instead)
        kept += start - end + len(instead)
        left_out += stop - start - len(instead)
        end = stop
        at.append(kept)
        skipped.append(left_out)
    ends = frozenset(position for position, (_, _, instead) in zip(at, spans, strict=True) if instead)
    return View("".join((*parts, text[end:])), tuple(at), tuple(skipped), ends)
