"""Cuts texts into parts that a platform takes: at a paragraph, else a line, a sentence, a word, and only then anywhere.

A cut never falls inside a surrogate pair, and inside a character made of several code points only where that character
is longer than `_REACH`. A cut inside a code fence closes the fence at the end of the part and opens it again in the
next. Time is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


def utf16_len(text: str) -> int:
    """The length in UTF-16 code units, as Telegram counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int, *, measure: Callable[[str], int] = len) -> tuple[str, ...]:
    """The parts of a text, each at most `limit` by `measure`, none blank, in order.

    Joined they give the text again, but for white space where it was cut and the fences closed and opened there.
    `measure` must not shrink when a text grows. A single character longer than `limit` is let through, so that there
    is always progress.
    """
    if measure(text) <= limit:
        return (text,) if text.strip() else ()
    return tuple(part for part in _parts(text, limit, measure) if part.strip())


@dataclass(frozen=True, slots=True)
class Span(Generic[Value]):
    """A range of a text, in code points, that carries a value (a style)."""

    start: int
    end: int
    value: Value


@dataclass(frozen=True, slots=True)
class SpanText(Generic[Value]):
    """A text and the spans inside it."""

    text: str
    spans: tuple[Span[Value], ...]


def split_spans(
    whole: SpanText[Value], limit: int, *, keep: Callable[[Value], bool] = lambda _: False
) -> tuple[SpanText[Value], ...]:
    """The parts of a text with spans, each at most `limit` UTF-16 units; spans are clipped to the part they fall in.

    Ranges whose value is to be kept (`keep`) are cut only where they do not fit into one part.
    """
    if utf16_len(whole.text) <= limit:
        return (whole,) if whole.text.strip() else ()
    kept = _Kept((span.start, span.end) for span in whole.spans if keep(span.value))
    return tuple(_clip(whole, start, end) for start, end in _ranges(whole.text, limit, kept))


# How many code points before a hard cut are looked at for the beginning of a whole character: the longest emoji
# sequences in use have about 15.
_REACH = 64
_SENTENCE_ENDS = re.compile(r"[.!?…](?=\s)|[。！？]")
_LINE_END = "\n"
_BORDER = re.compile(r"(?:[ \t]*\n)+|[ \t]+")
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fenced block: `opener` is its first line, `body` and `end` are where what it holds and the block itself end."""

    start: int
    first: int  # where the body begins
    body: int
    end: int
    opener: str
    marker: str


def _parts(text: str, limit: int, measure: Callable[[str], int]) -> Iterator[str]:
    fences = [fence for fence in _fences(text) if measure(f"{fence.opener}\n\n{fence.marker}") <= limit // 2]
    kept = _Kept([(fence.start, fence.end) for fence in fences])
    closing = max((measure(f"\n{fence.marker}") for fence in fences), default=0)
    at, inside, number = 0, False, 0
    while at < len(text):
        while number < len(fences) and fences[number].end <= at:
            number += 1
        prefix = f"{fences[number].opener}\n" if inside else ""
        room = limit - measure(prefix)
        most = _fitting(text, at, room, measure)
        if most == len(text):
            yield prefix + text[at:].rstrip()
            return
        if closing:
            most = _fitting(text, at, room - closing, measure)
        begin = max(at, fences[number].first) if number < len(fences) and fences[number].start <= at else at
        cut, holder = _outside_fence_lines(text, at, _best_cut(text, begin, most, kept), fences[number:])
        if text[begin:cut].strip():
            yield prefix + _ended(text[at:cut], holder)
        at, inside = _resume(text, cut, holder)


def _outside_fence_lines(text: str, at: int, cut: int, fences: Sequence[_Fence]) -> tuple[int, _Fence | None]:
    """A cut that neither breaks the lines of a fence itself nor leaves it empty, and the fence it falls in."""
    holder = next((fence for fence in fences if cut < fence.end), None)
    if holder is None or cut <= holder.start:
        return cut, None
    if holder.start > at and not text[holder.first : cut].strip():
        return holder.start, None
    return min(cut, holder.body), holder


def _ended(piece: str, holder: _Fence | None) -> str:
    if holder is None:
        return piece.rstrip()
    return f"{piece.removesuffix(_LINE_END)}\n{holder.marker}"


def _resume(text: str, cut: int, holder: _Fence | None) -> tuple[int, bool]:
    """Where the next part begins, and whether inside the fence: it is not opened again for a blank rest."""
    if holder is None:
        return _past_border(text, cut), False
    if text[cut : holder.body].strip():
        return cut + text.startswith(_LINE_END, cut), True
    return _past_border(text, holder.end), False


def _past_border(text: str, cut: int) -> int:
    """Past the white space at a cut, but not past the indentation of the next line."""
    border = _BORDER.match(text, cut)
    return border.end() if border else cut


def _fences(text: str) -> Iterator[_Fence]:
    opened: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opened is None:
            if not (line[1][0] == "`" and "`" in line[2]):
                opened = line
        elif line[1].startswith(opened[1]) and not line[2].strip():
            yield _fence(text, opened, line.start(), line.end())
            opened = None
    if opened is not None:
        yield _fence(text, opened, len(text), len(text))


def _fence(text: str, opened: re.Match[str], body: int, end: int) -> _Fence:
    return _Fence(opened.start(), min(opened.end() + 1, len(text)), body, end, opened[0].strip(), opened[1])


def _ranges(text: str, limit: int, kept: _Kept) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        most = _fitting(text, at, limit, utf16_len)
        cut = most if most == len(text) else _best_cut(text, at, most, kept)
        piece = text[at:cut].rstrip()
        if piece:
            yield at, at + len(piece)
        at = _past_border(text, cut)


def _clip(whole: SpanText[Value], start: int, end: int) -> SpanText[Value]:
    spans = (
        Span(max(span.start, start) - start, min(span.end, end) - start, span.value)
        for span in whole.spans
        if span.start < end and span.end > start
    )
    return SpanText(whole.text[start:end], tuple(spans))


class _Kept:
    """Ranges that are better not cut; they may overlap only by lying inside one another."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def around(self, at: int) -> int | None:
        """The start of the range that a cut at `at` would break."""
        number = bisect_left(self._starts, at) - 1
        return self._starts[number] if number >= 0 and at < self._ends[number] else None


_NOTHING_KEPT = _Kept(())


def _fitting(text: str, at: int, room: int, measure: Callable[[str], int]) -> int:
    """The greatest end such that `text[at:end]` measures at most `room`; at least one character after `at`."""
    low, high = at + 1, min(len(text), at + max(room, 1))
    while high < len(text) and measure(text[at:high]) <= room:
        low, high = high, min(len(text), at + 2 * (high - at))
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[at:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _best_cut(text: str, at: int, most: int, kept: _Kept) -> int:
    """The best end in `(at, most]` for a part that begins at `at`.

    A better kind of border is taken only if it does not leave the part too small; borders outside kept ranges are
    better than those inside.
    """
    size = most - at
    for border, least, free in (
        ("\n\n", at + size // 3, True),
        ("\n", at + size // 2, True),
        ("\n\n", at + size // 2, False),
        ("\n", at + size // 4, False),
    ):
        cut = _last_border(text, border, least, most, kept if free else _NOTHING_KEPT)
        if cut is not None:
            return cut
    return _cut_in_line(text, at, most)


def _last_border(text: str, border: str, least: int, most: int, kept: _Kept) -> int | None:
    """The position of the last border outside kept ranges in `(least, most]`."""
    stop = most + len(border)
    while True:
        found = text.rfind(border, least + 1, stop)
        if found < 0:
            return None
        around = kept.around(found)
        if around is None:
            return found
        stop = around + 1


def _cut_in_line(text: str, at: int, most: int) -> int:
    sentence = max((match.end() for match in _SENTENCE_ENDS.finditer(text, at + (most - at) // 3, most)), default=at)
    if sentence > at:
        return _after_space(text, sentence, most)
    word = max(text.rfind(space, at + 1, most + 1) for space in (" ", "\t", "\n"))
    if word > at and text[at:word].strip():
        return _after_space(text, word, most)
    return _hard_cut(text, at, most)


def _after_space(text: str, cut: int, most: int) -> int:
    """Past one space at the cut, so that it stays with the part before it where there is room."""
    return cut + 1 if cut < most and text[cut : cut + 1] == " " else cut


def _hard_cut(text: str, at: int, most: int) -> int:
    for cut in range(most, max(at, most - _REACH), -1):
        if _is_boundary(text, at, cut):
            return cut
    return most if most - 1 == at or not _is_low_surrogate(text, most) else most - 1


def _is_boundary(text: str, begin: int, at: int) -> bool:
    """Whether a whole character ends before `at`: a short form of the grapheme rules of Unicode Annex 29.

    `begin` is a boundary that is known.
    """
    if at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    if before == _JOINER or _extends(after) or _is_low_surrogate(text, at):
        return False
    if _is_regional(before) and _is_regional(after):
        first = next((i + 1 for i in range(at - 1, begin - 1, -1) if not _is_regional(text[i])), begin)
        return (at - first) % 2 == 0
    return True


_JOINER = "\u200d"


def _extends(character: str) -> bool:
    """Combining marks, joiners, variation selectors, skin tones, tags, and Hangul vowels and finals."""
    return (
        character == _JOINER
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or "\u1160" <= character <= "\u11ff"
    )


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_low_surrogate(text: str, at: int) -> bool:
    return at < len(text) and "\udc00" <= text[at] <= "\udfff" and "\ud800" <= text[at - 1] <= "\udbff"
