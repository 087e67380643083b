"""A web server on a real loopback port, with a store in memory and an agent that only notes what it was given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import aiohttp
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from agent.errors import NotYours
from agent.model.ids import thread_id
from bot.web.backend import FileView, History, ThreadSummary, TurnView
from bot.web.deliveries import Route
from bot.web.operations import Operations
from bot.web.server import WebServer
from channels.base import Accepted
from channels.message import Address, ConversationKey, IncomingMessage
from channels.web import EventHub, WebChannel
from tests.support.builders import NOON

TOKEN = "a-token-that-only-the-tests-know"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def thread_of(conversation: str) -> UUID:
    """The thread of a conversation of the page."""
    return thread_id(ConversationKey("operator", "web", conversation), 0)


@dataclass
class HandClock:
    """A clock that stands still until it is moved."""

    time: datetime = NOON

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        self.time += duration


@dataclass(frozen=True)
class BenchSettings:
    """Where the server under test listens."""

    host: str = "127.0.0.1"
    port: int = 0
    port_is_explicit: bool = True
    token: SecretStr | None = field(default_factory=lambda: SecretStr(TOKEN))


@dataclass
class BenchBackend:
    """The threads of the page, in memory."""

    conversations: dict[str, History] = field(default_factory=dict)
    files: dict[str, FileView] = field(default_factory=dict)

    def add(self, conversation: str, *turns: TurnView) -> History:
        history = History(thread_of(conversation), conversation, turns)
        self.conversations[conversation] = history
        return history

    async def threads(self) -> list[ThreadSummary]:
        return [
            ThreadSummary(each.thread_id, name, f"Title of {name}", NOON, NOON, "idle")
            for name, each in self.conversations.items()
        ]

    async def history(self, thread_id: UUID | None) -> History:
        conversation = "main" if thread_id is None else (await self.address_of(thread_id)).chat_id
        return self.conversations[conversation]

    async def file(self, digest: str) -> FileView:
        if digest not in self.files:
            raise NotYours
        return self.files[digest]

    async def address_of(self, thread_id: UUID) -> Address:
        for name, each in self.conversations.items():
            if each.thread_id == thread_id:
                return Address(channel="web", chat_id=name)
        raise NotYours


@dataclass
class Bench:
    """The running server and what its channel was told."""

    server: WebServer
    channel: WebChannel
    backend: BenchBackend
    clock: HandClock
    faults: dict[str, str]
    http: aiohttp.ClientSession
    messages: list[IncomingMessage] = field(default_factory=list)

    async def accept(self, message: IncomingMessage) -> Accepted:
        self.messages.append(message)
        return Accepted(thread_of(message.address.chat_id))

    async def call(
        self, method: str, path: str, *, body: object = None, headers: Mapping[str, str] = BEARER
    ) -> tuple[int, dict[str, object]]:
        """Status and JSON of one request."""
        async with self.http.request(method, path, json=body, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.json() if answer.content_type == "application/json" else {}

    async def send(self, body: object, headers: Mapping[str, str] = BEARER) -> tuple[int, dict[str, object]]:
        return await self.call("POST", "/api/chat/send", body=body, headers=headers)

    @asynccontextmanager
    async def events(self, headers: Mapping[str, str] = BEARER, query: str = "") -> AsyncIterator[EventReader]:
        """The event stream, once the server has greeted."""
        async with self.http.get(f"/api/events{query}", headers=headers) as answer:
            reader = EventReader(answer)
            if answer.status == 200:
                await reader.lines()
            yield reader


@dataclass(frozen=True)
class Seen:
    """One event as a browser sees it."""

    id: int
    name: str
    data: dict[str, object]


class EventReader:
    """Reads server-sent events from an open response."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.status = answer.status

    async def lines(self) -> list[str]:
        """The lines up to the next empty one; none at the end of the stream."""
        lines: list[str] = []
        async with asyncio.timeout(5):
            while line := (await self.answer.content.readline()).decode().rstrip("\n"):
                lines.append(line)
        return lines

    async def next(self) -> Seen:
        """The next event; comments are passed over."""
        while True:
            lines = await self.lines()
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                return Seen(int(fields["id"]), fields["event"], json.loads(fields["data"]))


@asynccontextmanager
async def running_bench(
    settings: BenchSettings | None = None,
    *,
    hub: EventHub | None = None,
    routes: Sequence[Route] = (),
    registry: CollectorRegistry | None = None,
    is_agent_there: bool = True,
) -> AsyncIterator[Bench]:
    """A server that listens, with an agent behind it unless told otherwise."""
    channel, backend, clock = WebChannel(hub or EventHub(first_id=1)), BenchBackend(), HandClock()
    backend.add("main")
    faults: dict[str, str] = {}

    async def current_faults() -> Mapping[str, str]:
        return faults

    operations = Operations(current_faults, registry)
    server = WebServer(settings or BenchSettings(), channel, backend, operations, routes, clock)
    async with server.running() as url:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(url, cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=10)) as http:
            bench = Bench(server, channel, backend, clock, faults, http)
            async with asyncio.TaskGroup() as group:
                agent = group.create_task(channel.run(bench.accept)) if is_agent_there else None
                await asyncio.sleep(0)
                yield bench
                if agent is not None:
                    agent.cancel()
