"""The model's Markdown as one small tree that each adapter renders its own way.

CommonMark plus tables and strikethrough, without HTML and without link definitions apart from their links (a source
listed below an answer stays visible). `parse_markdown` never raises, loses no text, and takes time in proportion to its
input also on hostile texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class Text:
    """Characters to show as they are."""

    text: str


@dataclass(frozen=True, slots=True)
class LineBreak:
    """The end of a line inside a block: people in a chat mean it when they press enter."""


@dataclass(frozen=True, slots=True)
class Code:
    """Code inside a line."""

    text: str


@dataclass(frozen=True, slots=True)
class Emphasis:
    """Text in italics."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strong:
    """Text in bold."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Strike:
    """Text that is struck through."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written; the adapter decides which targets its platform may open."""

    children: tuple[Inline, ...]
    href: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that is linked to; `alt` may be empty."""

    alt: str
    href: str


Inline: TypeAlias = Text | LineBreak | Code | Emphasis | Strong | Strike | Link | Image


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A run of text."""

    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `level` is 1 to 6."""

    level: int
    children: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code in lines, without a line end after the last. `language` is empty where none is named."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Quoted blocks."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list without order; each item is a run of blocks."""

    items: tuple[tuple[Block, ...], ...]


@dataclass(frozen=True, slots=True)
class NumberedList:
    """A list counted upwards from `start`."""

    start: int
    items: tuple[tuple[Block, ...], ...]


class Alignment(StrEnum):
    """How the cells of a column stand."""

    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


Cell: TypeAlias = tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `alignments`, `header` and each row have one entry for each column."""

    alignments: tuple[Alignment, ...]
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""


Block: TypeAlias = Paragraph | Heading | CodeBlock | Quote | BulletList | NumberedList | Table | Rule


@dataclass(frozen=True, slots=True)
class Document:
    """A whole text."""

    blocks: tuple[Block, ...]


def parse_markdown(text: str) -> Document:
    """The tree of a Markdown text; line ends inside paragraphs count as `LineBreak`.

    Text nested deeper than `_DEEPEST` levels is shown as written. Texts longer than `_PIECE` characters are read in
    pieces cut at blank lines, because the parser needs quadratic time for some of them.
    """
    if _MARKUP.search(text) is None:
        return Document(tuple(_plain_paragraph(piece) for piece in _BLANK_LINES.split(text) if piece.strip()))
    return Document(tuple(block for piece in _pieces(text) for block in _parse(piece)))


def plain_text(children: Sequence[Inline]) -> str:
    """What is left of inlines without their styles: for table cells, alternatives and logs of lengths."""
    return "".join(_plain(child) for child in children)


def _plain(child: Inline) -> str:
    match child:
        case Text(text) | Code(text):
            return text
        case LineBreak():
            return " "
        case Image(alt, href):
            return alt or href
        case Emphasis(children) | Strong(children) | Strike(children) | Link(children, _):
            return plain_text(children)


# Nested quotes and lists a person can read; also what keeps the recursions here and in renderers short.
_DEEPEST = 40
_PIECE = 16_000
_BLANK_LINES = re.compile(r"\n\n+")

# Anything that could mean more than itself. A text without it is paragraphs and line ends, and most answers are that.
_MARKUP = re.compile(
    r"[\\`*_\[\]<>|~&\t\r\0]"
    r"|^[^\S\n]|[^\S\n]$"  # indentation, trailing spaces
    r"|^[-+#=]|^\d{1,9}[.)]",
    re.MULTILINE,
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


_OFF = ["html_block", "html_inline", "reference"]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "maxNesting": _DEEPEST}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable(_OFF)


def _plain_paragraph(text: str) -> Paragraph:
    children: list[Inline] = []
    for line in text.strip().split("\n"):
        children += (LineBreak(), Text(line)) if children else (Text(line),)
    return Paragraph(tuple(children))


def _pieces(text: str) -> list[str]:
    """The text itself, or where it is long, runs of whole blocks; a code fence is not cut."""
    if len(text) <= _PIECE:
        return [text]
    pieces: list[str] = []
    lines: list[str] = []
    size, fence = 0, ""
    for line in text.splitlines(keepends=True):
        opened = _FENCE.match(line)
        if opened and (not fence or opened[1].startswith(fence)):
            fence = "" if fence else opened[1]
        if size >= _PIECE and (size >= 4 * _PIECE or not (fence or line.strip())):
            pieces.append("".join(lines))
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    return [*pieces, "".join(lines)]


def _parse(text: str) -> tuple[Block, ...]:
    tokens = _parser().parse(text)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return (_plain_paragraph(text),)  # the parser leaves out what is nested deeper
    return _Reader(tokens).blocks()


class _Reader:
    """Walks a flat list of tokens once and builds the tree."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def blocks(self) -> tuple[Block, ...]:
        """The blocks up to the end of the one that is being read."""
        found: list[Block] = []
        while self._at < len(self._tokens):
            token = self._next()
            if token.nesting < 0:
                break
            block = self._block(token)
            if block is not None:
                found.append(block)
        return tuple(found)

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _block(self, token: Token) -> Block | None:
        match token.type:
            case "paragraph_open":
                return Paragraph(self._inlines_of_block())
            case "heading_open":
                return Heading(int(token.tag[1:]), self._inlines_of_block())
            case "fence" | "code_block":
                words = token.info.split()
                return CodeBlock(token.content.removesuffix("\n"), words[0] if words else "")
            case "blockquote_open":
                return Quote(self.blocks())
            case "bullet_list_open":
                return BulletList(self._items())
            case "ordered_list_open":
                return NumberedList(int(token.attrs.get("start", 1)), self._items())
            case "table_open":
                return self._table()
            case "hr":
                return Rule()
            case _:
                return None

    def _inlines_of_block(self) -> tuple[Inline, ...]:
        children = _inlines(self._next().children or ())
        self._next()
        return children

    def _items(self) -> tuple[tuple[Block, ...], ...]:
        items: list[tuple[Block, ...]] = []
        while self._next().nesting > 0:
            items.append(self.blocks())
        return tuple(items)

    def _table(self) -> Table:
        alignments: list[Alignment] = []
        rows: list[list[Cell]] = []
        while (token := self._next()).type != "table_close":
            match token.type:
                case "tr_open":
                    rows.append([])
                case "th_open":
                    alignments.append(_alignment(str(token.attrs.get("style", ""))))
                case "inline":
                    rows[-1].append(_inlines(token.children or ()))
        header, *body = (tuple(row) for row in rows)
        return Table(tuple(alignments), header, tuple(body))


def _alignment(style: str) -> Alignment:
    for alignment in (Alignment.RIGHT, Alignment.CENTER):
        if style.endswith(alignment):
            return alignment
    return Alignment.LEFT


_STYLES: dict[str, Callable[[tuple[Inline, ...]], Inline]] = {"em": Emphasis, "strong": Strong, "s": Strike}


def _inlines(tokens: Sequence[Token]) -> tuple[Inline, ...]:
    open_runs: list[list[Inline]] = [[]]
    hrefs: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special":
                if token.content:
                    open_runs[-1].append(Text(token.content))
            case "softbreak" | "hardbreak":
                open_runs[-1].append(LineBreak())
            case "code_inline":
                open_runs[-1].append(Code(token.content))
            case "image":
                alt = plain_text(_inlines(token.children or ()))
                open_runs[-1].append(Image(alt, str(token.attrs.get("src", ""))))
            case "link_open":
                hrefs.append(str(token.attrs.get("href", "")))
                open_runs.append([])
            case "link_close":
                children = tuple(open_runs.pop())
                open_runs[-1].append(Link(children, hrefs.pop()))
            case "em_open" | "strong_open" | "s_open":
                open_runs.append([])
            case "em_close" | "strong_close" | "s_close":
                children = tuple(open_runs.pop())
                open_runs[-1].append(_STYLES[token.tag](children))
    return tuple(open_runs[0])
