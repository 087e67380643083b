"""The web client against a server on this machine that speaks TLS and means harm."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web

from agent.net.address import IPAddress, Unreachable
from agent.net.client import MOST_BYTES, MOST_REDIRECTS, WebClient
from tests.support.tls import ELSEWHERE, HERE, NAME, Names, serving


class Server:
    """Pages, and the requests that came."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.port = 0
        self.next = ""

    def url(self, path: str, host: str = NAME) -> str:
        return f"https://{host}:{self.port}{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        match request.path:
            case "/page":
                response = web.Response(text="<h1>Hello</h1>", content_type="text/html")
                response.set_cookie("seen", "1")
                return response
            case "/hop":
                return web.Response(status=302, headers={"Location": self.next})
            case "/round":
                return web.Response(status=307, headers={"Location": "/round"})
            case "/long":
                return web.Response(body=b"x" * (MOST_BYTES + 1))
            case "/bomb":
                packed = zlib.compress(b"x" * (20 * MOST_BYTES))
                return web.Response(body=packed, headers={"Content-Encoding": "deflate"}, content_type="text/plain")
            case "/endless":
                stream = web.StreamResponse()
                await stream.prepare(request)
                while True:
                    await stream.write(b"x" * 100_000)
            case "/slow":
                await asyncio.sleep(30)
            case "/cut":
                assert request.transport is not None
                request.transport.abort()
        raise web.HTTPNotFound(text="not here")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server()
    async with serving(tmp_path, made.answer) as made.port:
        yield made


def client(tmp_path: Path, *answers: Sequence[IPAddress], trusts: bool = True) -> WebClient:
    tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem")) if trusts else None
    return WebClient(Names(*(answers or [[HERE]])), lambda address: address == HERE, tls)


async def test_page_is_read_and_nothing_of_ours_is_sent(server: Server, tmp_path: Path) -> None:
    asking = client(tmp_path)
    page = await asking.get(server.url("/page#part"))
    again = await asking.get(server.url("/page"))

    assert (page.status, page.media_type, page.body) == (200, "text/html", b"<h1>Hello</h1>")
    assert again.body == page.body
    for request in server.requests:
        assert set(request.headers) <= {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}


async def test_address_that_may_not_be_reached_gets_no_connection(server: Server, tmp_path: Path) -> None:
    for answers in ([ELSEWHERE], [HERE, ELSEWHERE], []):
        with pytest.raises(Unreachable, match="this machine"):
            await client(tmp_path, answers).get(server.url("/page"))
    for host in ("127.0.0.1", "[::1]"):  # with the resolver of the system
        with pytest.raises(Unreachable):
            await WebClient().get(server.url("/page", host))
    assert server.requests == []


async def test_connection_goes_where_the_look_up_pointed_also_when_the_name_moves(
    server: Server, tmp_path: Path
) -> None:
    page = await client(tmp_path, [HERE], [ELSEWHERE]).get(server.url("/page"))

    assert page.status == 200


async def test_every_redirect_is_judged_anew(server: Server, tmp_path: Path) -> None:
    server.next = "/page"
    assert (await client(tmp_path).get(server.url("/hop"))).url == server.url("/page")
    server.requests.clear()

    with pytest.raises(Unreachable, match="this machine"):
        await client(tmp_path, [HERE], [ELSEWHERE]).get(server.url("/hop"))
    for target in (
        "http://pages.example/page",
        "https://localhost/",
        "file:///etc/passwd",
        "https://a:b@c.d/",
        "//[bad",
    ):
        server.next = target
        with pytest.raises(Unreachable):
            await client(tmp_path).get(server.url("/hop"))

    assert {request.path for request in server.requests} == {"/hop"}


async def test_redirects_end(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="redirects"):
        await client(tmp_path).get(server.url("/round"))
    assert len(server.requests) == MOST_REDIRECTS + 1


@pytest.mark.parametrize("path", ["/long", "/bomb", "/endless"])
async def test_answer_without_measure_is_not_taken(server: Server, tmp_path: Path, path: str) -> None:
    with pytest.raises(Unreachable, match="larger than 5 MiB"):
        await client(tmp_path).get(server.url(path))


async def test_faults_of_the_connection_are_told_without_details(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="connection failed"):
        await client(tmp_path, trusts=False).get(server.url("/page"))  # nobody vouches for its certificate
    with pytest.raises(Unreachable, match="connection failed"):
        await client(tmp_path).get(server.url("/page", "other.example"))  # its certificate has another name
    with pytest.raises(Unreachable, match="connection failed"):
        await client(tmp_path).get(server.url("/cut"))
    assert (await client(tmp_path).get(server.url("/nothing"))).status == 404


async def test_name_without_an_address_is_said(tmp_path: Path) -> None:
    async def nothing(host: str, port: int) -> Sequence[IPAddress]:
        raise OSError("not found")

    with pytest.raises(Unreachable, match=r"no host pages\.example"):
        await WebClient(nothing).get("https://pages.example/")
