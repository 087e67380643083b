"""Reading a file of a platform without ever holding more of it than was asked for."""

from __future__ import annotations

from datetime import timedelta

from aiohttp import ClientResponse

from channels.errors import Rejected, Unavailable

# Telegram Bot API, getFile: files of up to 20 MB. The same bound serves everywhere.
MOST_BYTES = 20 * 1024 * 1024
# How long one download may take in all.
PATIENCE = timedelta(seconds=60)

_PIECE = 64 * 1024


def check_size(channel: str, size_bytes: int | None, limit_bytes: int) -> None:
    """Raise `Rejected` if a file is known to be larger than allowed."""
    most = min(limit_bytes, MOST_BYTES)
    if size_bytes is not None and size_bytes > most:
        raise Rejected(channel, f"a file of {size_bytes} bytes, and at most {most} are taken")


async def read_file(channel: str, answer: ClientResponse, limit_bytes: int) -> bytes:
    """The body of the answer to a request for a file, which need not tell its length truly.

    Raises `Rejected` where it is too large or the platform refuses it, `Unavailable` where the platform is at fault.
    """
    if answer.status == 429 or answer.status >= 500:
        raise Unavailable(channel, f"HTTP status {answer.status} for a file")
    if answer.status != 200:  # a redirection too: it could lead anywhere
        raise Rejected(channel, f"HTTP status {answer.status} for a file")
    check_size(channel, answer.content_length, limit_bytes)
    content = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        content += piece
        check_size(channel, len(content), limit_bytes)
    return bytes(content)
