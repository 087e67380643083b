"""The sandbox's way to named hosts: a forwarding proxy outside of it, which looks names up, judges, and connects.

A name that leads into a private network is refused even if it is listed, so an answer of the name service cannot open
that network. Connections go to the very addresses that were judged. Host names and verdicts are logged, nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address

import structlog

from agent.tools.sandbox_proxy_request import Fetch, ProxyRequest, Refused, parse_head
from config.hosts import HostRule

log = structlog.get_logger(__name__)

IPAddress = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[IPAddress]]]
"""The addresses of a host. Raises OSError or UnicodeError where there are none."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_MEBIBYTE = 1024 * 1024
_PIECE = 64 * 1024
_MOST_REMEMBERED = 20
_STATUS = {400: "Bad Request", 403: "Forbidden", 405: "Method Not Allowed", 502: "Bad Gateway"}


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What one command may use. `idle` ends a connection on which nothing moves; the rest is for all of them."""

    connections: int = 32
    total_bytes: int = 1024 * _MEBIBYTE
    idle: timedelta = timedelta(seconds=60)
    connect: timedelta = timedelta(seconds=15)
    head_bytes: int = 16 * 1024


@dataclass(slots=True, eq=False)
class Usage:
    """What one command has had of the network. `refusals` are for the model, in the order in which they happened."""

    open: int = 0
    moved: int = 0
    refusals: dict[str, None] = field(default_factory=dict)
    logged: set[tuple[str, int, str]] = field(default_factory=set)

    def refuse(self, what: str) -> None:
        """Remember a refusal, once."""
        if len(self.refusals) < _MOST_REMEMBERED:
            self.refusals[what] = None

    def note(self, host: str, port: int, verdict: str) -> None:
        """Log a verdict, once."""
        if len(self.logged) < _MOST_REMEMBERED and (host, port, verdict) not in self.logged:
            self.logged.add((host, port, verdict))
            log.info("sandbox_network", host=host, port=port, verdict=verdict)


class HostProxy:
    """Serves the commands of the sandbox. `may_reach` says of an address whether it lies on the internet."""

    def __init__(
        self,
        rules: Sequence[HostRule],
        resolve: Resolve,
        may_reach: Callable[[IPAddress], bool],
        limits: ProxyLimits | None = None,
    ) -> None:
        self._rules = tuple(rules)
        self._resolve = resolve
        self._may_reach = may_reach
        self._limits = limits or ProxyLimits()

    async def serve(self, listener: socket.socket, usage: Usage) -> None:
        """Serve all connections to a listening socket until it is cancelled, which ends them too."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        async with asyncio.TaskGroup() as group:
            while True:
                connection, _ = await loop.sock_accept(listener)
                if usage.open >= self._limits.connections:
                    usage.refuse(f"more than {self._limits.connections} connections at a time")
                    connection.close()
                    continue
                usage.open += 1
                group.create_task(self._serve_one(connection, usage))

    async def _serve_one(self, connection: socket.socket, usage: Usage) -> None:
        try:
            client = await asyncio.open_connection(sock=connection, limit=self._limits.head_bytes)
            async with _closing(client):
                await self._answer(client, usage)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return  # a peer went away or said nothing: there is nobody to tell
        finally:
            usage.open -= 1

    async def _answer(self, client: Streams, usage: Usage) -> None:
        reader, writer = client
        try:
            request = await self._read(reader)
            server = await self._connect(request, usage)
        except Refused as refused:
            writer.write(_answer_to(refused))
            await writer.drain()
            return
        async with _closing(server):
            if isinstance(request, Fetch):
                server[1].write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay(client, server, usage, both_ways=not isinstance(request, Fetch))

    async def _read(self, reader: asyncio.StreamReader) -> ProxyRequest:
        try:
            async with asyncio.timeout(self._limits.idle.total_seconds()):
                return parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            raise Refused(400, "the head of the request is too long") from None

    async def _connect(self, request: ProxyRequest, usage: Usage) -> Streams:
        """A connection to a host that may be asked. Raises Refused."""
        host, port = request.host, request.port
        if not any(rule.covers(host, port) for rule in self._rules):
            usage.note(host, port, "not listed")
            usage.refuse(f"{host}:{port} is not among the hosts that the operator allows")
            raise Refused(403, f"{host}:{port} is not among the hosts that the operator allows (SANDBOX_ALLOW_HOSTS)")
        try:
            async with asyncio.timeout(self._limits.connect.total_seconds()):
                addresses = await self._resolve(host, port)
                if not addresses or not all(map(self._may_reach, addresses)):
                    usage.note(host, port, "not public")
                    usage.refuse(f"{host} does not lead to the internet")
                    raise Refused(403, f"{host} does not lead to the internet")
                server = await _open_first(addresses, port)
        except (OSError, UnicodeError, TimeoutError):
            usage.note(host, port, "unreachable")
            raise Refused(502, f"{host}:{port} could not be reached") from None
        usage.note(host, port, "allowed")
        return server

    async def _relay(self, client: Streams, server: Streams, usage: Usage, *, both_ways: bool) -> None:
        """Pass on what comes until both have ended, nothing moves, or the command has had its share."""
        loop, idle = asyncio.get_running_loop(), self._limits.idle.total_seconds()

        async with asyncio.timeout(idle) as deadline:

            def moved(count: int) -> None:
                deadline.reschedule(loop.time() + idle)
                usage.moved += count
                if usage.moved > self._limits.total_bytes:
                    usage.refuse(f"more than {self._limits.total_bytes // _MEBIBYTE} MiB in all")
                    raise ConnectionAbortedError

            pumps = [_pump(server[0], client[1], moved)]
            if both_ways:
                pumps.append(_pump(client[0], server[1], moved))
            broken = False
            try:
                async with asyncio.TaskGroup() as group:
                    for pump in pumps:
                        group.create_task(pump)
            except* OSError:
                broken = True
            if broken:  # raised here, since what is raised above would come out as a group
                raise ConnectionError


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[int], None]) -> None:
    while piece := await reader.read(_PIECE):
        moved(len(piece))
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _open_first(addresses: Sequence[IPAddress], port: int) -> Streams:
    """A connection to the first address that takes one."""
    for address in addresses[:-1]:
        try:
            return await asyncio.open_connection(str(address), port)
        except OSError:
            continue
    return await asyncio.open_connection(str(addresses[-1]), port)


@asynccontextmanager
async def _closing(streams: Streams) -> AsyncIterator[None]:
    """Close a connection after what was written has left; at once if something goes wrong."""
    writer = streams[1]
    try:
        yield
        writer.close()
    except BaseException:
        writer.transport.abort()
        raise


def _answer_to(refused: Refused) -> bytes:
    body = f"Refused by the sandbox: {refused.reason}.\n".encode()
    head = (
        f"HTTP/1.1 {refused.status} {_STATUS[refused.status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
