"""Asks servers of the web, and nothing else: each address is looked up, judged and then held on to.

The connection goes to the addresses that were judged. A name that leads elsewhere a moment later leads nowhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agent.net.address import IPAddress, Unreachable, check_url, is_public
from agent.net.page import Page

TIMEOUT = timedelta(seconds=30)
MOST_BYTES = 5 * 1024 * 1024
MOST_REDIRECTS = 10

Resolve = Callable[[str, int], Awaitable[Sequence[IPAddress]]]
"""The addresses of a host. Raises OSError or UnicodeError where there are none."""

_OURS = {"User-Agent": "optimclaw", "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


async def look_up(host: str, port: int) -> Sequence[IPAddress]:
    """What the system's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class WebRequest:
    """What to ask. `headers` are additional ones; where there are any, or a body, no redirect is followed."""

    url: URL
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def follows_redirects(self) -> bool:
        return self.method == "GET" and not self.headers and self.body is None


class WebClient:
    """Asks one thing a call. Keeps no cookies and no connections, and follows no proxy settings."""

    def __init__(
        self,
        resolve: Resolve = look_up,
        may_reach: Callable[[IPAddress], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._may_reach = may_reach
        self._tls = tls

    async def get(self, address: str) -> Page:
        """The page at an address, at most 5 MiB of it, after at most 10 redirects. Raises Unreachable."""
        return await self.send(WebRequest(check_url(address)))

    async def post_json(self, address: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
        """Posts a value and gives the status of the answer. No redirect is followed. Raises Unreachable."""
        given = {"Content-Type": "application/json", **headers}
        return (await self.send(WebRequest(check_url(address), "POST", given, json.dumps(payload).encode()))).status

    async def send(self, request: WebRequest, timeout: timedelta = TIMEOUT, most_bytes: int = MOST_BYTES) -> Page:
        """The answer to a request whose address was checked. Raises Unreachable."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                for _ in range(MOST_REDIRECTS + 1):
                    answer = await self._ask(request, most_bytes)
                    if isinstance(answer, Page):
                        return answer
                    request = WebRequest(check_url(answer))
        except TimeoutError:
            raise Unreachable(f"the server took longer than {timeout.total_seconds():.0f} seconds.") from None
        except (aiohttp.ClientError, ssl.SSLError, ValueError) as error:  # ValueError: a header aiohttp refuses
            raise Unreachable(f"the connection failed ({type(error).__name__}).") from None
        raise Unreachable(f"there were more than {MOST_REDIRECTS} redirects.")

    async def _ask(self, request: WebRequest, most_bytes: int) -> Page | str:
        """One request: the answer, or where it has gone."""
        url = request.url
        pinned = _Pinned(await self._judged(url))
        connector = aiohttp.TCPConnector(resolver=pinned, ssl=self._tls or True, force_close=True, use_dns_cache=False)
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_OURS) as session,
            session.request(
                request.method, url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response,
        ):
            target = response.headers.get("Location")
            if response.status in _REDIRECTS and target is not None:
                if not request.follows_redirects:
                    raise Unreachable("the server sends the request elsewhere, and only a plain GET follows.")
                try:
                    return str(url.join(URL(target)))
                except ValueError:
                    raise Unreachable("the server sent an address that is none.") from None
            body = await _body(response, most_bytes)
            return Page(str(url), response.status, response.content_type, response.charset, body)

    async def _judged(self, url: URL) -> Sequence[IPAddress]:
        host, port = url.raw_host, url.port
        assert host is not None  # `check_url` saw to it
        assert port is not None
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            raise Unreachable(f"there is no host {host}.") from None
        if not addresses or not all(map(self._may_reach, addresses)):
            raise Unreachable("this machine and its network are not read.")
        return addresses


async def _body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    too_much = Unreachable(f"the answer is larger than {most_bytes // 1024 // 1024} MiB.")
    if (response.content_length or 0) > most_bytes:
        raise too_much
    body = bytearray()
    async for piece in response.content.iter_chunked(64 * 1024):
        body += piece
        if len(body) > most_bytes:
            raise too_much
    return bytes(body)


class _Pinned(AbstractResolver):
    """Answers every question with the addresses that were judged."""

    def __init__(self, addresses: Sequence[IPAddress]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        return None
