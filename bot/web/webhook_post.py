"""The body of a post of another program, parsed once: a message and its files. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import uuid4

from pydantic import Field, StrictBool, model_validator

from agent.store.blobs import Blob
from bot.web.bodies import Body, parse_json
from bot.web.errors import Refused
from channels.message import Attachment, AttachmentKind
from channels.webhook import MAIN_CONVERSATION

MOST_BYTES = 15 * 1024 * 1024
MOST_CONTENT_BYTES = 32 * 1024
MOST_FILES = 5
MOST_BYTES_OF_A_FILE = 5 * 1024 * 1024
MOST_BYTES_OF_FILES = 10 * 1024 * 1024

_PLAIN_NAME = r"^[A-Za-z0-9._:@/#+-]{1,128}$"
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,80}/[a-z0-9][a-z0-9.+-]{0,80}")
_KINDS = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO}

PlainName = Annotated[str, Field(pattern=_PLAIN_NAME)]


@dataclass(frozen=True, slots=True)
class Post:
    """A message as a program sent it. `message_id` is its own where it gave one, else a new one."""

    text: str
    conversation: str
    message_id: str
    waits: bool
    attachments: tuple[Attachment, ...]
    files: tuple[Blob, ...]


class PostedFile(Body):
    """One of `attachments`."""

    data_base64: str | None = None
    filename: Annotated[str, Field(max_length=1000)] | None = None
    mime_type: Annotated[str, Field(max_length=200)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_url(cls, given: object) -> object:
        if isinstance(given, dict) and ("url" in given or "source_url" in given):
            raise ValueError("urls are not fetched; send the file itself as data_base64")
        return given


class PostBody(Body):
    """`POST /webhook`."""

    content: str = ""
    thread_id: PlainName | None = None
    id: PlainName | None = None
    wait_for_response: StrictBool = False
    attachments: tuple[PostedFile, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_secret(cls, given: object) -> object:
        if isinstance(given, dict) and "secret" in given:
            raise ValueError("the secret does not belong into the body; the X-Hub-Signature-256 header is enough")
        return given


def parse_post(raw: bytes) -> Post:
    """The post in a body. A large one takes some hundredths of a second. Raises Refused, which says what is wrong."""
    body = parse_json(raw, PostBody)
    text = body.content.replace("\x00", "")  # Postgres refuses NUL in text
    if len(text.encode("utf-8", "surrogatepass")) > MOST_CONTENT_BYTES:
        raise _too_large(f"content: at most {MOST_CONTENT_BYTES} bytes; send what is longer as a file in attachments.")
    if not text.strip() and not body.attachments:
        raise Refused(400, "bad_request", "content: it must not be empty where there are no attachments.")
    files = _files(body.attachments)
    return Post(
        text=text,
        conversation=body.thread_id or MAIN_CONVERSATION,
        message_id=body.id or uuid4().hex,
        waits=body.wait_for_response,
        attachments=tuple(
            _attachment(number, posted, file)
            for number, (posted, file) in enumerate(zip(body.attachments, files, strict=True), 1)
        ),
        files=files,
    )


def _files(posted: Sequence[PostedFile]) -> tuple[Blob, ...]:
    if len(posted) > MOST_FILES:
        raise Refused(400, "bad_request", f"attachments: at most {MOST_FILES}.")
    found: list[Blob] = []
    for number, each in enumerate(posted, 1):
        found.append(Blob.of(each.filename or "", _content(number, each)))
        if sum(len(file.data) for file in found) > MOST_BYTES_OF_FILES:
            raise _too_large(f"attachments: at most {MOST_BYTES_OF_FILES} bytes together.")
    return tuple(found)


def _content(number: int, posted: PostedFile) -> bytes:
    where = f"attachments, file {number}"
    try:
        data = base64.b64decode("".join((posted.data_base64 or "").split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(400, "bad_request", f"{where}: data_base64 is not base64.") from error
    if not data:
        raise Refused(400, "bad_request", f"{where}: data_base64 is missing or empty.")
    if len(data) > MOST_BYTES_OF_A_FILE:
        raise _too_large(f"{where}: at most {MOST_BYTES_OF_A_FILE} bytes.")
    return data


def _attachment(number: int, posted: PostedFile, blob: Blob) -> Attachment:
    """What is told of a file. Its type is what the program says where that is one, else what name and bytes say."""
    said = (posted.mime_type or "").partition(";")[0].strip().lower()
    mime_type = said if _MIME_TYPE.fullmatch(said) else blob.file.mime_type
    return Attachment(
        id=f"{number}-{blob.file.digest[:16]}",
        kind=_KINDS.get(mime_type.partition("/")[0], AttachmentKind.DOCUMENT),
        mime_type=mime_type,
        filename=blob.file.filename if posted.filename else None,
        size_bytes=len(blob.data),
        source=blob.file.digest,
    )


def _too_large(message: str) -> Refused:
    return Refused(413, "too_large", message)
