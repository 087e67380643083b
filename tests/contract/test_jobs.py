"""What the rows of jobs promise: order, slots, states that the database itself guards, and what is found for whom."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

from agent.conversation.hooked import NoHooks
from agent.errors import InvalidTransition
from agent.jobs.errors import JobRefused
from agent.jobs.records import JobRecords, JobRules
from agent.jobs.scheduler import MOST_WAITING, JobScheduler
from agent.model import ids
from agent.model.ids import JobId, ThreadId, UserId
from agent.model.job import (
    MOST_TRANSITIONS,
    Job,
    JobLimits,
    JobListing,
    JobOrigin,
    JobRefusal,
    JobRequest,
    JobState,
    JobViewer,
)
from agent.store import conversations, inbox, jobs, tool_health
from agent.store.base import Transaction
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.outbox import Parcel
from agent.store.sqlite import SqliteStore
from channels.message import Address, ChatType
from tests.support.fake_clock import FakeClock

ALICE = UserId("telegram:1")
CHAT = Address(channel="telegram", chat_id="1")
ORIGIN = JobOrigin(CHAT, ChatType.PRIVATE, "1")


class Quiet:
    """Signals and deliveries that only remember."""

    def __init__(self) -> None:
        self.woken: list[ThreadId] = []
        self.sent: list[Parcel] = []

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        self.woken.append(thread)

    def stop(self, thread: ThreadId) -> None:
        return None

    def offer(self, parcel: Parcel) -> None:
        self.sent.append(parcel)


class Desk:
    """Records and scheduler on a store."""

    def __init__(self, store: SqliteStore, **rules: object) -> None:
        self.store, self.clock, self.quiet = store, FakeClock(), Quiet()
        self.rules = JobRules(**{"max_parallel": 1} | rules)  # type: ignore[arg-type]
        self.records = JobRecords(self.rules, self.quiet, self.quiet)
        self.scheduler = JobScheduler(self.records, store, self.clock, NoHooks())

    async def add(self, title: str = "count", user: UserId = ALICE, **more: object) -> Job:
        taken = await self.scheduler.create(JobRequest(user, title, "the sheep", ORIGIN, **more))  # type: ignore[arg-type]
        assert isinstance(taken, Job)
        return taken

    async def get(self, job: Job) -> Job:
        found = await self.scheduler.outcome(job.id)
        assert found is not None
        return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


async def test_job_is_read_as_it_was_written(store: SqliteStore) -> None:
    desk = Desk(store, max_parallel=0)
    tools = frozenset({"b", "a"})
    job = await desk.add(
        model="m", allowed_tools=tools, limits=JobLimits(7, 100), reports=False, metadata={"routine": "x"}
    )

    assert await desk.get(job) == job
    assert (job.model, job.allowed_tools, job.limits) == ("m", tools, JobLimits(7, 100))
    assert (job.state, job.origin, job.metadata) == (JobState.PENDING, ORIGIN, {"routine": "x"})


async def test_started_job_has_a_thread_no_place_leads_to_and_its_wish_in_the_inbox(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()

    def look(tx: Transaction) -> tuple[str, int, list[str]]:
        thread = conversations.get(tx, job.thread)
        assert thread is not None
        assert conversations.current(tx, thread.key) is None
        waiting = inbox.waiting(tx, job.thread, Lane.TURN)
        return thread.user, len(conversations.threads_of(tx, ALICE)), [each.message.text for each in waiting]

    assert await store.read(look) == (ALICE, 0, ["Job: count\n\nthe sheep"])
    assert job.state is JobState.IN_PROGRESS
    assert desk.quiet.woken == [job.thread]


async def test_same_wish_again_gives_the_job_that_is_there(store: SqliteStore) -> None:
    desk = Desk(store)
    wish = ids.job_id("command", "telegram:1:5")

    first, second = await desk.add(id=wish), await desk.add(id=wish)

    assert first.id == second.id == wish
    assert len(desk.quiet.woken) == 1


async def test_slots_are_never_given_twice_however_many_ask_at_once(store: SqliteStore) -> None:
    desk = Desk(store, max_parallel=3)
    other = JobScheduler(JobRecords(desk.rules, desk.quiet, desk.quiet), store, desk.clock, NoHooks())
    wishes = [JobRequest(ALICE, str(n), "d", ORIGIN) for n in range(20)]

    await asyncio.gather(*((desk.scheduler, other)[n % 2].dispatch(wish) for n, wish in enumerate(wishes)))

    counts = await desk.scheduler.count(JobViewer(ALICE))
    assert counts == {JobState.IN_PROGRESS: 3, JobState.PENDING: 17}


async def test_stuck_job_holds_its_slot_and_an_ended_one_gives_it_on(store: SqliteStore) -> None:
    desk = Desk(store)
    first, second = await desk.add(), await desk.add()
    await store.write(lambda tx: desk.records.halt(tx, first, "hangs", desk.clock.now()))
    assert (await desk.get(second)).state is JobState.PENDING

    await desk.scheduler.cancel(JobViewer(ALICE), str(first.id))

    assert (await desk.get(second)).state is JobState.IN_PROGRESS


async def test_forbidden_transition_changes_nothing(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()
    await desk.scheduler.cancel(JobViewer(ALICE), str(job.id))
    over = await desk.get(job)

    for stale in (over, job):  # by the table of states, and by the row for one that knows an older state
        with pytest.raises(InvalidTransition):
            await store.write(partial(jobs.move, job=stale, after=JobState.COMPLETED, now=desk.clock.now(), reason=""))

    assert await desk.get(job) == over


async def test_only_the_newest_transitions_are_kept(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()

    def many(tx: Transaction) -> Job:
        moved = job
        for number in range(120):
            moved = jobs.move(tx, moved, JobState.STUCK, desk.clock.now(), f"{number}")
            moved = jobs.move(tx, moved, JobState.IN_PROGRESS, desk.clock.now(), f"{number}")
        return moved

    moved = await store.write(many)

    assert len((await desk.get(job)).transitions) == MOST_TRANSITIONS
    assert moved.transitions[-1].reason == "119"


async def test_limits_are_the_smaller_of_what_is_asked_for_and_what_is_allowed(store: SqliteStore) -> None:
    desk = Desk(store, default_limits=JobLimits(50, 1000))

    assert (await desk.add(limits=JobLimits(9999, 0))).limits == JobLimits(500, 1000)
    assert (await desk.add(limits=JobLimits(10, 200))).limits == JobLimits(10, 200)
    assert (await desk.add()).limits == JobLimits(50, 1000)


async def test_recovery_is_state_attempt_and_work_in_one(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()
    stuck = await store.write(lambda tx: desk.records.halt(tx, job, "hangs", desk.clock.now()))
    desk.quiet.woken.clear()

    again = await desk.scheduler.help(JobViewer(ALICE), job.short_id)

    assert isinstance(again, Job)
    assert (stuck.state, again.state, again.attempts) == (JobState.STUCK, JobState.IN_PROGRESS, 1)
    assert desk.quiet.woken == [job.thread]


async def test_notices_exist_once(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()

    for _ in range(3):
        job = await store.write(partial(desk.records.halt, job=job, reason="hangs", now=desk.clock.now()))
        job = await store.write(partial(desk.records.recover, job=job, now=desk.clock.now()))
    await store.write(lambda tx: desk.records.end(tx, job, JobState.FAILED, "no", desk.clock.now()))

    assert len([parcel for parcel in desk.quiet.sent if "is stuck" in parcel.message.text]) == 1
    assert len([parcel for parcel in desk.quiet.sent if "failed" in parcel.message.text]) == 1


async def test_hanging_jobs_are_those_without_a_sign_of_life_in_time(store: SqliteStore) -> None:
    desk = Desk(store, max_parallel=2)
    silent, waiting = await desk.add("silent"), await desk.add("waits for a person")
    await store.write(lambda tx: jobs.note(tx, waiting.id, alive_until=None))
    later = desk.clock.now() + desk.rules.threshold + timedelta(seconds=1)

    assert [job.id for job in await store.read(lambda tx: jobs.hanging(tx, later))] == [silent.id]
    await store.write(lambda tx: jobs.extend(tx, later + timedelta(hours=1)))
    assert not await store.read(lambda tx: jobs.hanging(tx, later))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (JobRequest(ALICE, "  ", "d", ORIGIN), "needs a title"),
        (JobRequest(ALICE, "t", "\n", ORIGIN), "needs a description"),
        (JobRequest(ALICE, "t", "d" * 50_001, ORIGIN), "too long"),
    ],
)
async def test_wish_that_makes_no_sense_is_refused_in_words(store: SqliteStore, wish: JobRequest, words: str) -> None:
    desk = Desk(store)

    refused = await desk.scheduler.create(wish)

    assert isinstance(refused, JobRefusal)
    assert words in refused.text
    with pytest.raises(JobRefused, match=words):
        await desk.scheduler.dispatch(wish)


async def test_queue_of_a_person_has_an_end_and_taking_a_job_into_a_long_one_is_quick(store: SqliteStore) -> None:
    desk = Desk(store, max_parallel=0)
    wish = JobRequest(ALICE, "t", "d", ORIGIN)
    await asyncio.gather(*(desk.scheduler.create(wish) for _ in range(MOST_WAITING)))

    began = perf_counter()
    refused = await desk.scheduler.create(wish)
    other = await desk.scheduler.create(replace(wish, user=UserId("telegram:2")))

    assert isinstance(refused, JobRefusal)
    assert "1000 of your jobs are waiting" in refused.text
    assert isinstance(other, Job)
    assert perf_counter() - began < 1
    listing = await desk.scheduler.list(JobViewer(ALICE), "pending")
    assert isinstance(listing, JobListing)
    assert (len(listing.jobs), listing.total) == (20, MOST_WAITING)


async def test_job_is_found_by_its_first_digits_for_its_person_alone(store: SqliteStore) -> None:
    desk = Desk(store)
    job = await desk.add()

    for reference in (str(job.id), str(job.id).upper(), job.short_id, str(job.id)[:4], f" {str(job.id)[:13]} "):
        assert await desk.scheduler.find(JobViewer(ALICE), reference) == job
    for reference in ("abc", "", "'; --", "%", "zzzz", str(job.id) + "0"):
        assert isinstance(await desk.scheduler.find(JobViewer(ALICE), reference), JobRefusal)
    assert isinstance(await desk.scheduler.find(JobViewer(UserId("telegram:2")), str(job.id)), JobRefusal)


async def test_listener_hears_of_each_change_after_the_commit(store: SqliteStore) -> None:
    desk = Desk(store)
    heard: list[tuple[JobId, JobState]] = []
    desk.scheduler.on_change(lambda job: heard.append((job.id, job.state)))
    job = await desk.add()

    await desk.scheduler.cancel(JobViewer(ALICE), str(job.id))

    assert heard == [(job.id, state) for state in (JobState.PENDING, JobState.IN_PROGRESS, JobState.CANCELLED)]


async def test_tool_is_broken_after_failures_in_a_row_and_switched_off_once(store: SqliteStore) -> None:
    now = FakeClock().now()
    for _ in range(4):
        await store.write(lambda tx: tool_health.note_failure(tx, "flaky", now))
        await store.write(lambda tx: tool_health.note_failure(tx, "broken", now))
    await store.write(lambda tx: tool_health.note_success(tx, "flaky"))
    for tool in ("flaky", "broken"):
        await store.write(partial(tool_health.note_failure, tool=tool, now=now))

    assert await store.read(lambda tx: tool_health.broken(tx, 5)) == ["broken"]
    assert await store.write(lambda tx: tool_health.switch_off(tx, "broken", now))
    assert not await store.write(lambda tx: tool_health.switch_off(tx, "broken", now))
    assert await store.read(lambda tx: tool_health.switched_off(tx)) == ["broken"]
    assert await store.read(lambda tx: tool_health.broken(tx, 5)) == []
