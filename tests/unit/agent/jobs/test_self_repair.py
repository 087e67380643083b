"""Tools that keep breaking are taken away, and stay away until the next start."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest

from agent.jobs.records import JobRecords, JobRules
from agent.jobs.self_repair import BROKEN_AFTER, SelfRepair
from agent.model.ids import ThreadId
from agent.model.tool_call import ToolOutput
from agent.store import tool_health
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.outbox import Parcel
from agent.store.sqlite import SqliteStore
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.builtin.echo import Echo
from agent.tools.registry import ToolRegistry
from agent.tools.schema import Arguments
from tests.support.fake_clock import FakeClock


async def not_built_here(tool: str) -> str | None:
    return None


class Nothing(Arguments):
    """No arguments."""


class Flaky:
    """A tool of some server."""

    spec: ClassVar = ToolSpec("flaky", "Breaks.", Nothing, Effect.READ)

    def scope(self, arguments: Nothing) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: Nothing, context: ToolContext) -> ToolOutput:
        return ToolOutput("")


class Nobody:
    """Wakes nothing and delivers nothing."""

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        return None

    def stop(self, thread: ThreadId) -> None:
        return None

    def offer(self, parcel: Parcel) -> None:
        return None


class Desk:
    """A repair with what it looks after."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.told = store, list[str]()
        self.registry = ToolRegistry([Echo()])
        self.registry.register(Flaky())
        nobody, clock = Nobody(), FakeClock()
        records = JobRecords(JobRules(1), nobody, nobody)
        self.repair = SelfRepair(records, store, clock, nobody, self.registry, self._tell, not_built_here)

    async def fail(self, tool: str, times: int) -> None:
        for _ in range(times):
            await self.store.write(lambda tx: tool_health.note_failure(tx, tool, FakeClock().now()))

    async def _tell(self, text: str) -> bool:
        self.told.append(text)
        return True


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    store = open_store(tmp_path)
    yield Desk(store)
    await store.close()


async def test_tool_that_breaks_less_often_stays(desk: Desk) -> None:
    await desk.fail("flaky", BROKEN_AFTER - 1)
    await desk.repair.check()

    assert desk.registry.get("flaky") is not None
    assert desk.told == []


async def test_broken_tool_is_taken_away_again_when_its_server_brings_it_back_and_told_once(desk: Desk) -> None:
    await desk.fail("flaky", BROKEN_AFTER)
    await desk.repair.check()
    assert desk.registry.register(Flaky())
    await desk.repair.check()

    assert desk.registry.get("flaky") is None
    assert len(desk.told) == 1
    assert "flaky" in desk.told[0]


async def test_built_in_tool_stays_whatever_it_does(desk: Desk) -> None:
    await desk.fail("echo", BROKEN_AFTER * 2)
    await desk.repair.check()

    assert desk.registry.get("echo") is not None
    assert desk.told == []
