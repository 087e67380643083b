"""Files on their way out: what is told of them, and the words where one cannot be sent. Pure."""

from __future__ import annotations

import mimetypes
import re
from hashlib import sha256

from channels.message import AttachmentKind, OutgoingFile

_OCTETS = "application/octet-stream"
_PLAIN_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,80}/[a-z0-9][a-z0-9.+-]{0,80}")

# The first bytes of the formats that platforms and browsers show: such a file is what they say, whatever its name.
_MAGIC = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that are shown as such; every other file is offered for download."""


def describe(filename: str, data: bytes) -> OutgoingFile:
    """What is told of a file. A large one is hashed for some hundredths of a second: call it beside the event loop."""
    mime_type = _mime_type(filename, data)
    return OutgoingFile(
        digest=sha256(data).hexdigest(),
        filename=filename,
        mime_type=mime_type,
        size_bytes=len(data),
        kind=_kind(mime_type),
    )


def size_words(size_bytes: int) -> str:
    """A size as people say it: `12 bytes`, `3.4 kB`, `20 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} byte{'s' if size_bytes != 1 else ''}"
    size = size_bytes / 1000
    for unit in ("kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"


def name_and_size(file: OutgoingFile) -> str:
    """A file in one line of Markdown. The name is code: whatever stands in it stays a name."""
    name = file.filename.replace("`", "'")
    return f"`{name}` ({size_words(file.size_bytes)})"


def too_large_notice(file: OutgoingFile, platform: str, most_bytes: int) -> str:
    """The line that stands in the place of a file that is too large for a platform, as Markdown."""
    return f"The file {name_and_size(file)} was not sent: {platform} takes files of up to {size_words(most_bytes)}."


def refused_notice(file: OutgoingFile, platform: str, cure: str = "") -> str:
    """The line that stands in the place of a file that a platform does not take, as Markdown."""
    return (
        f"The file {name_and_size(file)} was not sent: {platform} does not take it here{f' ({cure})' if cure else ''}."
    )


def _mime_type(filename: str, data: bytes) -> str:
    shown = next((mime for magic, mime in _MAGIC if magic.match(data)), None)
    if shown is not None:
        return shown
    guessed = (mimetypes.guess_type(f"x/{filename}")[0] or _OCTETS).lower()
    if guessed in SHOWN_IMAGES or not _PLAIN_MIME.fullmatch(guessed):
        return _OCTETS
    return guessed


def _kind(mime_type: str) -> AttachmentKind:
    match mime_type.partition("/")[0]:
        case "image":
            return AttachmentKind.IMAGE
        case "audio":
            return AttachmentKind.AUDIO
        case "text" | "application":
            return AttachmentKind.DOCUMENT
        case _:
            return AttachmentKind.OTHER
