"""Files on Discord: those that people upload, and ours.

The addresses of uploaded files are public for a day, so they are read without the token.
"""

from __future__ import annotations

import json
from io import BytesIO

import aiohttp
import structlog
from yarl import URL

from channels.base import Delivery
from channels.discord_connection import DiscordConnection, Refused
from channels.discord_events import NAME
from channels.discord_render import MAX_FILE_BYTES, Body, file_body, nonce_of, post_body
from channels.download import PATIENCE, read_file
from channels.errors import Rejected, Unavailable
from channels.files import refused_notice, too_large_notice
from channels.message import Attachment, OutgoingFile, OutgoingMessage

log = structlog.get_logger(__name__)


def is_discord(address: URL, api: URL | None) -> bool:
    """Whether an address is on Discord's file servers, or on the server that was set in the place of Discord's API."""
    if api is not None and (address.scheme, address.host, address.port) == (api.scheme, api.host, api.port):
        return True
    return address.scheme == "https" and address.port == 443 and address.host in _HOSTS


async def read_upload(attachment: Attachment, api_base_url: str | None, limit_bytes: int) -> bytes:
    """The content of an uploaded file; raises `Rejected` or `Unavailable`."""
    address = _address(attachment.source or "", URL(api_base_url) if api_base_url else None)
    timeout = aiohttp.ClientTimeout(PATIENCE.total_seconds())
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(address, allow_redirects=False) as answer,
        ):
            return await read_file(NAME, answer, limit_bytes)
    except TimeoutError as error:
        raise Unavailable(NAME, f"no file within {PATIENCE.total_seconds():g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(NAME, f"the connection broke ({type(error).__name__})") from error


async def send_file(
    connection: DiscordConnection, message: OutgoingMessage, number: int, file: OutgoingFile, delivery: Delivery
) -> str:
    """Post a file as part `number` of a message, or the line that says why not; the id of the post.

    The nonce of the part makes a repeated one harmless, as for texts.
    """
    nonce, reply_to = nonce_of(message.id, number), message.reply_to if number == 0 else None
    chat_id = message.address.chat_id
    if file.size_bytes > MAX_FILE_BYTES:
        notice = too_large_notice(file, _TITLE, MAX_FILE_BYTES)
    else:
        try:
            data = await delivery.read_file(file)
            body = file_body(file.filename, nonce, reply_to)
            return await connection.create_from(chat_id, form_of(body, file, data))
        except Rejected as error:
            log.warning("discord_file_refused", reason=error.reason, size_bytes=file.size_bytes)
            is_size = isinstance(error, Refused) and (error.code == _TOO_LARGE or error.status == _TOO_LARGE_STATUS)
            notice = refused_notice(file, _TITLE, "it is too large" if is_size else "")
    return await connection.create(chat_id, post_body(notice, nonce, reply_to, ()))


def form_of(body: Body, file: OutgoingFile, data: bytes) -> list[dict[str, object]]:
    """The parts of a request that carries one file, as the library takes them."""
    return [
        {"name": "payload_json", "value": json.dumps(body)},
        {"name": "files[0]", "value": BytesIO(data), "filename": file.filename, "content_type": file.mime_type},
    ]


_TITLE = "Discord"
# Discord API: error code and HTTP status of a request that is too large.
_TOO_LARGE, _TOO_LARGE_STATUS = 40005, 413

# Discord API, attachment object: `url` and `proxy_url`.
_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})


def _address(text: str, api: URL | None) -> URL:
    try:
        address = URL(text)
    except ValueError:
        raise Rejected(NAME, "a file without an address") from None
    if not is_discord(address, api):
        raise Rejected(NAME, "a file that is not on Discord")
    return address
