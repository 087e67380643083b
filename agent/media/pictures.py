"""Pictures: which of them models take, and which of a conversation's are shown in a request. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from agent.llm.messages import ImageRef
from channels.files import SHOWN_IMAGES, describe

# Anthropic, "Vision": 5 MB of base64 a picture, 8000 pixels a side, 32 MB a request. OpenAI takes more.
MOST_BYTES = 3_900_000
MOST_PIXELS_A_SIDE = 8_000
MOST_SHOWN = 10
MOST_BYTES_SHOWN = 10_000_000


@dataclass(frozen=True, slots=True)
class Picture:
    """What the first bytes of a file say of the picture in it; the sides are 0 where they could not be read."""

    media_type: str
    width: int
    height: int


def picture_in(data: bytes) -> Picture | None:
    """The picture in a file, whatever its name says; None for what is none that models and browsers know."""
    media_type = describe("file", data).mime_type
    if media_type not in SHOWN_IMAGES:
        return None
    try:
        width, height = _SIDES[media_type](data)
    except (struct.error, IndexError):
        width, height = 0, 0
    return Picture(media_type, width, height)


def refusal(picture: Picture, size_bytes: int) -> str | None:
    """Why a picture cannot be shown to a model, or None if it can."""
    if picture.width == 0 or picture.height == 0:
        return "it seems to be damaged"
    if size_bytes > MOST_BYTES:
        return "it has too many bytes"
    if max(picture.width, picture.height) > MOST_PIXELS_A_SIDE:
        return "it has too many pixels"
    return None


def shown(images: Sequence[ImageRef]) -> frozenset[str]:
    """The digests of the pictures of a conversation that go along with a request, of `images` in their order.

    The newest do, within bounds. When they would go over a bound the older half is left out at once: so what was sent
    stays the same for several turns, and with it what a provider keeps of it.
    """
    window: list[ImageRef] = []
    for image in images:
        if any(image.digest == each.digest for each in window):
            continue
        while window and (len(window) >= MOST_SHOWN or _bytes(window) + image.size_bytes > MOST_BYTES_SHOWN):
            del window[: (len(window) + 1) // 2]
        window.append(image)
    return frozenset(image.digest for image in window)


def _bytes(images: Sequence[ImageRef]) -> int:
    return sum(image.size_bytes for image in images)


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    """The sides in the first frame header (ITU T.81: markers C0 to CF but C4, C8 and CC)."""
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        at += 2 + max(length, 2)
    return 0, 0


_SIDES = {"image/png": _png, "image/gif": _gif, "image/webp": _webp, "image/jpeg": _jpeg}
