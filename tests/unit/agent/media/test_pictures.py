from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.messages import ImageRef
from agent.media.pictures import MOST_BYTES, MOST_BYTES_SHOWN, MOST_SHOWN, Picture, picture_in, refusal, shown
from tests.support.documents import png

JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 20, 30) + b"\x01\x01\x11\x00"
GIF = b"GIF89a" + struct.pack("<HH", 30, 20)
LOSSY = b"RIFF....WEBPVP8 ....\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 30, 20)
LOSSLESS = b"RIFF....WEBPVP8L....\x2f" + (29 | 19 << 14).to_bytes(4, "little")
EXTENDED = b"RIFF....WEBPVP8X........" + (29).to_bytes(3, "little") + (19).to_bytes(3, "little")


def ref(number: int, size: int = 1_000) -> ImageRef:
    return ImageRef(f"{number:064}", "image/png", f"{number}.png", f"{number}.png", size)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(30, 20), "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (LOSSY, "image/webp"),
        (LOSSLESS, "image/webp"),
        (EXTENDED, "image/webp"),
    ],
)
def test_picture_is_known_with_its_sides(data: bytes, media_type: str) -> None:
    assert picture_in(data) == Picture(media_type, 30, 20)


@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF....WEBP", LOSSY[:16], JPEG[:8]]),
    st.binary(max_size=60),
)
def test_any_bytes_are_looked_at_without_a_fault(start: bytes, rest: bytes) -> None:
    found = picture_in(start + rest)

    assert found is None or found.width >= 0


def test_what_is_no_picture_is_none_whatever_comes_before_it() -> None:
    assert picture_in(b"<svg></svg>") is None


@pytest.mark.parametrize(
    ("picture", "size", "refused"),
    [
        (Picture("image/png", 8_000, 10), MOST_BYTES, False),
        (Picture("image/png", 8_001, 10), 10, True),
        (Picture("image/png", 10, 10), MOST_BYTES + 1, True),
        (Picture("image/png", 0, 0), 10, True),
    ],
)
def test_models_are_shown_what_providers_take(picture: Picture, size: int, refused: bool) -> None:
    assert (refusal(picture, size) is not None) == refused


@given(st.lists(st.integers(1, MOST_BYTES), max_size=60))
def test_newest_pictures_are_shown_within_bounds_and_change_seldom(sizes: list[int]) -> None:
    images = [ref(number, size) for number, size in enumerate(sizes)]
    before: frozenset[str] = frozenset()
    changes = 0
    for count in range(len(images) + 1):
        now = shown(images[:count])
        assert len(now) <= MOST_SHOWN
        assert sum(image.size_bytes for image in images if image.digest in now) <= MOST_BYTES_SHOWN
        assert count == 0 or images[count - 1].digest in now
        changes += not before <= now
        before = now

    if all(size <= MOST_BYTES_SHOWN // MOST_SHOWN for size in sizes):
        assert changes <= max(0, len(sizes) - MOST_SHOWN + 4) // 5


def test_same_picture_sent_again_counts_once() -> None:
    assert len(shown([ref(1, MOST_BYTES)] * 20)) == 1
