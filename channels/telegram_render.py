"""How an answer looks on Telegram: text with entities, in parts that each fit into a message.

Entities instead of a `parse_mode`, so that no character needs escaping and no text can break the format.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import assert_never

from channels.chunking import Span, SpanText, split_spans, utf16_len
from channels.markdown import (
    Alignment,
    Block,
    BulletList,
    Cell,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Image,
    Inline,
    LineBreak,
    Link,
    NumberedList,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    parse_markdown,
    plain_text,
)
from channels.text import whole_text

# Telegram Bot API, sendMessage: 1-4096 characters (UTF-16 units) after entities parsing.
MAX_TEXT = 4096
_PART = 4000  # what a text that needs several messages is cut to


class EntityKind(StrEnum):
    """Telegram Bot API, MessageEntity.type: those we write."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strikethrough"
    CODE = "code"
    PRE = "pre"
    QUOTE = "blockquote"
    LINK = "text_link"


@dataclass(frozen=True, slots=True)
class Style:
    """What an entity says of its range; `detail` is the language of a `PRE` and the target of a `LINK`."""

    kind: EntityKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """A styled range of a message, in UTF-16 units."""

    offset: int
    length: int
    style: Style


@dataclass(frozen=True, slots=True)
class Part:
    """What one message says."""

    text: str
    entities: tuple[Entity, ...] = ()


def render(markdown: str, *, limit: int = MAX_TEXT) -> tuple[Part, ...]:
    """The messages that show a Markdown text, each of at most `limit` UTF-16 units; none for a blank text."""
    writer = _Writer()
    writer.blocks(parse_markdown(whole_text(markdown)).blocks)
    whole = writer.finished()
    if utf16_len(whole.text) > limit:
        parts = split_spans(whole, min(limit, _PART), keep=lambda style: style.kind is EntityKind.PRE)
    else:
        parts = (whole,) if whole.text.strip() else ()
    return tuple(_part(part) for part in parts)


def render_draft(markdown: str) -> Part | None:
    """The one message that shows a text so far: its beginning, with a sign where more has been left out."""
    first, *more = render(markdown) or (None,)
    if first is None or not more:
        return first
    return Part(f"{first.text}…", first.entities)


def halves(part: Part) -> tuple[Part, ...]:
    """A part that Telegram finds too long, cut in two or more, as plain text."""
    whole: SpanText[Style] = SpanText(part.text, ())
    return tuple(Part(piece.text) for piece in split_spans(whole, utf16_len(part.text) // 2 + 1))


def _part(whole: SpanText[Style]) -> Part:
    if not whole.spans:
        return Part(whole.text)
    if whole.text.isascii():
        places: Sequence[int] = range(len(whole.text) + 1)
    else:
        places = list(accumulate((1 + (character > "\uffff") for character in whole.text), initial=0))
    return Part(
        whole.text,
        tuple(
            Entity(places[span.start], places[span.end] - places[span.start], span.value)
            for span in whole.spans
            if whole.text[span.start : span.end].strip()
        ),
    )


class _Writer:
    """Collects text and spans. Code ends the styles around it and they begin again after it, as Telegram demands."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._length = 0
        self._spans: list[Span[Style]] = []
        self._open: list[tuple[Style, int]] = []
        self._quoted = False
        self._linked = False

    def finished(self) -> SpanText[Style]:
        """All that was written."""
        spans = sorted(self._spans, key=lambda span: (span.start, -span.end))
        return SpanText("".join(self._text), tuple(spans))

    def blocks(self, blocks: Sequence[Block], *, indent: str = "", gap: str = "\n\n") -> None:
        """Write blocks with a gap between them; `indent` begins each line but the first."""
        for number, block in enumerate(blocks):
            if number:
                self._write(gap + indent)
            self._block(block, indent)

    def _block(self, block: Block, indent: str) -> None:
        match block:
            case Paragraph(children):
                self._inlines(children, indent)
            case Heading(_, children):
                with self._styled(Style(EntityKind.BOLD)):
                    self._inlines(children, indent)
            case CodeBlock(text, language):
                self._code(text, Style(EntityKind.PRE, language))
            case Quote(blocks):
                self._quote(blocks, indent)
            case BulletList(items):
                self._items([("• ", item) for item in items], indent)
            case NumberedList(start, items):
                self._items([(f"{number}. ", item) for number, item in enumerate(items, start)], indent)
            case Table():
                self._table(block, indent)
            case Rule():
                self._write("———")
            case unreachable:
                assert_never(unreachable)

    def _items(self, items: Sequence[tuple[str, tuple[Block, ...]]], indent: str) -> None:
        inner = indent + "   "
        for number, (mark, blocks) in enumerate(items):
            self._write((f"\n{indent}" if number else "") + mark)
            self.blocks(blocks, indent=inner, gap="\n")

    def _quote(self, blocks: Sequence[Block], indent: str) -> None:
        if self._quoted:  # Telegram Bot API: blockquotes can't be nested
            self.blocks(blocks, indent=indent)
            return
        self._quoted = True
        with self._styled(Style(EntityKind.QUOTE), through_code=True):
            self.blocks(blocks, indent=indent)
        self._quoted = False

    def _table(self, table: Table, indent: str) -> None:
        lines = _aligned(table)
        if lines is not None:
            self._code("\n".join(lines), Style(EntityKind.PRE))
            return
        headers = [plain_text(cell) for cell in table.header]
        for number, row in enumerate(table.rows):
            self._write(f"\n{indent}• " if number else "• ")
            with self._styled(Style(EntityKind.BOLD)):
                self._inlines(row[0], indent)
            for header, cell in zip(headers[1:], row[1:], strict=False):
                if cell:
                    self._write(f"\n{indent}   {header}: " if header else f"\n{indent}   ")
                    self._inlines(cell, indent)

    def _inlines(self, children: Sequence[Inline], indent: str) -> None:
        for child in children:
            self._inline(child, indent)

    def _inline(self, child: Inline, indent: str) -> None:
        match child:
            case Text(text):
                self._write(text)
            case LineBreak():
                self._write(f"\n{indent}")
            case Code(text):
                self._code(text, Style(EntityKind.CODE))
            case Strong(children):
                with self._styled(Style(EntityKind.BOLD)):
                    self._inlines(children, indent)
            case Emphasis(children):
                with self._styled(Style(EntityKind.ITALIC)):
                    self._inlines(children, indent)
            case Strike(children):
                with self._styled(Style(EntityKind.STRIKE)):
                    self._inlines(children, indent)
            case Link(children, href):
                self._link(children, href, indent)
            case Image(alt, href):
                self._link((Text(alt),) if alt else (), href, indent)
            case unreachable:
                assert_never(unreachable)

    def _link(self, children: Sequence[Inline], href: str, indent: str) -> None:
        label = plain_text(children)
        if self._linked or not label.strip() or label == href:
            self._write(label if self._linked and label.strip() else href)
        elif href.lower().startswith(("http://", "https://", "tg://", "mailto:")):
            self._linked = True
            with self._styled(Style(EntityKind.LINK, href)):
                self._inlines(children, indent)
            self._linked = False
        else:
            self._inlines(children, indent)
            self._write(f" ({href})" if href else "")

    def _write(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)

    def _code(self, text: str, style: Style) -> None:
        if self._linked:  # an entity of code can't be part of a link
            self._write(text)
            return
        begin = self._length
        self._write(text)
        self._spans.append(Span(begin, self._length, style))
        for number, (around, start) in enumerate(self._open):
            self._close(around, start, begin)
            self._open[number] = (around, self._length)

    @contextmanager
    def _styled(self, style: Style, *, through_code: bool = False) -> Iterator[None]:
        begin = self._length
        if through_code:
            yield
            self._close(style, begin, self._length)
            return
        self._open.append((style, begin))
        yield
        style, start = self._open.pop()
        self._close(style, start, self._length)

    def _close(self, style: Style, start: int, end: int) -> None:
        if start < end:
            self._spans.append(Span(start, end, style))


# What a phone shows of fixed-width text without breaking lines.
_TABLE_WIDTH = 40


def _aligned(table: Table) -> list[str] | None:
    """The lines of a table in fixed width; None if they are too wide."""
    rows = [[plain_text(cell) for cell in row] for row in _rows(table)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 3 * (len(widths) - 1) > _TABLE_WIDTH:
        return None
    lines = [" | ".join(map(_padded, row, widths, table.alignments)).rstrip() for row in rows]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return lines


def _rows(table: Table) -> Iterator[Sequence[Cell]]:
    yield table.header
    for row in table.rows:
        yield [*row, *[()] * (len(table.header) - len(row))][: len(table.header)]


def _padded(text: str, width: int, alignment: Alignment) -> str:
    room = width - _width(text)
    match alignment:
        case Alignment.LEFT:
            return text + " " * room
        case Alignment.RIGHT:
            return " " * room + text
        case Alignment.CENTER:
            return " " * (room // 2) + text + " " * (room - room // 2)
        case unreachable:
            assert_never(unreachable)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
