"""Files on their way to Slack: an address is asked for, the bytes go there, then the file is shown in a chat.

Nobody sees a file before the last step, so the first two may be repeated.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from io import BytesIO
from typing import Annotated

import aiohttp
import structlog
from pydantic import BeforeValidator

from channels.errors import RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address, OutgoingFile
from channels.slack_api import Answer, SlackApi
from channels.slack_events import NAME, Me

log = structlog.get_logger(__name__)

# Slack help centre, "Add files to Slack": up to 1 GB each.
MAX_FILE_BYTES = 1_000_000_000

SCOPE = "files:write"
_UPLOAD = timedelta(seconds=300)
_UNSTATED_WAIT = timedelta(seconds=30)
_MOST_PAGES = 10


def is_file_id(platform_id: str) -> bool:
    """Whether an id is that of a file; posts have a time instead."""
    return platform_id.startswith("F")


async def upload(api: SlackApi, file: OutgoingFile, data: bytes) -> str:
    """Bring the bytes to Slack; the id of a file that nobody sees yet.

    An app without the scope for files still writes texts: that is `Rejected`, not `Unauthorized`.
    """
    try:
        request = api.client.files_getUploadURLExternal(filename=file.filename, length=file.size_bytes)
        place = await api.call(_Place, request)
    except Unauthorized as error:
        if SCOPE in error.cure:
            raise Rejected(NAME, error.cure) from error
        raise
    await _post(api, place.upload_url, data)
    return place.file_id


async def share(api: SlackApi, address: Address, file_id: str, title: str) -> None:
    """Show an uploaded file in a chat, in its thread if it has one."""
    request = api.client.files_completeUploadExternal(
        files=[{"id": file_id, "title": title}], channel_id=address.chat_id, thread_ts=address.thread_id
    )
    await api.call(Answer, request, creates=True)


async def share_again(api: SlackApi, address: Address, file_id: str, title: str) -> bool:
    """Show an upload of an earlier try; False where Slack no longer has it."""
    try:
        await share(api, address, file_id, title)
    except Rejected as error:
        log.info("slack_upload_gone", reason=error.reason)
        return False
    return True


async def is_shared(api: SlackApi, address: Address, file_id: str, me: Me, *, since: str) -> bool:
    """Whether a file is shown in a chat by a post of ours after `since`.

    Slack shows a file some moments after it has said so: one that was shown just now may be missed.
    """
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await api.call(_Page, api.history(address, since, cursor))
        if any(m.user == me.user_id and file_id in [each.id for each in m.files] for m in page.messages):
            return True
        cursor = page.response_metadata.next_cursor
        if not cursor:
            return False
    raise Unavailable(NAME, "too many messages to look through")


async def _post(api: SlackApi, url: str, data: bytes) -> None:
    """Bring bytes to an address of Slack's, which needs no token. No error names it: it is as good as one."""
    session = api.client.session
    assert session is not None
    headers = {"Content-Type": "application/octet-stream"}
    body = BytesIO(data)  # sent in pieces
    try:
        async with (
            asyncio.timeout(_UPLOAD.total_seconds()),
            session.post(url, data=body, headers=headers, proxy=api.client.proxy, allow_redirects=False) as answer,
        ):
            status = answer.status
    except TimeoutError:
        raise Unavailable(NAME, "an upload took too long") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(NAME, f"an upload broke ({type(error).__name__})") from None
    if status == 429:
        raise RateLimited(NAME, _UNSTATED_WAIT)
    if status >= 500:
        raise Unavailable(NAME, f"status {status} for an upload")
    if status != 200:
        raise Rejected(NAME, f"status {status} for an upload")


def _or_empty(value: object) -> object:
    return {} if value is None else value


class _Place(Answer):
    upload_url: str
    file_id: str


class _File(Answer):
    id: str = ""


class _Message(Answer):
    user: str = ""
    files: tuple[_File, ...] = ()


class _Cursor(Answer):
    next_cursor: str = ""


class _Page(Answer):
    messages: tuple[_Message, ...] = ()
    response_metadata: Annotated[_Cursor, BeforeValidator(_or_empty)] = _Cursor()
