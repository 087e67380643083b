from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from tests import conftest


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("192.0.2.1", 9), timeout=0.1),
        lambda: socket.getaddrinfo("example.org", 443),
        lambda: socket.gethostbyname("example.org"),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_reaching_another_machine_is_refused_and_noted(reach: Callable[[], object]) -> None:
    with pytest.raises(conftest.LeftTheMachine):
        reach()

    assert len(conftest.attempts) == 1
    conftest.attempts.clear()


async def test_loopback_is_open() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port, family=socket.AF_INET)

        assert await reader.readline() == b"here\n"

        writer.close()
        await writer.wait_closed()
