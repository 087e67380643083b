"""The engine by itself: a database that goes away, jobs that are refused, a run that nobody may begin twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from agent.conversation.hooked import NoHooks
from agent.model.ids import JobId
from agent.model.job import Job, JobRequest
from agent.model.routine import Ending, FullJob, Lightweight, Manual, Routine, Run, RunStatus, Trigger
from agent.routines.access import OwnerAccess
from agent.routines.engine import RoutineEngine
from agent.routines.firing import Rules, fire_by_hand
from agent.store import routines
from agent.store.base import Store, T, Work
from agent.store.errors import StoreUnavailable
from agent.store.open import open_store
from agent.store.outbox import Parcel
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.unit.agent.routines.rows import make_routine

INTERVAL = timedelta(seconds=15)


class Unsteady:
    """A store whose reads fail as often as told."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.failures = 0

    async def write(self, work: Work[T]) -> T:
        return await self._inner.write(work)

    async def read(self, work: Work[T]) -> T:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("locked")
        return await self._inner.read(work)

    read_in_thread = read

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class Around:
    """What an engine needs: runs end with a finding, jobs are refused, notices are kept."""

    told: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, routine: Routine, run: Run, action: Lightweight) -> Ending:
        return Ending(RunStatus.ATTENTION, "Up.")

    async def start(self, request: JobRequest) -> JobId | str:
        return "there are too many already."

    async def ended(self, job: JobId) -> Job | None:
        return None

    def offer(self, parcel: Parcel) -> None:
        self.told.append(parcel.message.text)
        self.arrived.set()


@asynccontextmanager
async def running(home: Path, around: Around, clock: FakeClock) -> AsyncIterator[tuple[RoutineEngine, Unsteady]]:
    store = Unsteady(open_store(home))
    engine = RoutineEngine(
        Rules(10, INTERVAL),
        store=store,
        clock=clock,
        lightweight=around,
        jobs=around,
        deliveries=around,
        hooks=NoHooks(),
        owners=OwnerAccess({}),
    )
    async with asyncio.TaskGroup() as group:
        service = group.create_task(engine.run())
        await clock.wait_for_due(NOON + INTERVAL)
        yield engine, store
        service.cancel()
    await store.close()


async def fire(store: Store, trigger: Trigger, action: Lightweight | FullJob) -> Routine:
    routine = make_routine(trigger=trigger, action=action)
    await store.write(lambda tx: routines.add(tx, routine) and fire_by_hand(tx, routine, NOON))
    return routine


async def test_a_database_that_is_away_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    around, clock = Around(), FakeClock()
    async with running(tmp_path, around, clock) as (_, store):
        await fire(store, Manual(), Lightweight("look"))
        store.failures = 1
        clock.advance(INTERVAL)
        await clock.wait_for_due(NOON + 2 * INTERVAL)
        before = list(around.told)
        clock.advance(INTERVAL)
        async with asyncio.timeout(5):
            await around.arrived.wait()

    assert before == []
    assert around.told == ["🔔 **Routine 'morning'**: needs attention\n\nUp."]


async def test_a_job_that_is_refused_is_a_failure_that_says_why(tmp_path: Path) -> None:
    around, clock = Around(), FakeClock()
    async with running(tmp_path, around, clock) as (engine, store):
        routine = await fire(store, Manual(), FullJob("title", "do it"))
        engine.nudge()
        async with asyncio.timeout(5):
            await around.arrived.wait()
        found = await store.read(lambda tx: routines.history(tx, routine.id, 10))

    assert "too many already" in around.told[0]
    assert [run.status for run in found] == [RunStatus.FAILED]
