"""python-telegram-bot's requests on aiohttp: its own httpx transport collapses under a burst of sends.

Nothing raised here names the address of a request, because it holds the token.
"""

from __future__ import annotations

import json
from datetime import timedelta
from io import BytesIO
from typing import TypedDict

import aiohttp
from telegram.error import BadRequest, NetworkError, TelegramError
from telegram.request import BaseRequest, RequestData
from yarl import URL

from channels.download import PATIENCE, read_file

_TIMEOUT = 20.0
_CONNECT_TIMEOUT = 10.0
_POOL_TIMEOUT = 60.0
_UPLOAD = 300.0  # the largest file Telegram takes, at 1.4 Mbit/s
_CONNECTIONS = 64
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class NeverSent(NetworkError):
    """There was no connection, so Telegram has not got the request."""


class ServerFault(NetworkError):
    """Telegram answered that it has a fault of its own. `refused`: it said so itself, not a gateway in front of it."""

    def __init__(self, status: int, *, refused: bool) -> None:
        super().__init__(f"HTTP status {status}")
        self.refused = refused


class FloodWait(TelegramError):
    """Telegram asks to wait. (The library's own class warns about its own change of type whenever one is made.)"""

    def __init__(self, wait: timedelta) -> None:
        super().__init__(f"flood control, {wait.total_seconds():.0f} s")
        self.wait = wait


class AiohttpRequest(BaseRequest):
    """A pool of connections that stay open. Usable between `initialize` and `shutdown`, more than once."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        return _TIMEOUT

    async def initialize(self) -> None:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": self.USER_AGENT})

    async def shutdown(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: object = BaseRequest.DEFAULT_NONE,
        write_timeout: object = BaseRequest.DEFAULT_NONE,
        connect_timeout: object = BaseRequest.DEFAULT_NONE,
        pool_timeout: object = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """The status and body of the answer. With files it may take `_UPLOAD` in all; `write_timeout` is unused."""
        if self._session is None:
            raise NeverSent("not connected")
        has_files = request_data is not None and request_data.contains_files
        timeout = aiohttp.ClientTimeout(
            total=_UPLOAD if has_files else None,
            connect=_seconds(pool_timeout, _POOL_TIMEOUT),
            sock_connect=_seconds(connect_timeout, _CONNECT_TIMEOUT),
            sock_read=_seconds(read_timeout, _TIMEOUT),
        )
        try:
            async with self._session.request(method, url, timeout=timeout, **_content(request_data)) as answer:
                status, payload = answer.status, await answer.read()
        # Without the causes: their texts may hold the address.
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NeverSent(type(error).__name__) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NetworkError(type(error).__name__) from None
        if status == 429:
            raise FloodWait(_asked_wait(payload))
        if status == 413:  # the library takes it for a fault that passes
            raise BadRequest("Request Entity Too Large")
        if status >= 500:
            raise ServerFault(status, refused=_object(payload).get("ok") is False)
        return status, payload

    async def download(self, channel: str, url: URL, limit_bytes: int) -> bytes:
        """The content of a file; raises `Rejected` and what `do_request` raises."""
        if self._session is None:
            raise NeverSent("not connected")
        timeout = aiohttp.ClientTimeout(PATIENCE.total_seconds(), sock_connect=_CONNECT_TIMEOUT, sock_read=_TIMEOUT)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as answer:
                return await read_file(channel, answer, limit_bytes)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NetworkError(type(error).__name__) from None

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, object]:
        """The JSON object of an answer; unlike the library's, a broken one is not logged."""
        found = _object(payload)
        if not found:
            raise TelegramError("the answer is no JSON object")
        return found


class _Content(TypedDict):
    """The body of a request and the headers that tell of it."""

    data: bytes | aiohttp.FormData | None
    headers: dict[str, str]


def _content(request: RequestData | None) -> _Content:
    """A form; one with several parts if there are files in it."""
    if request is None:
        return {"data": None, "headers": _FORM}
    if not request.contains_files:
        return {"data": request.url_encoded_parameters().encode(), "headers": _FORM}
    form = aiohttp.FormData(quote_fields=False)  # Telegram reads names of files as UTF-8, and knows no encoded ones
    for name, value in request.json_parameters.items():
        form.add_field(name, value)
    for name, (filename, content, mime_type) in request.multipart_data.items():
        body = BytesIO(content) if isinstance(content, bytes) else content  # sent in pieces
        form.add_field(name, body, filename=filename, content_type=mime_type)
    return {"data": form, "headers": {}}


def _seconds(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default


def _object(payload: bytes) -> dict[str, object]:
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _asked_wait(payload: bytes) -> timedelta:
    parameters = _object(payload).get("parameters")
    seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
    return timedelta(seconds=seconds if isinstance(seconds, int | float) and seconds > 0 else 1)
