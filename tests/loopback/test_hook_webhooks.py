"""Outbound webhooks against a server on this machine that speaks TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from agent.hooks.base import (
    Event,
    Hook,
    InboundEvent,
    OutboundEvent,
    Passed,
    PassedCall,
    Point,
    ResponseEvent,
    SessionEvent,
    ToolEvent,
)
from agent.hooks.entries import WebhookEntry
from agent.hooks.runner import HookRunner
from agent.hooks.webhooks import webhook_hook
from agent.model.ids import UserId
from agent.net.address import IPAddress, Unreachable
from agent.net.client import WebClient
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.tls import ELSEWHERE, HERE, NAME, Names, certificate

ANN = UserId("telegram:5")
CANARY = "canary words that nobody else may read"
HELLO = InboundEvent(ANN, "telegram", CANARY, "t1")


class Receiver:
    """Takes posts; answers with `status`, where it is told to only once `gate` is open."""

    def __init__(self) -> None:
        self.bodies: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.raw = ""
        self.status = 204
        self.port = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def url(self, path: str = "/in", host: str = NAME) -> str:
        return f"https://{host}:{self.port}{path}"

    async def take(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        self.raw += await request.text()
        self.bodies.put_nowait(await request.json())
        await self.gate.wait()
        return web.Response(status=self.status, headers={"Location": "/elsewhere"} if self.status == 307 else {})


@pytest.fixture
async def receiver(tmp_path: Path) -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", made.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate(tmp_path))
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    made.port = runner.addresses[0][1]
    yield made
    made.gate.set()
    await runner.cleanup()


def poster(tmp_path: Path, *answers: Sequence[IPAddress]) -> WebClient:
    tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    return WebClient(Names(*(answers or [[HERE]])), lambda address: address == HERE, tls)


def hook_to(receiver: Receiver, tmp_path: Path, **more: object) -> Hook:
    entry = {"name": "told", "points": list(Point), "url": receiver.url(), "timeout_ms": 30_000, **more}
    post = poster(tmp_path).post_json
    return webhook_hook("hooks.json", WebhookEntry.model_validate(entry), post, FakeClock())


async def test_every_event_is_told_without_its_content(receiver: Receiver, tmp_path: Path) -> None:
    hook = hook_to(receiver, tmp_path, headers={"X-Source": "bot"})
    events: list[Event] = [
        HELLO,
        OutboundEvent(ANN, "telegram", CANARY, "t1"),
        ResponseEvent(ANN, "t1", CANARY),
        ToolEvent("shell", {"command": CANARY, "secret.txt": CANARY}, ANN, "chat"),
        SessionEvent(Point.SESSION_END, ANN, "s1"),
    ]

    for event in events:
        await hook.run(event)

    at, length = NOON.isoformat(), len(CANARY)
    assert [receiver.bodies.get_nowait() for _ in events] == [
        {"at": at, "event": "beforeInbound", "user": ANN, "channel": "telegram", "thread": "t1", "length": length},
        {"at": at, "event": "beforeOutbound", "user": ANN, "channel": "telegram", "thread": "t1", "length": length},
        {"at": at, "event": "transformResponse", "user": ANN, "thread": "t1", "length": length},
        {"at": at, "event": "beforeToolCall", "user": ANN, "tool": "shell", "context": "chat", "argument_count": 2},
        {"at": at, "event": "onSessionEnd", "user": ANN, "session": "s1"},
    ]
    assert CANARY not in receiver.raw
    assert "secret.txt" not in receiver.raw
    assert receiver.headers[0]["X-Source"] == "bot"
    assert not {"Cookie", "Authorization"} & set(receiver.headers[-1])


async def test_message_does_not_wait_for_its_webhook_and_is_not_changed_by_it(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.gate.clear()
    runner = HookRunner()
    runner.register(hook_to(receiver, tmp_path))

    async with asyncio.TaskGroup() as group:
        service = group.create_task(runner.run())
        assert await runner.inbound(HELLO) == Passed(CANARY)
        assert await runner.before_tool(ToolEvent("shell", {"a": 1}, ANN, "chat")) == PassedCall()
        told = {str((await receiver.bodies.get())["event"]) for _ in range(2)}
        service.cancel()

    assert told == {"beforeInbound", "beforeToolCall"}


async def test_what_is_too_much_at_once_is_dropped_and_counted(receiver: Receiver, tmp_path: Path) -> None:
    receiver.gate.clear()
    hook = hook_to(receiver, tmp_path, max_in_flight=2)

    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(_run(hook))
            for _ in range(2):
                await receiver.bodies.get()
            await hook.run(HELLO)
            receiver.gate.set()
        await hook.run(HELLO)

    assert [(each["event"], each["dropped"]) for each in logs] == [("webhook_dropped", 1)]
    assert len(receiver.paths) == 3


async def _run(hook: Hook) -> None:
    await hook.run(HELLO)


async def test_redirect_is_not_followed(receiver: Receiver, tmp_path: Path) -> None:
    receiver.status = 307

    with structlog.testing.capture_logs() as logs:
        await hook_to(receiver, tmp_path).run(HELLO)

    assert receiver.paths == ["/in"]
    assert [each["event"] for each in logs] == ["webhook_unreachable"]


async def test_server_that_is_away_is_logged_and_that_is_all(receiver: Receiver, tmp_path: Path) -> None:
    entry = WebhookEntry(name="told", points=frozenset({Point.BEFORE_INBOUND}), url=receiver.url(host="other.example"))

    with structlog.testing.capture_logs() as logs:
        await webhook_hook("f", entry, poster(tmp_path).post_json, FakeClock()).run(HELLO)

    assert [each["event"] for each in logs] == ["webhook_unreachable"]
    assert receiver.paths == []


async def test_address_that_is_not_public_when_it_is_asked_gets_no_connection(
    receiver: Receiver, tmp_path: Path
) -> None:
    for answers in ([ELSEWHERE], [HERE, ELSEWHERE], []):
        with pytest.raises(Unreachable, match="this machine"):
            await poster(tmp_path, answers).post_json(receiver.url(), {}, {})
    with pytest.raises(Unreachable):
        await WebClient().post_json(receiver.url(host="127.0.0.1"), {}, {})  # with the resolver of the system

    assert receiver.paths == []


async def test_connection_goes_where_the_look_up_pointed(receiver: Receiver, tmp_path: Path) -> None:
    assert await poster(tmp_path, [HERE], [ELSEWHERE]).post_json(receiver.url(), {}, {}) == 204
