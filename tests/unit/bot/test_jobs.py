"""What the program adds to jobs: events for the page, and the count of tools that break."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.conversation.hooked import NoHooks
from agent.jobs.records import JobRecords, JobRules
from agent.jobs.scheduler import JobScheduler
from agent.model.ids import OPERATOR, ThreadId, UserId
from agent.model.job import Job, JobRequest, JobViewer
from agent.store import tool_health
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.outbox import Parcel
from agent.store.sqlite import SqliteStore
from bot.jobs import StoreToolHealth, tell_page
from channels.web import OPERATOR_ID, EventHub, WebChannel
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore


class Nobody:
    """Wakes nothing and delivers nothing."""

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        return None

    def stop(self, thread: ThreadId) -> None:
        return None

    def offer(self, parcel: Parcel) -> None:
        return None


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


async def test_page_is_told_of_the_operators_jobs_and_of_nobody_elses(store: SqliteStore) -> None:
    hub, nobody = EventHub(), Nobody()
    scheduler = JobScheduler(JobRecords(JobRules(5), nobody, nobody), store, FakeClock(), NoHooks())
    tell_page({"web": WebChannel(hub)}, scheduler)
    with hub.subscribe(OPERATOR_ID) as page:
        await scheduler.create(JobRequest(UserId("telegram:2"), "hidden", "d", None))
        job = await scheduler.create(JobRequest(OPERATOR, "Sheep", "d", None))
        assert isinstance(job, Job)
        await scheduler.cancel(JobViewer(OPERATOR), str(job.id))
        events = [await page.next() for _ in range(3)]

    told = [(event.name.value, json.loads(event.data)["status"]) for event in events if event]
    assert told == [("job_started", "pending"), ("job_status", "in_progress"), ("job_result", "cancelled")]


async def test_failures_of_a_tool_are_counted_until_it_works(store: SqliteStore) -> None:
    health = StoreToolHealth(store, FakeClock())
    for _ in range(5):
        await health.broke("flaky")
        await health.broke("broken")
    await health.worked("flaky")
    await health.worked("never broke")

    assert await store.read(lambda tx: tool_health.broken(tx, 5)) == ["broken"]


async def test_database_that_is_away_harms_no_tool() -> None:
    away = MemoryStore()
    away.refuse_writes = True

    await StoreToolHealth(away, FakeClock()).broke("flaky")
