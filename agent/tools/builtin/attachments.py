"""Files that a model names as attachments: the asker's own, within bounds, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent.store.blobs import Blob
from agent.tools.builtin.files import file_place
from agent.workspace.errors import DocumentTooLarge, WorkspaceError
from agent.workspace.files import read_file
from agent.workspace.scope import Scope
from agent.workspace.workspace import as_ours
from channels.files import size_words

MOST_FILES = 10
MOST_BYTES = 20_000_000
# They are written in one transaction, and other people's turns wait for it.
MOST_BYTES_TOGETHER = 50_000_000

# A text is looked through in pieces that overlap by more than the longest secret: each takes some milliseconds.
_PIECE, _OVERLAP = 64 * 1024, 8 * 1024


class AttachmentRefused(WorkspaceError):
    """The files cannot be sent like this."""


def read_attachments(root: Path, scope: Scope, paths: Sequence[str], is_secret: Callable[[str], bool]) -> list[Blob]:
    """The files at these paths, all or none. Blocks for as long as reading takes: call it beside the event loop.

    Raises WorkspaceError for what is out of the asker's reach, missing, too large or holds a secret.
    """
    if len(paths) > MOST_FILES:
        raise AttachmentRefused(f"At most {MOST_FILES} files fit into one message; send the others in another one.")
    found: list[Blob] = []
    for path in paths:
        blob = _read(root, scope, path)
        if is_secret(blob.file.filename) or _holds_secret(blob.data, is_secret):
            raise AttachmentRefused(f"{blob.file.filename!r} holds what looks like a key, token or password.")
        found.append(blob)
        if sum(len(each.data) for each in found) > MOST_BYTES_TOGETHER:
            most = size_words(MOST_BYTES_TOGETHER)
            raise AttachmentRefused(f"The files of one message may have {most} together; send them in several.")
    return found


def _read(root: Path, scope: Scope, path: str) -> Blob:
    real_root, place = file_place(root, scope, path)
    try:
        with as_ours(str(place.path)):
            return Blob.of(place.path.name, read_file(real_root, place.parts, MOST_BYTES).data)
    except DocumentTooLarge as error:
        sizes = f"{size_words(error.size)}, and {size_words(MOST_BYTES)} is the most"
        raise AttachmentRefused(f"{str(place.path)!r} is too large to be sent: {sizes}.") from error


def _holds_secret(data: bytes, is_secret: Callable[[str], bool]) -> bool:
    """Whether a text file holds a secret. What is no text is not looked into."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if encoding == "utf-8" and b"\0" in data:
        return False
    text = data.decode(encoding, "ignore")
    return any(is_secret(text[at : at + _PIECE + _OVERLAP]) for at in range(0, len(text), _PIECE))
