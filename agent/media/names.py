"""Names for files that people send: safe on every file system, and no way to pass a key off as something else. Pure."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from pathlib import PurePosixPath

from agent.workspace.paths import is_sensitive
from channels.message import Attachment, AttachmentKind

FOLDER = "attachments"
"""The folder, below that of the one who sends, in which the files of each day lie."""

_LONGEST_NAME, _LONGEST_SUFFIX = 80, 16
_MOST_BYTES = 180  # file systems take 255; the rest is left for numbers
_AWKWARD = re.compile(r"[<>:\"|?*%\[\]`'@&]")
# Microsoft, "Naming files": names that mean a device, whatever their suffix.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)
_NAMELESS = {
    AttachmentKind.IMAGE: "picture",
    AttachmentKind.AUDIO: "recording",
    AttachmentKind.DOCUMENT: "document",
    AttachmentKind.OTHER: "file",
}


def safe_name(attachment: Attachment) -> str:
    """The name under which a file is kept: one part, visible, neither hidden nor a device, of a bounded length."""
    last = re.split(r"[/\\]", _visible(attachment.filename or ""))[-1]
    plain = " ".join(_AWKWARD.sub("_", last).split()).strip(". ")
    if not plain:
        return _nameless(attachment)
    if _DEVICES.match(plain):
        plain = f"_{plain}"
    stem, dot, suffix = plain.rpartition(".")
    if not dot or len(suffix) > _LONGEST_SUFFIX or len(suffix.encode()) > 2 * _LONGEST_SUFFIX:
        stem, dot, suffix = plain, "", ""
    room = _LONGEST_NAME - len(dot + suffix)
    short = _first_bytes(stem[:room], _MOST_BYTES - len((dot + suffix).encode())).rstrip(". ")
    return f"{short}{dot}{suffix}" if short else _nameless(attachment)


def looks_like_credentials(attachment: Attachment) -> bool:
    """Whether the name is one of keys and credentials, which file tools keep out of reach: such a file is not taken."""
    given = _visible(attachment.filename or "").replace("\\", "/").strip("/ ")
    return is_sensitive(PurePosixPath(given)) or is_sensitive(PurePosixPath(safe_name(attachment)))


def numbered(name: str, number: int) -> str:
    """The name for the `number`-th file of that name, from 1."""
    if number == 1:
        return name
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{number}.{suffix}" if dot else f"{name}-{number}"


def _visible(name: str) -> str:
    """The name without what reorders, hides or breaks text, in the composed form."""
    composed = unicodedata.normalize("NFC", name)
    return "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in composed)


def _nameless(attachment: Attachment) -> str:
    suffix = mimetypes.guess_extension(attachment.mime_type.partition(";")[0].strip().lower()) or ""
    return _NAMELESS[attachment.kind] + suffix


def _first_bytes(text: str, limit: int) -> str:
    return text.encode()[: max(limit, 1)].decode(errors="ignore")
