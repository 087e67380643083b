"""Files that people upload to Discord: their addresses are public for a day, so they are read without the token."""

from __future__ import annotations

import aiohttp
from yarl import URL

from channels.discord_events import NAME
from channels.download import PATIENCE, read_file
from channels.errors import Rejected, Unavailable
from channels.message import Attachment


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
