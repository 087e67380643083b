"""Posts JSON to a server of the internet and takes nothing from its answer but the status.

The address is looked up, judged and then held on to, as in `agent/net/client.py`; a redirect is not followed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agent.net.address import IPAddress, Unreachable, check_url, is_public
from agent.net.client import Resolve, look_up

TIMEOUT = timedelta(seconds=30)
_HEADERS = {"User-Agent": "optimclaw", "Accept": "*/*"}


class WebPoster:
    """One request a call. Keeps no cookies and no connections, and follows no proxy settings."""

    def __init__(
        self,
        resolve: Resolve = look_up,
        may_reach: Callable[[IPAddress], bool] = is_public,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._may_reach = may_reach
        self._tls = tls

    async def post_json(self, address: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
        """The status of the answer. Raises Unreachable."""
        url = check_url(address)
        try:
            async with asyncio.timeout(TIMEOUT.total_seconds()):
                return await self._post(url, headers, payload)
        except TimeoutError:
            raise Unreachable(f"the server took longer than {TIMEOUT.total_seconds():.0f} seconds.") from None
        except (aiohttp.ClientError, ssl.SSLError, ValueError) as error:
            raise Unreachable(f"the connection failed ({type(error).__name__}).") from None

    async def _post(self, url: URL, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
        judged = _Judged(await self._judged(url))
        connector = aiohttp.TCPConnector(resolver=judged, ssl=self._tls or True, force_close=True, use_dns_cache=False)
        async with (
            aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS
            ) as session,
            session.post(url, json=payload, headers=dict(headers), allow_redirects=False) as response,
        ):
            return response.status

    async def _judged(self, url: URL) -> Sequence[IPAddress]:
        host, port = url.raw_host, url.port
        assert host is not None  # `check_url` saw to it
        assert port is not None
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            raise Unreachable(f"there is no host {host}.") from None
        if not addresses or not all(map(self._may_reach, addresses)):
            raise Unreachable("this machine and its network are not asked.")
        return addresses


class _Judged(AbstractResolver):
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
