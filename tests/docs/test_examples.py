"""What the how-to pages tell people to write works as it is printed."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.commands.base import Command
from agent.llm.base import CompletionRequest, FinishReason, LLMProvider, Usage
from agent.llm.errors import LLMError, ModelUnavailable, RequestRefused, TransientError
from agent.llm.messages import UserText
from channels.base import Accept, Accepted, Channel, Uncertain
from channels.errors import ChannelError, RateLimited, Rejected, Unauthorized, Unavailable
from channels.files import describe
from channels.message import Address, ChatType, IncomingMessage, OutgoingFile, OutgoingMessage
from tests.architecture.test_registries import differences
from tests.docs.pages import ROOT, as_module, blocks

Handler = Callable[[web.Request], Awaitable[web.Response]]

A_TOKEN = "syt-loopback-token-000000"


# -- a command ---------------------------------------------------------------------------------------------------
def test_documented_command_is_a_command(tmp_path: Path) -> None:
    with as_module(printed("write-a-command.md")[0], "documented_uptime", tmp_path) as module:
        assert isinstance(module.UPTIME, Command)
        assert module.UPTIME.name == "uptime"


# -- a provider --------------------------------------------------------------------------------------------------
@pytest.fixture
def ollama(tmp_path: Path) -> Iterator[ModuleType]:
    with documented("write-a-provider.md", "agent.llm.settings", "OllamaSettings", tmp_path) as module:
        yield module


def test_documented_provider_has_all_that_is_asked(ollama: ModuleType) -> None:
    assert differences(ollama.OllamaProvider, LLMProvider) == []


async def test_documented_provider_streams_an_answer(ollama: ModuleType) -> None:
    lines = [{"message": {"content": "Hel"}}, {"message": {"content": "lo"}}]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2}
    heard: list[str] = []

    async with serving(web.post("/api/chat", answer_lines(*lines, end))) as url:
        completion = await provider_at(ollama, url).complete(a_request(), heard.append)

    assert completion.text == "Hello"
    assert heard == ["Hel", "lo"]
    assert completion.finish is FinishReason.STOP
    assert completion.usage == Usage(7, 2)


async def test_documented_provider_takes_a_broken_stream_for_a_fault(ollama: ModuleType) -> None:
    async with serving(web.post("/api/chat", answer_lines({"message": {"content": "Hel"}}))) as url:
        with pytest.raises(TransientError):
            await provider_at(ollama, url).complete(a_request())


@pytest.mark.parametrize(("status", "fault"), [(404, ModelUnavailable), (429, TransientError), (400, RequestRefused)])
async def test_documented_provider_translates_faults(ollama: ModuleType, status: int, fault: type[LLMError]) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with serving(web.post("/api/chat", refuse)) as url:
        with pytest.raises(fault):
            await provider_at(ollama, url).complete(a_request())


def provider_at(module: ModuleType, url: str) -> LLMProvider:
    settings = module.OllamaSettings(base_url=url)
    provider: LLMProvider = module.OllamaProvider(settings, model="m", timeout=timedelta(seconds=5))
    return provider


def a_request() -> CompletionRequest:
    return CompletionRequest("Be brief.", (UserText("hi"),))


def answer_lines(*lines: object) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="".join(json.dumps(line) + "\n" for line in lines))

    return answer


# -- a channel ---------------------------------------------------------------------------------------------------
@pytest.fixture
def matrix(tmp_path: Path) -> Iterator[ModuleType]:
    with documented("write-a-channel.md", "channels.settings", "MatrixSettings", tmp_path) as module:
        yield module


def test_documented_channel_has_all_that_is_asked(matrix: ModuleType) -> None:
    assert differences(matrix.MatrixChannel, Channel) == []


async def test_documented_channel_hands_on_what_people_wrote_and_confirms_it_afterwards(matrix: ModuleType) -> None:
    homeserver = Homeserver()
    homeserver.say("!two", "@alice:x", "hello", members=2)
    homeserver.say("!many", "@bob:x", "@bot:x: hi there", members=5)
    homeserver.say("!many", "@bob:x", "not for you")
    homeserver.say("!unknown", "@bob:x", "who reads this?")
    homeserver.say("!two", "@bot:x", "my own words")
    got: list[IncomingMessage] = []

    async def accept(message: IncomingMessage) -> Accepted:
        assert homeserver.since == [None]  # nothing is confirmed yet
        got.append(message)
        return Accepted()

    async with serving(*homeserver.routes()) as url, running(channel_at(matrix, url), accept):
        await homeserver.is_asked_again.wait()

    assert [(m.text, m.metadata.chat_type, m.metadata.addressed_to_bot) for m in got] == [
        ("hello", ChatType.PRIVATE, True),
        ("hi there", ChatType.GROUP, True),
        ("not for you", ChatType.GROUP, False),
        ("who reads this?", ChatType.UNKNOWN, False),
    ]
    assert homeserver.since == [None, "s1"]
    assert homeserver.tokens == {f"Bearer {A_TOKEN}"}


async def test_documented_channel_goes_on_after_the_parts_that_arrived(matrix: ModuleType) -> None:
    homeserver, parcel = Homeserver(), FakeDelivery(("$1",))
    words = "word " * 7000
    message = OutgoingMessage(address=Address(channel="matrix", chat_id="!two"), text=words)

    async with serving(*homeserver.routes()) as url:
        channel = channel_at(matrix, url)
        last = await channel.send(message, parcel)

    assert homeserver.sent == [f"{message.id}-1", f"{message.id}-2"]
    assert len(parcel.sent) == 2
    assert last == "$sent2"
    assert await channel.settle(message, parcel) is Uncertain.RESEND


async def test_documented_channel_names_the_files_that_it_does_not_send(matrix: ModuleType) -> None:
    homeserver, parcel = Homeserver(), FakeDelivery()
    file = describe("plan.txt", b"the plan")
    message = OutgoingMessage(address=Address(channel="matrix", chat_id="!two"), text="look", files=(file,))

    async with serving(*homeserver.routes()) as url:
        await channel_at(matrix, url).send(message, parcel)

    assert homeserver.sent == [f"{message.id}-0", f"{message.id}-1"]
    assert len(parcel.sent) == 1


@pytest.mark.parametrize(
    ("status", "fault"), [(401, Unauthorized), (429, RateLimited), (502, Unavailable), (403, Rejected)]
)
async def test_documented_channel_translates_faults(matrix: ModuleType, status: int, fault: type[ChannelError]) -> None:
    homeserver = Homeserver(refuses=status)
    message = OutgoingMessage(address=Address(channel="matrix", chat_id="!two"), text="hello")

    async with serving(*homeserver.routes()) as url:
        with pytest.raises(fault):
            await channel_at(matrix, url).send(message, FakeDelivery())


def channel_at(module: ModuleType, url: str) -> Channel:
    channel: Channel = module.MatrixChannel(module.MatrixSettings(bot_token=A_TOKEN, api_base_url=url))
    return channel


@dataclass
class FakeDelivery:
    """What has arrived, in memory."""

    sent: tuple[str, ...] = ()

    async def record(self, platform_id: str) -> None:
        self.sent = (*self.sent, platform_id)

    async def read_file(self, file: OutgoingFile) -> bytes:
        return file.filename.encode()


@dataclass
class Homeserver:
    """A homeserver with one account, @bot:x, that has news at the first sync and none after it."""

    refuses: int = 0
    events: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    since: list[str | None] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    is_asked_again: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, room: str, sender: str, text: str, members: int | None = None) -> None:
        number = sum(map(len, self.events.values()))
        event = {"type": "m.room.message", "event_id": f"${number}", "sender": sender, "content": {"body": text}}
        self.events.setdefault(room, []).append(event | {"origin_server_ts": int(time.time() * 1000)})
        if members is not None:
            self.members[room] = members

    def routes(self) -> list[web.RouteDef]:
        base = "/_matrix/client/v3"
        return [
            web.get(f"{base}/account/whoami", self._who),
            web.get(f"{base}/sync", self._sync),
            web.put(f"{base}/rooms/{{room}}/send/m.room.message/{{id}}", self._take),
        ]

    async def _who(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers.get("Authorization"))
        return web.json_response({"user_id": "@bot:x"})

    async def _sync(self, request: web.Request) -> web.Response:
        self.since.append(request.query.get("since"))
        if len(self.since) > 1:
            self.is_asked_again.set()
            await asyncio.Event().wait()
        rooms = {
            room: {
                "timeline": {"events": events},
                "summary": {"m.joined_member_count": self.members[room]} if room in self.members else {},
            }
            for room, events in self.events.items()
        }
        return web.json_response({"next_batch": "s1", "rooms": {"join": rooms}})

    async def _take(self, request: web.Request) -> web.Response:
        if self.refuses:
            return web.json_response({"retry_after_ms": 5000}, status=self.refuses)
        self.sent.append(request.match_info["id"])
        return web.json_response({"event_id": f"$sent{len(self.sent)}"})


# -- from the pages ----------------------------------------------------------------------------------------------
def printed(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return [block.text for block in blocks(ROOT / "docs" / page) if block.language == "python"]


@contextmanager
def documented(page: str, settings_module: str, settings_class: str, folder: Path) -> Iterator[ModuleType]:
    """The module of a page, its settings class taken from the page, too, in the place where the page puts it."""
    module, settings, *_ = printed(page)
    place = importlib.import_module(settings_module)
    source = f"from __future__ import annotations\nfrom {settings_module} import *\n{imports_of(place)}\n{settings}"
    with as_module(source, f"documented_{settings_class}", folder) as added:
        body = module.replace(f"from {settings_module} import", f"from {added.__name__} import")
        with as_module(body, f"documented_{page.removesuffix('.md').replace('-', '_')}", folder) as found:
            yield found


def imports_of(place: ModuleType) -> str:
    """What the settings module has imported: the page's class stands below these lines."""
    assert place.__file__ is not None
    lines = Path(place.__file__).read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("from ") and "__future__" not in line)


@asynccontextmanager
async def serving(*routes: web.RouteDef) -> AsyncIterator[str]:
    """A server on 127.0.0.1 with these routes; its address."""
    app = web.Application()
    app.add_routes(routes)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


@asynccontextmanager
async def running(channel: Channel, accept: Accept) -> AsyncIterator[None]:
    """The channel, receiving."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(accept))
        yield
        task.cancel()
