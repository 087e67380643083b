"""Files that people upload to Slack, read with the bot's token from Slack's own hosts and no others."""

from __future__ import annotations

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from channels.download import PATIENCE, read_file
from channels.errors import Rejected, Unavailable
from channels.message import Attachment
from channels.slack_events import NAME


def is_slack(address: URL, api: URL) -> bool:
    """Whether an address may be shown the token: one of Slack's hosts, or the server that the Web API is asked at."""
    if (address.scheme, address.host, address.port) == (api.scheme, api.host, api.port):
        return True
    host = address.host or ""
    return address.scheme == "https" and address.port == 443 and (host == "slack.com" or host.endswith(".slack.com"))


async def read_upload(client: AsyncWebClient, attachment: Attachment, limit_bytes: int) -> bytes:
    """The content of an uploaded file; raises `Rejected` or `Unavailable`."""
    address = _address(attachment.source or "", URL(client.base_url))
    if client.session is None:
        raise Unavailable(NAME, "not connected")
    request = client.session.get(
        address,
        headers={"Authorization": f"Bearer {client.token}"},
        timeout=aiohttp.ClientTimeout(PATIENCE.total_seconds()),
        allow_redirects=False,
        proxy=client.proxy,
    )
    try:
        async with request as answer:
            if answer.status == 200 and answer.content_type == "text/html" and attachment.mime_type != "text/html":
                raise Rejected(NAME, _SIGN_IN)
            if 300 <= answer.status < 400:
                raise Rejected(NAME, _SIGN_IN)
            return await read_file(NAME, answer, limit_bytes)
    except TimeoutError as error:
        raise Unavailable(NAME, f"no file within {PATIENCE.total_seconds():g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(NAME, f"the connection broke ({type(error).__name__})") from error


# Slack answers with its sign-in page where a token may not read files.
_SIGN_IN = "Slack wants a sign-in for this file: give the app the scope files:read, then install it again"


def _address(text: str, api: URL) -> URL:
    try:
        address = URL(text)
    except ValueError:
        raise Rejected(NAME, "a file without an address") from None
    if not is_slack(address, api):
        raise Rejected(NAME, "a file that is not on Slack")
    return address
