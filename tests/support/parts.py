"""The delivery of one message, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from agent.store.blobs import Blob
from channels.errors import Rejected
from channels.message import OutgoingFile


class Parts:
    """A `Delivery`: `sent` are the parts that arrived before, `files` the contents there are."""

    def __init__(self, *sent: str, files: Sequence[Blob] = ()) -> None:
        self.noted = list(sent)
        self.contents = {each.file.digest: each.data for each in files}

    @property
    def sent(self) -> tuple[str, ...]:
        return tuple(self.noted)

    async def record(self, platform_id: str) -> None:
        self.noted.append(platform_id)

    async def read_file(self, file: OutgoingFile) -> bytes:
        if file.digest not in self.contents:
            raise Rejected("memory", "the content is gone")
        return self.contents[file.digest]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def png(name: str = "chart.png", extra: bytes = b"") -> Blob:
    """A small image."""
    return Blob.of(name, PNG + extra)


def note(name: str = "notes.txt", text: str = "words\n") -> Blob:
    """A small text file."""
    return Blob.of(name, text.encode())


def claims(blob: Blob, size_bytes: int) -> OutgoingFile:
    """The same file, said to be of another size."""
    return blob.file.model_copy(update={"size_bytes": size_bytes})
