"""What a look at the time table costs where many routines wait and none is due, and a message that many listen for."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

from agent.clock import SystemClock
from agent.hooks.runner import HookRunner
from agent.model.ids import OPERATOR, JobId, RoutineId
from agent.model.job import Job, JobRequest
from agent.model.routine import (
    Cron,
    Ending,
    Guardrails,
    Lightweight,
    Notify,
    OnMessage,
    Origin,
    Plan,
    Routine,
    Run,
    RunStatus,
    Trigger,
)
from agent.routines.access import OwnerAccess
from agent.routines.engine import RoutineEngine
from agent.routines.firing import MessageTriggers, Rules
from agent.store import routines
from agent.store.base import Store, Transaction
from agent.store.open import open_store
from agent.store.outbox import Parcel
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, Sender

ROUTINES, LISTENING, TIMES = 1000, 50, 200
GOALS = {
    f"look at {ROUTINES} routines, p95, ms": "<= 20",
    f"message past {LISTENING} routines that listen, p50, ms": "<= 5",
}
_HERE = Address(channel="telegram", chat_id="1")


class _Nobody:
    """Runs nothing, takes no jobs, delivers nothing."""

    async def run(self, routine: Routine, run: Run, action: Lightweight) -> Ending:
        return Ending(RunStatus.OK)

    async def start(self, request: JobRequest) -> JobId | str:
        return "there are none"

    async def ended(self, job: JobId) -> Job | None:
        return None

    def offer(self, parcel: Parcel) -> None:
        return None


async def measure() -> dict[str, float]:
    """Both figures, on a database of their own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        store = open_store(Path(home))
        try:
            await store.write(_fill)
            looks, messages = await _looks(store), await store.write(_messages)
        finally:
            await store.close()
    looked, heard = GOALS
    return {looked: statistics.quantiles(looks, n=20)[18], heard: statistics.median(messages)}


async def _looks(store: Store) -> list[float]:
    nobody = _Nobody()
    engine = RoutineEngine(
        Rules(10, timedelta(seconds=15)),
        store=store,
        clock=SystemClock(),
        lightweight=nobody,
        jobs=nobody,
        deliveries=nobody,
        hooks=HookRunner(),
        owners=OwnerAccess({}),
    )
    times = []
    async with asyncio.TaskGroup() as group:
        for _ in range(TIMES):
            began = time.perf_counter()
            await engine.tick(group)
            times.append((time.perf_counter() - began) * 1000)
    return times


def _messages(tx: Transaction) -> list[float]:
    triggers = MessageTriggers(Rules(10, timedelta(seconds=15)), lambda: None)
    message = IncomingMessage(
        message_id="1",
        address=_HERE,
        sender=Sender(user_id="1"),
        text="the deploy of the shop went well, please look into the log of last night",
        metadata=MessageMetadata(chat_type=ChatType.PRIVATE),
        received_at=datetime.now(UTC),
    )
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        assert not triggers.take(tx, OPERATOR, message, message.received_at)
        times.append((time.perf_counter() - began) * 1000)
    return times


def _fill(tx: Transaction) -> None:
    now = datetime.now(UTC)
    make = partial(_routine, tx, now)
    for number in range(ROUTINES):
        make(f"at nine {number}", Cron("0 9 * * *", "UTC"), now + timedelta(days=1, seconds=number))
    for number in range(LISTENING):
        make(f"deploy {number}", OnMessage(f"deploy {number} (failed|broke)"), None)


def _routine(tx: Transaction, now: datetime, name: str, trigger: Trigger, due_at: datetime | None) -> None:
    origin = Origin(_HERE, ChatType.PRIVATE, "1", "UTC")
    plan = Plan(trigger, Lightweight("look"), Guardrails(timedelta(seconds=300)), Notify(), origin)
    routine = Routine(RoutineId(uuid4()), OPERATOR, name, "", True, plan, due_at, due_at, None, 0, 0, now, now)
    assert routines.add(tx, routine)
