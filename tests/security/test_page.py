"""The page and its API: nothing opens without the token, no other site gets in, and no name or path plays a trick."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from agent.store.blobs import Blob
from bot.web.access import is_foreign, names_loopback
from bot.web.backend import FileView
from bot.web.sse import frame
from channels.message import Address, OutgoingMessage, ReplyKind
from channels.web import EventName, PageEvent
from tests.support.parts import Parts
from tests.support.web_bench import BEARER, TOKEN, Bench, running_bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as running:
        yield running


async def raw(bench: Bench, head: str, body: bytes = b"") -> str:
    """What the server says to exactly these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.server.port)
    writer.write(head.replace("\n", "\r\n").encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body)
    async with asyncio.timeout(5):
        answer = await reader.read(65_536)
    writer.close()
    return answer.decode(errors="replace")


API = (
    ("POST", "/api/chat/send"), ("POST", "/api/chat/approval"), ("GET", "/api/chat/history"), ("GET",
    "/api/chat/threads"),
    ("GET", "/api/events"), ("GET", "/api/chat/files/" + "a" * 64),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path"), API)
@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN.upper()}"},
        {"Cookie": f"optimclaw={TOKEN}"},
        {"X-Forwarded-For": "127.0.0.1"}, {"X-Token": TOKEN},
    ],
    ids=["nothing", "another scheme", "no token", "short", "long", "capitals", "a guessed cookie", "a proxy",
    "a header"],
)  # fmt: skip
async def test_nothing_of_the_api_opens_without_the_token(
    bench: Bench, method: str, path: str, headers: dict[str, str]
) -> None:
    status, body = await bench.call(method, path, body={"content": "hi"} if method == "POST" else None, headers=headers)

    assert status in (401, 403)
    assert TOKEN not in str(body)
    assert bench.messages == []


@pytest.mark.parametrize(
    "origin",
    [
        "null", "https://evil.example", "http://127.0.0.1.evil.example", "http://evil.example:{port}",
        "http://127.0.0.1:1",
        "file://", "http://127.0.0.1:{port}@evil.example", "http://localhost.evil.example:{port}", "",
        "chrome-extension://x",
        "http://[::1", "ftp://127.0.0.1:{port}", "http://\uff11\uff12\uff17.0.0.1:{port}",
    ],
)  # fmt: skip
async def test_no_other_site_speaks_for_the_operator_with_token_or_cookie(bench: Bench, origin: str) -> None:
    origin = origin.format(port=bench.server.port)
    async with bench.http.get(f"/?token={TOKEN}", allow_redirects=False) as entered:
        assert entered.status == 303
    for headers in ({"Origin": origin}, {"Origin": origin, **BEARER}, {"Sec-Fetch-Site": "cross-site", **BEARER}):
        status, _ = await bench.send({"content": "hi"}, headers)
        assert status in (400, 403)
        async with bench.http.options("/api/chat/send", headers=headers) as answer:
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")]

    assert bench.messages == []


async def test_cookie_is_out_of_reach_of_scripts_and_other_sites_and_does_not_hold_the_token(bench: Bench) -> None:
    async with bench.http.get(f"/?token={TOKEN}", allow_redirects=False) as answer:
        cookie = next(iter(SimpleCookie(answer.headers["Set-Cookie"]).values()))
        location = answer.headers["Location"]

    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert cookie["path"] == "/"
    assert TOKEN not in cookie.value + location


TRICKS = (
    "/api/chat/files/../../../etc/passwd", "/api/chat/files/..%2f..%2fetc%2fpasswd", "/api/chat/files/%00",
    "/api/chat/files/%25",
    "/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py", "/static//etc/passwd",
    "/static/index.html",
    "/static/..\\server.py", "//api/chat/history", "/api//chat/history", "/API/chat/history", "/api/chat/history/",
    "/api/chat/history;x=1", "/./api/chat/history", "/static/../api/chat/history", "/healthz/../api/chat/history",
    "/api/chat/history?thread_id=../../x", "/%61pi/chat/history", "/api/chat/files/" + "a" * 5_000,
)  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
async def test_no_spelling_of_a_path_opens_what_another_does_not(bench: Bench, path: str) -> None:
    answer = await raw(bench, f"GET {path} HTTP/1.1\nHost: 127.0.0.1:{bench.server.port}\nConnection: close")

    assert " 200 " not in answer.split("\n", 1)[0]
    assert "root:" not in answer
    assert "import" not in answer


@pytest.mark.parametrize(
    "head",
    [
        "GET /api/chat/history HTTP/1.1\nHost: evil.example\nAuthorization: Bearer {token}",
        "GET /api/chat/history HTTP/1.1\nHost: 127.0.0.1.evil.example\nAuthorization: Bearer {token}",
        "GET /api/chat/history HTTP/1.1\nHost: evil.example@127.0.0.1\nAuthorization: Bearer {token}x",
        "GET /api/chat/history HTTP/1.1\nHost:\nAuthorization: Bearer {token}",
        "GET http://evil.example/api/chat/history HTTP/1.1\nHost: evil.example\nAuthorization: Bearer {token}",
        "POST /api/chat/send HTTP/1.1\nHost: 127.0.0.1\nX-HTTP-Method-Override: GET\nContent-Length: 0",
        "POST /api/chat/send HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 5\nTransfer-Encoding: chunked",
        "GET / HTTP/1.1\nHost: 127.0.0.1\nX: a\n b: c",
    ],
)
async def test_malformed_and_foreign_requests_reach_nothing(bench: Bench, head: str) -> None:
    answer = await raw(bench, f"{head.format(token=TOKEN)}\nConnection: close", b"hello")

    assert " 200 " not in answer.split("\n", 1)[0]
    assert bench.messages == []


@pytest.mark.parametrize(
    "name",
    [
        'a"; filename="evil.html', "a\r\nSet-Cookie: x=1", "..\\..\\evil.txt", "../../evil.txt", "a\u202egpj.exe",
        "\u00e4\u4e16.txt",
        "evil.html", "evil.svg", "evil.js", "x.png\x00.html", "a" * 500 + ".txt", "%0d%0aX: y.txt", "page.xhtml",
        "=?utf-8?q?x?=",
    ],
)  # fmt: skip
async def test_name_of_a_file_injects_no_header_and_no_page(bench: Bench, name: str) -> None:
    blob = Blob.of(name, b"<script>alert(1)</script>")
    bench.backend.files[blob.file.digest] = FileView(blob.file, blob.data)
    async with bench.http.get(f"/api/chat/files/{blob.file.digest}", headers=BEARER) as answer:
        assert answer.status == 200
        headers = answer.headers

    assert headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''")
    assert headers["Content-Disposition"].isascii()
    assert not {'"', ";", "/", "\\"} & set(headers["Content-Disposition"].partition("''")[2])
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Set-Cookie" not in headers


async def test_text_of_a_message_forges_no_event(bench: Bench) -> None:
    text = "hi\n\nevent: auth_required\ndata: {}\r\rid: 9\u2028\u0085 end"
    message = OutgoingMessage(address=Address(channel="web", chat_id="main"), kind=ReplyKind.ANSWER, text=text)
    async with bench.events() as events:
        await bench.channel.send(message, Parts())
        seen = await events.next()
        await bench.channel.send(message.model_copy(update={"text": "second"}), Parts())
        following = await events.next()

    assert (seen.name, seen.data["text"]) == ("response", text)
    assert following.data["text"] == "second"


@given(st.text(max_size=80))
def test_an_event_is_one_event_whatever_it_holds(text: str) -> None:
    wire = frame(PageEvent(1, EventName.RESPONSE, "operator", json.dumps({"text": text}, ensure_ascii=False)))
    lines = wire.decode().replace("\r", "\n").split("\n")

    assert [line.split(":")[0] for line in lines] == ["id", "event", "data", "", ""]


@given(st.text(max_size=60), st.sampled_from(["127.0.0.1:8080", "localhost:8080", "[::1]:8080"]))
def test_only_the_pages_own_origin_is_no_foreign_one(origin: str, host: str) -> None:
    headers = {"Origin": f"http://{origin}", "Host": host}
    if not is_foreign(headers):
        assert URL(f"http://{origin}").host == URL(f"http://{host}").host
    assert is_foreign({"Origin": f"http://{origin}.example", "Host": host})


@given(st.text(max_size=40))
def test_host_that_is_no_loopback_is_recognised(host: str) -> None:
    assert isinstance(names_loopback({"Host": host}), bool)
    assert not names_loopback({"Host": f"{host}.example"})
