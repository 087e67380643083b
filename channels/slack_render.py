"""How an answer looks on Slack: the model's Markdown as `mrkdwn`, in parts that Slack takes. Pure: knows no SDK.

The tree becomes a text with styled ranges, that text is cut, and each part is written on its own: markers, links and
code fences are whole in every part. Everything the model wrote is escaped, so that nothing in it can mention anybody.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from channels.chunking import Span, SpanText, split_spans, split_text, utf16_len
from channels.markdown import (
    Alignment,
    Block,
    BulletList,
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
from channels.message import Choice
from channels.slack_events import CHOICE_ID

# Slack Web API, chat.postMessage: the text should stay under 4,000 characters; chat.update refuses more.
MAX_TEXT = 3900
# Slack Block Kit, section: 1 to 3,000 characters. Messages with buttons are made of such sections.
MAX_SECTION = 2900
# A part that Slack refused as it was is sent once more in plain pieces of this size, far below every limit.
MAX_PLAIN = 1500


@dataclass(frozen=True, slots=True)
class Part:
    """One post: its `mrkdwn`, and the bare text for when Slack refuses that."""

    mrkdwn: str
    plain: str


def render_parts(text: str, limit: int = MAX_TEXT) -> tuple[Part, ...]:
    """The posts that show a Markdown text, in order; none for a blank one. The same text gives the same parts."""
    writer = _Writer()
    writer.blocks(parse_markdown(_sendable(text)).blocks)
    return tuple(_parts(writer.whole(), limit))


def render_draft(text: str) -> str:
    """The beginning of an unfinished text, as one post; empty where there is nothing to show."""
    parts = render_parts(text[: 2 * MAX_TEXT])
    return parts[0].mrkdwn if parts else ""


def plain_pieces(part: Part) -> tuple[str, ...]:
    """A part without any formatting, in small pieces."""
    pieces = split_text(part.plain, MAX_PLAIN, measure=lambda piece: len(escape(piece)))
    return tuple(_without_calls(escape(piece)) for piece in pieces)


def choice_blocks(mrkdwn: str, choices: Sequence[Choice]) -> list[dict[str, object]]:
    """The blocks of a post with buttons; none without choices."""
    if not choices:
        return []
    # `verbatim` keeps Slack from looking for names and channels in the text.
    blocks: list[dict[str, object]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn, "verbatim": True}}
    ]
    for start in range(0, len(choices), _ROW):
        blocks.append({"type": "actions", "elements": _buttons(choices[start : start + _ROW], start)})
    return blocks


def escape(text: str) -> str:
    """A text in which Slack finds no link and no mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Slack Block Kit: at most 25 elements in an actions block, 75 characters on a button.
_ROW = 25
_MAX_LABEL = 75

# Longer addresses are shown as text: a link is repeated in each part that shows some of it.
_MAX_HREF = 1000
_SCHEMES = ("http://", "https://", "mailto:")
# Cells wider than this are not padded, so that one of them does not blow up its table.
_WIDEST = 40
_RULE = "─" * 10
# Zero width space: keeps a marker next to a letter a marker, and a word that calls everybody from being one.
_GAP = "\u200b"
_CALLS = re.compile(r"@(?=(?:everyone|channel|here)\b)", re.IGNORECASE)


class _Style(StrEnum):
    BOLD = "*"
    ITALIC = "_"
    STRIKE = "~"
    CODE = "`"
    FENCE = "```"


@dataclass(frozen=True, slots=True)
class _LinkTo:
    href: str


_Value: TypeAlias = _Style | _LinkTo


def _buttons(choices: Sequence[Choice], first: int) -> list[dict[str, object]]:
    return [
        {
            "type": "button",
            "action_id": f"{CHOICE_ID}{first + number}",
            "text": {"type": "plain_text", "text": choice.label[:_MAX_LABEL]},
            "value": choice.data,
        }
        for number, choice in enumerate(choices)
    ]


def _sendable(text: str) -> str:
    """Without what JSON in UTF-8 cannot carry."""
    whole = text if text.isascii() else text.encode("utf-8", "replace").decode()
    return whole.replace("\x00", "")


def _parts(whole: SpanText[_Value], limit: int) -> Iterator[Part]:
    for piece in split_spans(whole, limit, keep=_stays_whole):
        yield from _fitted(piece, limit)


def _fitted(piece: SpanText[_Value], limit: int) -> Iterator[Part]:
    """The piece, cut smaller where escapes, markers and addresses make it too long."""
    mrkdwn, size = _mrkdwn(piece), utf16_len(piece.text)
    if len(mrkdwn) <= limit or size <= 1:
        yield Part(mrkdwn, piece.text)
        return
    smaller = max(1, min(size - 1, size * limit // len(mrkdwn)))
    for half in split_spans(piece, smaller, keep=_stays_whole):
        yield from _fitted(half, limit)


def _stays_whole(value: _Value) -> bool:
    return isinstance(value, _LinkTo) or value in (_Style.FENCE, _Style.CODE)


class _Writer:
    """Turns blocks into one text with styled ranges, from the first line to the last."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._spans: list[Span[_Value]] = []
        self._prefix = ""  # what each line begins with: the marks of quotes, the indentation of lists
        self._open: dict[_Style, int] = {}  # styles that have begun, outermost first, and where on this line

    def whole(self) -> SpanText[_Value]:
        """What was written, and its ranges from the outer to the inner."""
        spans = sorted(self._spans, key=lambda span: (span.start, -span.end, _stays_whole(span.value)))
        return SpanText("".join(self._pieces), tuple(spans))

    def blocks(self, blocks: Sequence[Block]) -> None:
        """Write blocks with a blank line between them."""
        for number, block in enumerate(blocks):
            if number:
                self._line_end()
                self._line_end(before=block)
            self._block(block)

    def _block(self, block: Block) -> None:
        match block:
            case Paragraph(children):
                self._inlines(children)
            case Heading(_, children):
                self._styled(_Style.BOLD, children)
            case CodeBlock(text, _):
                self._fence(text)
            case Table():
                self._fence(_aligned(block))
            case Quote(blocks):
                self._indented("> ", "> ", blocks)
            case BulletList(items):
                self._items([("• ", item) for item in items])
            case NumberedList(start, items):
                self._items([(f"{start + number}. ", item) for number, item in enumerate(items)])
            case Rule():
                self._write(_RULE)
            case unreachable:
                assert_never(unreachable)

    def _items(self, items: Sequence[tuple[str, tuple[Block, ...]]]) -> None:
        for number, (mark, blocks) in enumerate(items):
            if number:
                self._line_end()
            self._indented(mark, "    ", blocks, tight=True)

    def _indented(self, first: str, rest: str, blocks: Sequence[Block], *, tight: bool = False) -> None:
        self._write(first)
        outer, self._prefix = self._prefix, self._prefix + rest
        if tight:
            for number, block in enumerate(blocks):
                if number:
                    self._line_end(before=block)
                self._block(block)
        else:
            self.blocks(blocks)
        self._prefix = outer

    def _inlines(self, children: Sequence[Inline]) -> None:
        for child in children:
            self._inline(child)

    def _inline(self, child: Inline) -> None:
        match child:
            case Text(text):
                self._write(text)
            case LineBreak():
                self._line_end()
            case Code(text):
                self._write(text) if "`" in text else self._range(_Style.CODE, text)
            case Emphasis(children):
                self._styled(_Style.ITALIC, children)
            case Strong(children):
                self._styled(_Style.BOLD, children)
            case Strike(children):
                self._styled(_Style.STRIKE, children)
            case Link(children, href):
                self._link(plain_text(children), href)
            case Image(alt, href):
                self._link(alt, href)
            case unreachable:
                assert_never(unreachable)

    def _styled(self, style: _Style, children: Sequence[Inline]) -> None:
        if style in self._open:
            self._inlines(children)
            return
        self._open[style] = self._size
        self._inlines(children)
        self._spans.append(Span(self._open.pop(style), self._size, style))

    def _link(self, label: str, href: str) -> None:
        target = re.sub(r"[\s<>|]", lambda found: f"%{ord(found[0]):02X}", href)
        if target.startswith(_SCHEMES) and len(escape(target)) <= _MAX_HREF:
            self._range(_LinkTo(target), label.strip() or href)
        elif not href or label == href:
            self._write(label)
        else:
            self._write(f"{label} ({href})" if label else href)

    def _fence(self, text: str) -> None:
        if text.strip():
            self._range(_Style.FENCE, text)

    def _range(self, value: _Value, text: str) -> None:
        start = self._size
        self._write(text)
        self._spans.append(Span(start, self._size, value))

    def _line_end(self, *, before: Block | None = None) -> None:
        """End the line; styles end with it and go on after the marks of the next, which code has none of."""
        self._spans += (Span(start, self._size, style) for style, start in self._open.items())
        self._write("\n" if isinstance(before, CodeBlock | Table) else f"\n{self._prefix}")
        self._open = dict.fromkeys(self._open, self._size)

    def _write(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)


def _aligned(table: Table) -> str:
    rows = [[plain_text(cell) for cell in row] for row in (table.header, *table.rows)]
    widths = [
        max((width for width in map(_width, column) if width <= _WIDEST), default=0)
        for column in zip(*rows, strict=True)
    ]
    lines = [_row(row, widths, table.alignments) for row in rows]
    return "\n".join((lines[0], "-+-".join("-" * width for width in widths), *lines[1:]))


def _row(cells: Sequence[str], widths: Sequence[int], alignments: Sequence[Alignment]) -> str:
    padded = (_padded(*column) for column in zip(cells, widths, alignments, strict=True))
    return " | ".join(padded).rstrip()


def _padded(cell: str, width: int, alignment: Alignment) -> str:
    missing = max(0, width - _width(cell))
    match alignment:
        case Alignment.LEFT:
            return cell + " " * missing
        case Alignment.RIGHT:
            return " " * missing + cell
        case Alignment.CENTER:
            return " " * (missing // 2) + cell + " " * (missing - missing // 2)
        case unreachable:
            assert_never(unreachable)


def _width(text: str) -> int:
    """How many columns a text takes in a fixed-width font."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text if not unicodedata.combining(c))


def _mrkdwn(piece: SpanText[_Value]) -> str:
    """A text with its ranges written as markers."""
    opening: dict[int, list[str]] = {}
    closing: dict[int, list[str]] = {}
    verbatim: list[tuple[int, int, bool]] = []
    for span in _marked(piece):
        before, after = _markers(piece.text, span)
        opening.setdefault(span.start, []).append(before)
        closing.setdefault(span.end, []).insert(0, after)
        if span.value in (_Style.CODE, _Style.FENCE):
            verbatim.append((span.start, span.end, span.value is _Style.FENCE))
    written: list[str] = []
    borders = sorted({0, len(piece.text), *opening, *closing})
    for start, end in zip(borders, [*borders[1:], None], strict=True):
        written += closing.get(start, ())
        written += opening.get(start, ())
        if end is not None:
            written.append(_escaped(piece.text[start:end], start, verbatim))
    return "".join(written)


def _escaped(text: str, start: int, verbatim: Sequence[tuple[int, int, bool]]) -> str:
    inside = next((fenced for first, last, fenced in verbatim if first <= start < last), None)
    match inside:
        case None:
            return _without_calls(escape(text))
        case True:
            return escape(text).replace("```", f"``{_GAP}`")
        case False:
            return escape(text)


def _without_calls(text: str) -> str:
    return _CALLS.sub(f"@{_GAP}", text)


def _marked(piece: SpanText[_Value]) -> Iterator[Span[_Value]]:
    """The ranges as Slack can show them: a style neither begins nor ends with white space."""
    for span in piece.spans:
        if span.value is _Style.FENCE or isinstance(span.value, _LinkTo):
            yield span
            continue
        text = piece.text[span.start : span.end]
        start, end = span.end - len(text.lstrip()), span.start + len(text.rstrip())
        if start < end:
            yield Span(start, end, span.value)


def _markers(text: str, span: Span[_Value]) -> tuple[str, str]:
    match span.value:
        case _LinkTo(href):
            target = escape(href)
            return (f"<{target}|", ">")
        case _Style.FENCE:
            return (f"{_Style.FENCE}\n", f"\n{_Style.FENCE}")
        case style:
            before = _GAP if span.start and text[span.start - 1].isalnum() else ""
            after = _GAP if span.end < len(text) and text[span.end].isalnum() else ""
            return f"{before}{style}", f"{style}{after}"
