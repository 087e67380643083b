"""What is told of a file that goes out."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.files import describe, name_and_size, refused_notice, size_words, too_large_notice
from channels.message import AttachmentKind, OutgoingMessage
from tests.support.parts import PNG


@given(name=st.text(max_size=300), data=st.binary(max_size=40))
def test_any_name_becomes_one_safe_line(name: str, data: bytes) -> None:
    file = describe(name, data)

    assert 1 <= len(file.filename) <= 100
    assert not set(file.filename) & set('/\\"')
    assert not file.filename.startswith(".")
    assert all(unicodedata.category(c)[0] != "C" for c in file.filename)
    assert "\n" not in name_and_size(file)


@given(name=st.text(max_size=60))
def test_name_in_a_notice_cannot_leave_its_code(name: str) -> None:
    for notice in (refused_notice(describe(name, b""), "X"), too_large_notice(describe(name, b""), "X", 5)):
        assert notice.count("`") == 2
        assert "\n" not in notice


@pytest.mark.parametrize(
    ("name", "data", "mime", "kind"),
    [
        ("a.png", PNG, "image/png", AttachmentKind.IMAGE),
        ("a.txt", PNG, "image/png", AttachmentKind.IMAGE),
        ("fake.png", b"<script>", "application/octet-stream", AttachmentKind.DOCUMENT),
        ("a.svg", b"<svg/>", "image/svg+xml", AttachmentKind.IMAGE),
        ("a.csv", b"1,2", "text/csv", AttachmentKind.DOCUMENT),
        ("a", b"", "application/octet-stream", AttachmentKind.DOCUMENT),
    ],
)
def test_type_comes_from_the_content_before_the_name(name: str, data: bytes, mime: str, kind: AttachmentKind) -> None:
    file = describe(name, data)

    assert (file.mime_type, file.kind, file.size_bytes) == (mime, kind, len(data))


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1, "1 byte"), (1500, "1.5 kB"), (20_000_000, "20 MB"), (10**9, "1 GB")]
)
def test_sizes_are_said_as_people_say_them(size: int, words: str) -> None:
    assert size_words(size) == words


def test_message_of_an_earlier_release_has_no_files() -> None:
    old = '{"id":"00000000-0000-4000-8000-000000000001","address":{"channel":"web","chat_id":"main"},"text":"hi"}'

    assert OutgoingMessage.model_validate_json(old).files == ()
