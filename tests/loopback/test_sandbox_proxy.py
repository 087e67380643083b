"""The sandbox's proxy over loopback, without a sandbox around its clients."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from agent.net.address import is_public
from agent.tools.sandbox_proxy import HostProxy, IPAddress, ProxyLimits, Usage
from config.hosts import host_rule

HERE = ipaddress.ip_address("127.0.0.1")
QUICK = replace(ProxyLimits(), idle=timedelta(seconds=0.2))
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """A resolver that remembers what it was asked."""

    def __init__(self, *addresses: str) -> None:
        self.asked: list[str] = []
        self._addresses = [ipaddress.ip_address(address) for address in addresses]

    async def __call__(self, host: str, port: int) -> Sequence[IPAddress]:
        self.asked.append(host)
        if not self._addresses:
            raise OSError
        return self._addresses


@dataclass
class Running:
    """A proxy that serves, and how to reach it."""

    port: int
    usage: Usage

    async def ask(self, request: str, then: bytes = b"") -> str:
        """Everything that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request.encode() + then)
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        return answer.decode()


@asynccontextmanager
async def proxy(
    *rules: str,
    names: Names | None = None,
    may_reach: Callable[[IPAddress], bool] = lambda address: True,
    limits: ProxyLimits | None = None,
) -> AsyncIterator[Running]:
    usage = Usage()
    serving = HostProxy([host_rule(rule) for rule in rules], names or Names("127.0.0.1"), may_reach, limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(serving.serve(listener, usage))
        try:
            yield Running(listener.getsockname()[1], usage)
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def server(handle: Handler) -> AsyncIterator[int]:
    async with await asyncio.start_server(handle, "127.0.0.1", 0) as running:
        yield running.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with what it was asked."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + head)
    await writer.drain()
    writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while True:
            writer.write(b"x" * 100_000)
            await writer.drain()
    writer.close()


def connect(target: str) -> str:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"


async def test_a_tunnel_to_a_listed_host_passes_bytes_both_ways() -> None:
    async with server(echo) as port, proxy(f"a.example:{port}") as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(connect(f"A.example.:{port}").encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"

        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.write_eof()

        assert await reader.read() == b""
        writer.close()


async def test_a_plain_page_of_a_listed_host_is_fetched_with_nothing_behind_it() -> None:
    async with server(page) as port, proxy(f"a.example:{port}") as running:
        answer = await running.ask(
            f"GET http://a.example:{port}/x HTTP/1.1\r\nHost: b.example\r\n\r\n", b"GET http://b.example/ HTTP/1.1\r\n"
        )

    assert answer.splitlines()[2:4] == ["GET /x HTTP/1.1", f"Host: a.example:{port}"]
    assert "b.example" not in answer


@pytest.mark.parametrize("target", ["b.example:443", "a.example:22", "sub.a.example:443", "93.184.216.34:443"])
async def test_what_is_not_listed_is_refused_without_being_looked_up(target: str) -> None:
    names = Names("127.0.0.1")

    async with proxy("a.example", names=names) as running:
        answer = await running.ask(connect(target))

    assert answer.startswith("HTTP/1.1 403 ")
    assert f"{target} is not among the hosts" in answer
    assert list(running.usage.refusals) == [f"{target} is not among the hosts that the operator allows"]
    assert names.asked == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:169.254.169.254"], ["::1"]]
)
async def test_a_listed_name_that_leads_to_a_private_address_is_refused(addresses: list[str]) -> None:
    async with (
        server(page) as port,
        proxy(f"a.example:{port}", names=Names(*addresses), may_reach=is_public) as running,
    ):
        answer = await running.ask(f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n")

    assert answer.startswith("HTTP/1.1 403 ")
    assert "does not lead to the internet" in answer


async def test_a_name_is_looked_up_once_and_its_address_held_on_to() -> None:
    names = Names("127.0.0.1")

    async with server(page) as port, proxy(f"a.example:{port}", names=names) as running:
        assert "200 OK" in await running.ask(f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n")

    assert names.asked == ["a.example"]


async def test_the_next_address_is_tried_where_one_takes_no_connection() -> None:
    async with server(page) as port, proxy(f"a.example:{port}", names=Names("127.0.0.9", "127.0.0.1")) as running:
        assert "200 OK" in await running.ask(f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n")


async def test_a_host_that_is_not_there_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with proxy(f"a.example:{port}", "b.example", names=Names("127.0.0.1")) as running:
        assert (await running.ask(connect(f"a.example:{port}"))).startswith("HTTP/1.1 502 ")
    async with proxy("a.example", names=Names()) as running:
        assert (await running.ask(connect("a.example"))).startswith("HTTP/1.1 502 ")


@pytest.mark.parametrize("request_", ["hello\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "x" * 20_000, "\x16\x03\x01\r\n\r\n"])
async def test_what_is_no_request_gets_a_bad_request(request_: str) -> None:
    async with proxy("a.example") as running:
        assert (await running.ask(request_)).startswith("HTTP/1.1 400 ")


async def test_a_client_that_says_nothing_is_let_go() -> None:
    async with proxy("a.example", limits=QUICK) as running:
        assert await running.ask("CONNECT a.exam") == ""
        assert running.usage.open == 0


async def test_a_tunnel_in_which_nothing_moves_is_closed() -> None:
    async with server(silent) as port, proxy(f"a.example:{port}", limits=QUICK) as running:
        assert (await running.ask(connect(f"a.example:{port}"))).startswith("HTTP/1.1 200 ")


async def test_bytes_of_one_command_are_limited() -> None:
    limits = replace(ProxyLimits(), total_bytes=1_000_000)

    async with server(flood) as port, proxy(f"a.example:{port}", limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(connect(f"a.example:{port}").encode())
        received = 0
        with suppress(ConnectionResetError):
            while data := await reader.read(65_536):
                received += len(data)
        writer.close()

    assert received <= 1_000_100
    assert list(running.usage.refusals) == ["more than 0 MiB in all"]


async def test_connections_of_one_command_are_limited() -> None:
    limits = replace(ProxyLimits(), connections=2)

    async with server(echo) as port, proxy(f"a.example:{port}", limits=limits) as running:
        streams = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(3)]
        for _, writer in streams:
            writer.write(connect(f"a.example:{port}").encode())
        first, second, third = [await _first_line(reader) for reader, _ in streams]
        assert (first, second) == (b"HTTP/1.1 200 Connection established\r\n",) * 2
        assert third == b""
        streams[0][1].close()
        assert await streams[1][0].readline() == b"\r\n"
        for _, writer in streams:
            writer.close()

    assert list(running.usage.refusals) == ["more than 2 connections at a time"]


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""


async def test_the_end_of_the_command_ends_its_connections() -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            await reader.read()
        ended.set()
        writer.close()

    async with server(wait) as port:
        async with proxy(f"a.example:{port}") as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(connect(f"a.example:{port}").encode())
            await reader.readuntil(b"\r\n\r\n")

        async with asyncio.timeout(10):
            await ended.wait()
        with pytest.raises(OSError):  # noqa: PT011 (refused, on every system with words of its own)
            await asyncio.open_connection("127.0.0.1", running.port)
        writer.close()


async def test_hosts_and_verdicts_are_logged_once_and_nothing_else() -> None:
    with capture_logs() as logs:
        async with server(page) as port, proxy(f"a.example:{port}") as running:
            for _ in range(2):
                await running.ask(f"GET http://a.example:{port}/secret?q=secret HTTP/1.1\r\nX: secret\r\n\r\n")
                await running.ask(connect("b.example"))

    assert [(entry["host"], entry["verdict"]) for entry in logs] == [
        ("a.example", "allowed"),
        ("b.example", "not listed"),
    ]
    assert "secret" not in repr(logs)


async def test_many_refusals_are_not_all_remembered() -> None:
    async with proxy("a.example") as running:
        for number in range(30):
            await running.ask(connect(f"{number}.b.example"))

    assert len(running.usage.refusals) == 20
