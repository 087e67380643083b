"""How an answer looks on Discord, and the bodies of the requests that carry it. Pure: knows no SDK and no socket."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from typing import TypeAlias
from uuid import UUID

from pydantic import JsonValue

from channels.chunking import split_text, utf16_len
from channels.markdown import Alignment, Table, parse_markdown, plain_text
from channels.message import Choice
from channels.text import whole_text

Body: TypeAlias = dict[str, JsonValue]

# Discord API, create message: content of up to 2000 characters. Some room is left for a closed fence; a UTF-16 unit
# counts as one, so that no way of counting characters comes out above the limit.
MAX_TEXT = 1900

# Discord API, uploading files: 10 MiB by default and more in boosted servers, which Discord knows and we do not; this
# is the most that any server takes.
MAX_FILE_BYTES = 100 * 1024 * 1024

DRAFT_PART = 999
"""The part number of a draft, in its nonce."""


def render_parts(text: str) -> tuple[str, ...]:
    """The messages that show a Markdown text, in order; none for a blank one."""
    return split_text(discord_markdown(text), MAX_TEXT, measure=utf16_len)


def render_draft(text: str) -> str:
    """The beginning of an unfinished text, as one message; empty where there is nothing to show."""
    parts = render_parts(text)
    if len(parts) < 2:
        return "".join(parts)
    return f"{parts[0]}\n…"


def discord_markdown(text: str) -> str:
    """Markdown as Discord shows it: what it knows stays as written, tables become aligned code, fences are closed.

    Discord has headings of three levels, no tables and no pictures by link.
    """
    return "\n".join(_lines(whole_text(text).replace("\x00", "").split("\n")))


def post_body(content: str, nonce: str, reply_to: str | None, choices: Sequence[Choice]) -> Body:
    """The body that creates a message; the same nonce within some minutes gives the same message."""
    body = {**_common(content), "nonce": nonce, "enforce_nonce": True}
    if choices:
        body["components"] = _rows(choices)
    if reply_to is not None and reply_to.isdecimal():
        body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return body


def file_body(filename: str, nonce: str, reply_to: str | None) -> Body:
    """The body that creates a message with one file and no text."""
    body = post_body("", nonce, reply_to, ())
    del body["content"]
    body["attachments"] = [{"id": 0, "filename": filename}]
    return body


def patch_body(content: str, choices: Sequence[Choice]) -> Body:
    """The body that replaces a message's text and buttons."""
    return {**_common(content), "components": _rows(choices)}


def note_body(text: str) -> Body:
    """The body of a short note that only the one who pressed a button sees."""
    return {**_common(text[:MAX_TEXT]), "flags": _SUPPRESS_EMBEDS | _EPHEMERAL}


def plain_body(body: Body) -> Body:
    """The same message without the decorations that Discord may find invalid."""
    return {key: value for key, value in body.items() if key not in ("components", "message_reference")}


def nonce_of(message_id: UUID, part: int) -> str:
    """A key for one part of a message. Discord API, create message: a nonce has up to 25 characters."""
    return f"{urlsafe_b64encode(message_id.bytes).decode().rstrip('=')}{part % 1000:03d}"


# Discord API, message flags. A link in an answer must not make Discord fetch it for everybody.
_SUPPRESS_EMBEDS = 1 << 2
_EPHEMERAL = 1 << 6
# Discord API, button styles: secondary, success, danger. Labels have up to 80 characters, rows up to 5 buttons.
_PLAIN, _YES, _NO = 2, 3, 4
_LABEL, _ROW = 80, 5

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)$")
_DEEP_HEADING = re.compile(r" {0,3}#{4,6}[ \t]+(.+)$")
# Possessive: each run of blanks is walked once, not in each way to share it out.
_DELIMITERS = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_PICTURE = re.compile(r"!(\[[^\[\]\n]{0,300}\]\([^)\s]{1,500}\))")


def _common(content: str) -> Body:
    return {
        "content": content,
        "flags": _SUPPRESS_EMBEDS,
        "allowed_mentions": {"parse": [], "replied_user": False},
    }


def _rows(choices: Sequence[Choice]) -> list[JsonValue]:
    buttons = [_button(choice) for choice in choices]
    return [{"type": 1, "components": buttons[at : at + _ROW]} for at in range(0, len(buttons), _ROW)]


def _button(choice: Choice) -> JsonValue:
    style = {"y": _YES, "n": _NO}.get(choice.data.rpartition(":")[2], _PLAIN)
    return {"type": 2, "style": style, "label": choice.label[:_LABEL], "custom_id": choice.data}


def _lines(lines: Sequence[str]) -> Iterator[str]:
    fence = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not opened[2].strip():
                fence = ""
        elif opened and not (opened[1][0] == "`" and "`" in opened[2]):
            fence = opened[1]
        elif "|" in line and at + 1 < len(lines) and "|" in lines[at + 1] and _DELIMITERS.match(lines[at + 1]):
            end = next((n for n in range(at, len(lines)) if "|" not in lines[n]), len(lines))
            yield from _table(lines[at:end])
            at = end
            continue
        else:
            line = _inline(line)
        yield line
        at += 1
    if fence:
        yield fence


def _inline(line: str) -> str:
    heading = _DEEP_HEADING.match(line)
    if heading:
        title = heading[1].rstrip(" \t#").replace("**", "")
        return f"**{title}**" if title else line
    return _PICTURE.sub(r"\1", line) if "![" in line else line


def _table(lines: Sequence[str]) -> Sequence[str]:
    """The lines of a table as a fenced block, columns aligned; as they are where they are no table after all."""
    match parse_markdown("\n".join(lines)).blocks:
        case (Table() as table,):
            rows = [[plain_text(cell).replace("```", "'''") for cell in row] for row in (table.header, *table.rows)]
            widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
            padded = ["  ".join(map(_pad, row, widths, table.alignments)).rstrip() for row in rows]
            rule = "  ".join("-" * width for width in widths)
            return ["```", padded[0], rule, *padded[1:], "```"]
        case _:
            return lines


def _pad(text: str, width: int, alignment: Alignment) -> str:
    match alignment:
        case Alignment.LEFT:
            return text.ljust(width)
        case Alignment.CENTER:
            return text.center(width)
        case Alignment.RIGHT:
            return text.rjust(width)
