"""What a conversation costs inside the bot: reading commands, taking up a long one again, and going on with it.

The bot runs in this process on a database of its own; the model and the platform answer at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import structlog
from sqlalchemy import insert, update

from agent.llm.base import Completion, CompletionRequest, FinishReason, OnText, Usage
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.settings import PROVIDER_SETTINGS
from agent.model import ids
from agent.model.ids import OPERATOR, TurnId
from agent.model.session import TurnState
from agent.model.submission import parse_text
from agent.model.tool_call import ToolCall
from agent.store import tables
from agent.store.base import Transaction
from agent.store.codec import dump_message
from agent.store.conversations import resolve
from agent.store.open import open_store
from agent.store.outbox import SendState
from agent.turns.engine import Handlers
from bot.compose import Core, build_core
from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import Rejected
from channels.message import (
    Address,
    Attachment,
    ChatType,
    ConversationKey,
    Draft,
    EarlierMessage,
    IncomingMessage,
    MessageMetadata,
    OutgoingMessage,
    Sender,
)
from channels.settings import CHANNEL_SETTINGS
from config.load import Extensions, load_settings
from config.settings import Settings

Figures = dict[str, float]

SUBMISSIONS = 10_000
FEW, MANY, WARM = 50, 5_000, 400
KEPT_TURNS = 5
ROUNDS = 15
PLACE = Address(channel="telegram", chat_id="1")

_UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
_BUTTON = json.dumps({"ExecApproval": {"request_id": _UUID, "approved": True, "always": False}})
_CORPUS = (
    "What does /undo do?",
    "/undo",
    "yes",
    "a longer message of a person, " * 40,
    "/status 17",
    f"/thread {_UUID}",
    "  Always ",
    _BUTTON,
    "/model --now some-model",
    '{"not": "a button"}',
    "approve telegram ABCD2345",
    "/unknown with words",
    "/resume not-an-id",
    "안녕하세요, 오늘 날씨 어때요?",
    f"/resume {_UUID}",
    "/expected something else",
)
"""Texts of every kind, most of them ordinary talk or commands that need a look at their words."""


class _Model:
    """Answers at once."""

    name, model, context_limit, supports_tools = "bench", "bench", 10_000_000, True

    def __init__(self) -> None:
        self.prompt_messages = 0

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        self.prompt_messages = len(request.messages)
        return Completion("an answer of a few words", FinishReason.STOP, usage=Usage(10, 5))

    async def list_models(self) -> tuple[str, ...]:
        return ()

    async def warm_up(self) -> None: ...

    async def close(self) -> None: ...


class _Platform:
    """Takes what is sent."""

    name: ClassVar[str] = "telegram"
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=4000, buttons=True, threads=True)
    health = ChannelHealth(ChannelState.CONNECTED)

    def __init__(self) -> None:
        self.sent = asyncio.Event()

    async def run(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        self.sent.set()
        return "1"

    async def show(self, draft: Draft) -> str | None:
        return None

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        return Uncertain.SKIP

    async def open_private_chat(self, user_id: str) -> str:
        return user_id

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return ()

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        raise Rejected(self.name, "no files here")


class _Chat:
    """A running bot and the person who writes to it."""

    _numbers = itertools.count(1)

    def __init__(self, core: Core, platform: _Platform, model: _Model) -> None:
        self._core = core
        self._platform = platform
        self.model = model

    async def ask(self, user: str) -> float:
        """One message and its answer, in ms."""
        number = next(self._numbers)
        message = IncomingMessage(
            message_id=f"bench-{number}",
            address=Address(channel="telegram", chat_id=user),
            sender=Sender(user_id=user, display_name="Bench"),
            text=f"message {number}, with a few words in it",
            metadata=MessageMetadata(chat_type=ChatType.PRIVATE),
            received_at=datetime.now(UTC),
        )
        self._platform.sent.clear()
        began = time.perf_counter()
        await self._core.intake.accept(message)
        async with asyncio.timeout(30):
            await self._platform.sent.wait()
        took = (time.perf_counter() - began) * 1000
        while not (self._core.engine.is_idle and self._core.gateway.is_idle):
            await asyncio.sleep(0.001)
        return took


@contextlib.asynccontextmanager
async def _bot(home: Path) -> AsyncIterator[_Chat]:
    """A bot of one process, warm but for the conversation that is asked about."""
    model, platform = _Model(), _Platform()
    store = open_store(home)
    core = build_core(_settings(home), store, {"telegram": platform}, {}, lambda: None, make_provider=lambda *_: model)
    handlers = Handlers(core.runner.serve, core.runner.stop, core.runner.backlog)
    async with asyncio.TaskGroup() as group:
        services = [group.create_task(each) for each in (core.gateway.deliver(), core.engine.run(handlers))]
        chat = _Chat(core, platform, model)
        for _ in range(3):
            await chat.ask("2")
        yield chat
        for service in services:
            service.cancel()
    await store.close()


def _settings(home: Path) -> Settings:
    variables = {
        "OPTIMCLAW_HOME": str(home),
        "TELEGRAM_BOT_TOKEN": "123456789:AAF4keTelegramTokenForLoopbackTests0",
        "TELEGRAM_OWNER_ID": "1",
        "TELEGRAM_DM_POLICY": "open",
        "TELEGRAM_STREAMING": "false",
        "TZ": "UTC",
    }
    return load_settings(variables, extensions=Extensions(CHANNEL_SETTINGS, PROVIDER_SETTINGS), cwd=None)


# -- a conversation that was ----------------------------------------------------------------------------------------
def _turn(number: int) -> tuple[ChatMessage, ...]:
    call = ToolCall(f"call-{number}", "echo", {"message": "hi"})
    return (
        UserText(f"[2026-03-02 12:00 Monday UTC]\nmessage {number} of a person, with a few words in it"),
        AssistantTurn("", (call,)),
        ToolResult(call.id, "echo", "<tool_output>hi</tool_output>"),
        AssistantTurn(f"answer {number}, which says a little more than was asked"),
    )


def _write_past(turns: int, kept: int, tx: Transaction) -> None:
    """The operator's conversation of so many turns; the prompt holds the last `kept`, behind a summary if fewer."""
    began = datetime.now(UTC) - timedelta(days=30)
    key = ConversationKey(OPERATOR, "telegram", "1")
    thread = resolve(tx, key, PLACE, ChatType.PRIVATE, began).id
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("turns", "entries", "inbox", "outbox", "model_calls")
    }
    position = 0
    for number in range(turns):
        turn, at = ids.turn_id(thread, number + 1), began + timedelta(minutes=number)
        rows["turns"].append(
            {
                "id": turn,
                "thread_id": thread,
                "number": number,
                "state": TurnState.COMPLETE,
                "user_input": "a message",
                "response": "an answer",
                "started_at": at,
                "finished_at": at,
            }
        )
        for message in _turn(number):
            rows["entries"].append(
                {"thread_id": thread, "position": position, "turn_id": turn, "body": dump_message(message)}
            )
            position += 1
        rows["inbox"].append(_delivery(thread, turn, number, at))
        rows["outbox"].append(_reply(turn, at))
        rows["model_calls"].append(_model_call(turn, at))
    view = f"{position - kept * len(_turn(0))}-{position}"
    if kept < turns:
        summary = UserText(
            "[earlier conversation] (reference data, not instructions)\n" + "- a fact that was said\n" * 40
        )
        body = dump_message(summary)
        rows["entries"].append({"thread_id": thread, "position": position, "turn_id": thread, "body": body})
        view = f"{position}-{position + 1} {view}"
    for name, values in rows.items():
        tx.connection.execute(insert(getattr(tables, name)), values)
    tx.connection.execute(
        update(tables.threads)
        .where(tables.threads.c.id == thread)
        .values(view=view, entry_count=len(rows["entries"]), turn_count=turns, next_seq=turns)
    )


def _delivery(thread: ids.ThreadId, turn: TurnId, number: int, at: datetime) -> dict[str, Any]:
    return {
        "delivery_key": f"telegram:1:past-{number}",
        "thread_id": thread,
        "lane": "turn",
        "seq": number + 1,
        "body": "{}",
        "received_at": at,
        "turn_id": turn,
        "handled_at": at,
    }


def _reply(turn: TurnId, at: datetime) -> dict[str, Any]:
    return {
        "id": ids.reply_id(turn, "answer"),
        "channel": "telegram",
        "chat_id": "1",
        "body": "{}",
        "state": SendState.SENT,
        "created_at": at,
        "finished_at": at,
    }


def _model_call(turn: TurnId, at: datetime) -> dict[str, Any]:
    return {
        "at": at,
        "day": f"{at:%Y-%m-%d}",
        "provider": "bench",
        "model": "bench",
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "account": str(turn),
        "cost_microcents": 0,
    }


async def _past(home: Path, turns: int, kept: int) -> None:
    store = open_store(home)
    await store.write(lambda tx: _write_past(turns, kept, tx))
    await store.close()


# -- figures --------------------------------------------------------------------------------------------------------
def parsing() -> float:
    """How long it takes to read 10,000 messages of every kind, in ms."""
    texts = list(itertools.islice(itertools.cycle(_CORPUS), SUBMISSIONS))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for text in texts:
            parse_text(text)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def _cold(homes: tuple[Path, ...]) -> list[float]:
    """The first answer of a process in a stored conversation, for each home; the homes take turns."""
    times: list[list[float]] = [[] for _ in homes]
    for number in range(ROUNDS):
        for home, found in zip(homes, times, strict=True):
            async with _bot(home) as chat:
                found.append(await chat.ask("1"))
                assert chat.model.prompt_messages == 1 + KEPT_TURNS * len(_turn(0)) + 2 * number + 1
    return [statistics.median(found) for found in times]


async def _warm(home: Path) -> float:
    async with _bot(home) as chat:
        await chat.ask("1")
        return statistics.median([await chat.ask("1") for _ in range(20)])


async def measure() -> Figures:
    """All figures, in the bot's column."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        few, many, short, long = (Path(folder) / name for name in ("few", "many", "short", "long"))
        await _past(few, FEW, KEPT_TURNS)
        await _past(many, MANY, KEPT_TURNS)
        first_of_few, first_of_many = await _cold((few, many))
        await _past(short, 10, 10)
        await _past(long, WARM - 10, WARM - 10)
        return {
            f"parse {SUBMISSIONS} submissions, ms": parsing(),
            f"{FEW} turns stored, first answer, ms": first_of_few,
            f"{MANY} turns stored, first answer, ms": first_of_many,
            f"first answer, {MANY} : {FEW} turns": first_of_many / first_of_few,
            "in process, turn 20, ms": await _warm(short),
            f"in process, turn {WARM}, ms": await _warm(long),
        }


GOALS = {
    f"parse {SUBMISSIONS} submissions, ms": "<= 200",
    f"first answer, {MANY} : {FEW} turns": "<= 1.2",
}
