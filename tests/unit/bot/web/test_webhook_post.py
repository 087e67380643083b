"""Posts of other programs: whatever is sent, it is a message or an error that says what is wrong."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.web.access import bears_signature, has_signature
from bot.web.errors import Refused
from bot.web.webhook_post import MOST_CONTENT_BYTES, Post, parse_post
from channels.message import AttachmentKind
from tests.support.webhook_bench import a_file, signed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["content", "thread_id", "id", "wait_for_response", "attachments", "secret", "other"])
FILE_FIELDS = st.sampled_from(["filename", "mime_type", "data_base64", "url"])
FILES = st.lists(st.dictionaries(FILE_FIELDS, JSON | st.just("aGVsbG8="), max_size=4), max_size=7)
BODIES = st.dictionaries(FIELDS, JSON | FILES, max_size=6)


def parsed(raw: bytes) -> Post | Refused:
    try:
        return parse_post(raw)
    except Refused as error:
        return error


def post(**body: object) -> Post:
    return parse_post(json.dumps(body).encode())


def refusal(**body: object) -> Refused:
    with pytest.raises(Refused) as found:
        post(**body)
    return found.value


@given(st.binary(max_size=300))
def test_any_bytes_are_a_post_or_an_error_of_the_sender(raw: bytes) -> None:
    found = parsed(raw)

    assert isinstance(found, Post) or 400 <= found.status < 500


@given(BODIES | JSON)
def test_any_json_is_a_post_or_an_error_of_the_sender(body: object) -> None:
    found = parsed(json.dumps(body).encode())

    assert isinstance(found, Post) or (400 <= found.status < 500 and found.message)


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[]", b'"content"', b"[" * 100_000, b'{"content": "\\ud800"}', b'{"content": "\xff"}']
)
def test_what_is_no_object_of_texts_is_refused(raw: bytes) -> None:
    found = parsed(raw)

    assert isinstance(found, Refused)
    assert found.status == 400


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.replace("\0", "").strip()))
def test_content_arrives_as_it_was_sent(text: str) -> None:
    assert post(content=text).text == text.replace("\0", "")


@given(st.binary(min_size=1, max_size=200), st.text(max_size=60), st.text(max_size=40))
def test_file_arrives_as_it_was_sent_under_a_name_without_folders(data: bytes, name: str, mime: str) -> None:
    found = post(attachments=[a_file(data, name, mime_type=mime)])

    (attachment,) = found.attachments
    assert found.files[0].data == data
    assert attachment.source == found.files[0].file.digest
    assert not set(attachment.filename or "") & set("/\\\n\r\0")
    assert attachment.mime_type.count("/") == 1


def test_kind_of_a_file_is_what_the_program_says_or_what_its_name_says() -> None:
    files = [a_file(b"x", "a.bin", mime_type="audio/ogg; codecs=opus"), a_file(b"x", "a.txt", mime_type="no type")]

    said, unsaid = post(attachments=files).attachments

    assert (said.kind, said.mime_type) == (AttachmentKind.AUDIO, "audio/ogg")
    assert (unsaid.kind, unsaid.mime_type) == (AttachmentKind.DOCUMENT, "text/plain")


def test_base64_may_be_broken_into_lines() -> None:
    data = bytes(range(200))
    lines = base64.encodebytes(data).decode()

    assert post(attachments=[{"data_base64": lines}]).files[0].data == data


def test_what_is_not_said_has_a_default() -> None:
    first, second = post(content="x"), post(content="x")

    assert (first.conversation, first.waits, first.files) == ("main", False, ())
    assert first.message_id != second.message_id


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "ü", "a" * 129, "../\0", 7, None])
@pytest.mark.parametrize("field", ["thread_id", "id"])
def test_names_are_short_and_plain(field: str, name: object) -> None:
    if name is None:
        assert post(content="x", **{field: name}).text == "x"
    else:
        assert refusal(content="x", **{field: name}).message.startswith(f"{field}: ")


@pytest.mark.parametrize("word", ["yes", 1, "true"])
def test_waiting_is_true_or_false(word: object) -> None:
    assert "wait_for_response" in refusal(content="x", wait_for_response=word).message


def test_content_is_measured_in_bytes() -> None:
    assert refusal(content="é" * (MOST_CONTENT_BYTES // 2) + "x").status == 413


@pytest.mark.parametrize("content", ["", "  \n", "\0"])
def test_empty_content_is_refused_unless_there_is_a_file(content: str) -> None:
    assert refusal(content=content).status == 400
    assert len(post(content=content, attachments=[a_file(b"x")]).files) == 1


def test_error_does_not_repeat_what_was_sent() -> None:
    refused = refusal(content=["zanzibar"], secret="zanzibar", thread_id="zan zibar", zanzibar="zanzibar")

    assert "zanzibar" not in refused.message.replace("zanzibar: ", "")


@given(st.binary(max_size=100), st.text(max_size=80), st.text(max_size=20))
def test_any_header_is_a_signature_or_not(body: bytes, header: str, secret: str) -> None:
    headers = {"X-Hub-Signature-256": header}

    assert has_signature(headers) or not bears_signature(headers, body, secret)
    assert bears_signature(headers, body, secret) is (
        header.strip().lower() == signed(body, secret)["X-Hub-Signature-256"] and bool(secret.strip())
    )
    assert bears_signature(signed(body, secret), body, secret) is bool(secret.strip())
