"""Text out of files that hold nothing else, and the form in which foreign text stands in a prompt. Pure."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from agent.safety.markers import neutralize

_TEXT_TYPES = re.compile(
    r"text/|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|x-sh|sql|rtf|x-ndjson|x-tex)\b"
)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MOST_BYTES = 1_000_000
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROLS_OF_LATIN_1 = re.compile("[\x80-\x9f]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_WHOLE_LINE_IN_BRACKETS = re.compile(r"^([^\S\n]*+)\[(?=[^\n]*\][^\S\n]*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlainText:
    """What a text file says. `is_whole`: the file was read to its end."""

    text: str
    is_whole: bool = True


def decode_text(data: bytes, mime_type: str) -> PlainText | None:
    """The text in `data`, at most its first million bytes, or None if it holds none.

    UTF-8 and UTF-16 are told by what is in the file; Latin-1, which anything can be read as, only where the sender's
    program calls the file a text and it has no control characters.
    """
    encoding = next((encoding for bom, encoding in _BOMS if data.startswith(bom)), "utf-8")
    is_whole = len(data) <= _MOST_BYTES
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data[:_MOST_BYTES], final=is_whole)
    except UnicodeDecodeError:
        if encoding != "utf-8" or not _TEXT_TYPES.match(mime_type.lower()):
            return None
        text = data[:_MOST_BYTES].decode("latin-1")
        return None if _CONTROLS.search(text) or _CONTROLS_OF_LATIN_1.search(text) else PlainText(text, is_whole)
    if "\0" in text or len(_CONTROLS.findall(text)) * 100 > len(text):
        return None
    return PlainText(text, is_whole)


def as_data(text: str) -> str:
    """Foreign text such that nothing in it ends its element, opens another, or passes for a line of the program.

    `&` and `<` are escaped as in XML; a line that stands in brackets as a whole loses the first of them; what reorders
    or hides text is dropped.
    """
    lines = _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))
    escaped = lines.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return neutralize(_WHOLE_LINE_IN_BRACKETS.sub(r"\1&#91;", escaped))
