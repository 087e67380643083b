"""A server over HTTP: each request goes to an address that was judged, and no answer is larger than what is kept."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from agent.mcp.config import Endpoint
from agent.net.address import IPAddress, is_public

if TYPE_CHECKING:
    import httpx2

    from agent.net.client import Resolve

LARGEST_ANSWER = 4 * 1024 * 1024
CONNECT_TIMEOUT = timedelta(seconds=15)
STREAM_TIMEOUT = timedelta(minutes=5)
_MOST_HOSTS = 8
_SUCCESS = range(200, 300)


class Wire:
    """What is reached for one server, and what it said of our right to ask.

    A server that the operator placed on this machine or in its network may be asked there, and may send us to
    neighbours to sign in. From any other, only public addresses over https are asked. `resolve`: None asks the system.
    """

    def __init__(self, endpoint: Endpoint, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._endpoint = endpoint
        self._resolve = resolve
        self._tls = tls
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}
        self._may_be_private: bool | None = None
        self.is_refused = False
        """The server itself answered 401 to the latest request that it did not accept."""

    def client(self, headers: Sequence[tuple[str, str]], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        """A client over this wire. It follows no proxy settings."""
        import httpx2

        seconds = CONNECT_TIMEOUT.total_seconds()
        return httpx2.AsyncClient(
            transport=_transport(self),
            headers=[*headers, ("Accept-Encoding", "identity"), ("User-Agent", "optimclaw")],
            timeout=httpx2.Timeout(seconds, read=STREAM_TIMEOUT.total_seconds()),
            auth=auth,
            trust_env=False,
        )

    async def may_ask(self, url: str) -> bool:
        """Whether people and requests may be sent to an address that the server named."""
        import httpx2

        try:
            await self._addresses(httpx2.URL(url))
        except (httpx2.RequestError, httpx2.InvalidURL, ValueError):
            return False
        return True

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """One request to one of the judged addresses. Raises httpx2.RequestError."""
        import httpx2

        host = request.url.host
        address = (await self._addresses(request.url))[0]
        transport = await self._transport_to(host)
        pinned = httpx2.Request(
            request.method,
            request.url.copy_with(host=str(address)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        response = await transport.handle_async_request(pinned)
        if host == self._endpoint.host and request.url.path == httpx2.URL(self._endpoint.url).path:
            if response.status_code == 401:
                self.is_refused = True
            elif response.status_code in _SUCCESS:
                self.is_refused = False
        return _bounded(response, request)

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def _transport_to(self, host: str) -> httpx2.AsyncHTTPTransport:
        """One pool a host: two hosts on one address must not share a connection that is meant for one of them."""
        import httpx2

        if host not in self._transports:
            if len(self._transports) >= _MOST_HOSTS:
                raise httpx2.ConnectError("too many hosts")
            if self._tls is None:
                self._tls = await asyncio.to_thread(ssl.create_default_context)
            self._transports[host] = httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False)
        return self._transports[host]

    async def _addresses(self, url: httpx2.URL) -> Sequence[IPAddress]:
        import httpx2

        if url.scheme not in ("http", "https") or not url.host:
            raise httpx2.ConnectError("no address of the web")
        found = await self._looked_up(url.host, url.port or (443 if url.scheme == "https" else 80))
        if not found:
            raise httpx2.ConnectError("the host has no address")
        if all(map(is_public, found)):
            if url.scheme != "https":
                raise httpx2.ConnectError("only https is asked on the internet")
        elif not await self._private_is_allowed():
            raise httpx2.ConnectError("this machine and its network are not asked")
        return found

    async def _private_is_allowed(self) -> bool:
        if self._may_be_private is None:
            own = [] if self._endpoint.is_installed else await self._looked_up(self._endpoint.host, 0)
            self._may_be_private = bool(own) and not any(map(is_public, own))
        return self._may_be_private

    async def _looked_up(self, host: str, port: int) -> Sequence[IPAddress]:
        import httpx2

        from agent.net.client import look_up

        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        try:
            return await (self._resolve or look_up)(host, port)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError("the host was not found") from error


def _transport(wire: Wire) -> httpx2.AsyncBaseTransport:
    """The wire as the client library wants it: it asks for a class of its own."""
    import httpx2

    class Transport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await wire.send(request)

        async def aclose(self) -> None:
            await wire.close()

    return Transport()


def _bounded(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """The answer with an end. Streams of events have none, their events are bounded one by one."""
    import httpx2

    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise httpx2.DecodingError("the answer is packed, which was not asked for", request=request)
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    inner: httpx2.AsyncByteStream = stream
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in inner:
                size += len(piece)
                if size > LARGEST_ANSWER and not is_stream:
                    raise httpx2.ReadError("the answer is too large", request=request)
                yield piece

        async def aclose(self) -> None:
            await inner.aclose()

    return httpx2.Response(
        response.status_code, headers=response.headers, stream=Bounded(), extensions=response.extensions
    )
