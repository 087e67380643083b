"""The page, its files, its door, the operator's pages and platform deliveries."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, Counter

from bot.web.deliveries import DeliveryAnswer, DeliveryRoute, slack_route, telegram_route
from bot.web.errors import AddressTaken
from tests.support.web_bench import BEARER, TOKEN, Bench, BenchSettings, running_bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as running:
        yield running


async def test_the_printed_link_opens_the_page_and_leaves_no_token_in_the_address(bench: Bench) -> None:
    async with bench.http.get(bench.server.link) as answer:
        text, url, cookie = await answer.text(), str(answer.url), answer.history[0].headers["Set-Cookie"]

    assert answer.status == 200
    assert 'id="composer"' in text
    assert "token" not in url
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie


async def test_the_cookie_of_the_page_opens_its_api(bench: Bench) -> None:
    async with bench.http.get(bench.server.link):
        pass

    status, _ = await bench.send({"content": "hi"}, {"Origin": bench.server.url})

    assert status == 202


@pytest.mark.parametrize("path", ["/", "/?token=wrong", "/?token="])
async def test_without_the_token_the_page_shows_nothing_but_how_to_open_it(bench: Bench, path: str) -> None:
    async with bench.http.get(path) as answer:
        text = await answer.text()

    assert answer.status == 401
    assert "needs its link" in text
    assert "composer" not in text
    assert "Set-Cookie" not in answer.headers


async def test_the_page_loads_nothing_from_elsewhere_and_no_inline_script(bench: Bench) -> None:
    async with bench.http.get(bench.server.link) as answer:
        policy = answer.headers["Content-Security-Policy"]
        text = await answer.text()

    assert not re.search(r"(src|href)=[\"'](https?:)?//", text)
    assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=", text)
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    for path in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text):
        async with bench.http.get(path) as file:
            assert file.status == 200


@pytest.mark.parametrize("path", ["/", "/api/chat/threads", "/static/app.js", "/nothing", "/healthz"])
async def test_every_answer_has_the_security_headers(bench: Bench, path: str) -> None:
    async with bench.http.get(path) as answer:
        headers = answer.headers

    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "aiohttp" not in headers["Server"].lower()


async def test_an_unchanged_file_is_not_sent_again(bench: Bench) -> None:
    async with bench.http.get("/static/app.js") as first:
        assert first.content_type == "text/javascript"
        tag = first.headers["ETag"]

    async with bench.http.get("/static/app.js", headers={"If-None-Match": tag}) as second:
        assert (second.status, await second.read()) == (304, b"")


@pytest.mark.parametrize("name", ["index.html", "..%2fserver.py", "%2e%2e/server.py", "none.js"])
async def test_only_the_files_of_the_page_are_served(bench: Bench, name: str) -> None:
    async with bench.http.get(f"/static/{name}") as answer:
        assert answer.status == 404


async def test_health_is_open_and_readiness_names_the_culprit(bench: Bench) -> None:
    ready = await bench.call("GET", "/readyz", headers={"Host": "probe.example"})
    bench.faults["telegram"] = "not connected"
    unready = await bench.call("GET", "/readyz", headers={})
    alive, _ = await bench.call("GET", "/healthz", headers={})

    assert ready == (200, {"status": "ready"})
    assert unready == (503, {"status": "not ready", "faults": {"telegram": "not connected"}})
    assert alive == 200


async def test_metrics_are_prometheus_text() -> None:
    registry = CollectorRegistry()
    Counter("optimclaw_turns", "Turns.", registry=registry).inc()

    async with running_bench(registry=registry) as bench, bench.http.get("/metrics") as answer:
        text = await answer.text()

    assert answer.content_type == "text/plain"
    assert "optimclaw_turns_total 1.0" in text


@pytest.mark.parametrize(
    "headers", [{"X-Forwarded-For": "203.0.113.9"}, {"Forwarded": "for=203.0.113.9"}, {"Host": "bot.example"}]
)
async def test_metrics_through_a_proxy_need_the_token(headers: dict[str, str]) -> None:
    async with running_bench(registry=CollectorRegistry()) as bench:
        without, _ = await bench.call("GET", "/metrics", headers=headers)
        with_token, _ = await bench.call("GET", "/metrics", headers=headers | BEARER)

    assert (without, with_token) == (401, 200)


async def test_metrics_that_are_off_are_not_there(bench: Bench) -> None:
    assert (await bench.call("GET", "/metrics"))[0] == 404


async def test_a_busy_default_port_moves_to_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async with running_bench(BenchSettings(port=port, port_is_explicit=False)) as bench:
            assert port < bench.server.port <= port + 50
            assert (await bench.call("GET", "/healthz"))[0] == 200


async def test_a_busy_port_that_was_set_is_an_error_with_its_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(AddressTaken, match=rf"127\.0\.0\.1:{port}.*in use.*WEB_PORT"):
            async with running_bench(BenchSettings(port=port)):
                pass


async def test_a_host_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(AddressTaken, match="not one of this machine"):
        async with running_bench(BenchSettings(host="192.0.2.1", port=8080)):
            pass


async def test_each_start_without_a_token_makes_another_one() -> None:
    links = set()
    for _ in range(2):
        async with running_bench(BenchSettings(token=None)) as bench, bench.http.get(bench.server.link) as answer:
            assert answer.status == 200
            links.add(bench.server.link.partition("token=")[2])

    assert len(links) == 2
    assert all(len(each) >= 32 for each in links)


async def test_the_link_of_a_server_on_all_addresses_names_this_machine() -> None:
    async with running_bench(BenchSettings(host="0.0.0.0")) as bench:
        assert bench.server.link == f"http://127.0.0.1:{bench.server.port}/?token={TOKEN}"
        status, _ = await bench.call("GET", "/api/chat/threads", headers=BEARER | {"Host": "bot.example"})
        assert status == 200


async def test_platform_deliveries_reach_their_handlers_under_any_host_name() -> None:
    seen: list[tuple[bytes, str | None]] = []

    async def telegram(body: bytes, secret: str | None) -> int:
        seen.append((body, secret))
        return 200 if secret == "right" else 403

    async def slack(body: bytes, headers: Mapping[str, str]) -> tuple[int, str, str]:
        return 200, "application/json", f'{{"signature": "{headers["x-slack-signature"]}"}}'

    async with running_bench(routes=(telegram_route("/hook/telegram", telegram), slack_route(slack))) as bench:
        host = {"Host": "bot.example"}
        secret = {"X-Telegram-Bot-Api-Secret-Token": "right"}
        taken, _ = await bench.call("POST", "/hook/telegram", body={"update_id": 1}, headers=host | secret)
        refused, _ = await bench.call("POST", "/hook/telegram", body={}, headers=host)
        answer = await bench.call("POST", "/slack/events", body={}, headers=host | {"X-Slack-Signature": "v0=ab"})

    assert (taken, refused) == (200, 403)
    assert seen == [(b'{"update_id": 1}', "right"), (b"{}", None)]
    assert answer == (200, {"signature": "v0=ab"})


async def test_a_delivery_that_is_too_large_or_takes_too_long_is_refused() -> None:
    async def stuck(body: bytes, headers: Mapping[str, str]) -> DeliveryAnswer:
        await asyncio.Event().wait()
        return DeliveryAnswer()

    route = DeliveryRoute("/hook", stuck, max_bytes=10, answer_within=timedelta(milliseconds=20))
    async with running_bench(routes=(route,)) as bench:
        large, _ = await bench.call("POST", "/hook", body={"text": "more than ten bytes"})
        slow, _ = await bench.call("POST", "/hook", body={})

    assert (large, slow) == (413, 503)
