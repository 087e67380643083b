"""What is asked for, whose it is, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from agent.jobs.container.desk import ContainerDesk
from agent.jobs.container.host import RefusingHost
from agent.jobs.container.hosts import ContainerHosts
from agent.jobs.container.monitor import MOST_MESSAGES, JobMonitor
from agent.jobs.container.wish import folder_named, wish_of
from agent.model.ids import JobId
from agent.model.job import Job, JobRefusal, JobRequest, JobState
from agent.store import jobs
from agent.store.base import Store
from agent.store.open import open_store
from agent.workspace.errors import PathRefused
from tests.support.builders import NOON
from tests.support.containers import ORIGIN, Deliveries, ProcessHost, make_job
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import make_context

REQUEST = JobRequest(make_job().user, "Count", "Count all.", ORIGIN, JobId(make_job().id))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    found = open_store(tmp_path)
    yield found
    await found.close()


class Creator:
    """Keeps the wish as a job in progress."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.requests: list[JobRequest] = []

    async def create(self, request: JobRequest) -> Job | JobRefusal:
        self.requests.append(request)
        job = replace(make_job(), metadata=request.metadata, reports=request.reports, state=JobState.PENDING)
        await self._store.write(lambda tx: jobs.add(tx, job))
        return job


class Desk:
    """A desk with everything it needs."""

    def __init__(self, home: Path, store: Store, host: ProcessHost | RefusingHost | None = None) -> None:
        self.clock = FakeClock()
        self.creator = Creator(store)
        self.store = store

        async def choose(mark: str) -> ProcessHost | RefusingHost:
            return host or ProcessHost()

        self.hosts = ContainerHosts(home, choose, self.clock)
        self.desk = ContainerDesk(self.creator, self.hosts, store, self.clock, lambda is_operator: is_operator)

    async def start(
        self, *, folder: str | None = None, credentials: bool = False, waits: bool = False, operator: bool = True
    ) -> Job | JobRefusal:
        context = make_context(is_operator=operator)
        return await self.desk.start(REQUEST, context, folder=folder, has_credentials=credentials, waits=waits)

    async def end(self) -> None:
        def work(tx: object) -> None:
            job = jobs.get(tx, REQUEST.id)  # type: ignore[arg-type]  # the store's own
            assert job is not None
            running = jobs.move(tx, job, JobState.IN_PROGRESS, NOON, "")  # type: ignore[arg-type]
            jobs.move(tx, running, JobState.COMPLETED, NOON, "", result="42")  # type: ignore[arg-type]

        await self.store.write(work)

    async def kept(self) -> Job:
        job = await self.store.read(lambda tx: jobs.get(tx, JobId(REQUEST.id)))  # type: ignore[arg-type]
        assert job is not None
        return job


async def test_a_wish_keeps_its_folder(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    job = await desk.start(folder="projects/farm")
    assert isinstance(job, Job)
    wish = wish_of(await desk.kept())
    assert wish is not None
    assert wish.folder == PurePosixPath("projects/farm")
    assert job.reports


async def test_a_job_without_a_folder_gets_one_of_its_own(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    await desk.start()
    wish = wish_of(await desk.kept())
    assert wish is not None
    assert str(wish.folder) == "projects/00000007"


async def test_who_may_not_use_the_shell_is_refused(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    assert isinstance(await desk.start(operator=False), JobRefusal)
    assert desk.creator.requests == []


async def test_credentials_are_refused(tmp_path: Path, store: Store) -> None:
    found = await Desk(tmp_path, store).start(credentials=True)
    assert isinstance(found, JobRefusal)
    assert "no credentials enter a container" in found.text


async def test_a_machine_without_containers_says_why_and_takes_nothing(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store, RefusingHost("nothing is installed."))
    found = await desk.start()
    assert isinstance(found, JobRefusal)
    assert "nothing is installed" in found.text
    assert desk.creator.requests == []


@pytest.mark.parametrize("folder", ["daily", "projects", "../projects/x", "/etc/x", "skills/x", "~/x", "a\0b/c"])
async def test_folders_that_are_no_project_are_refused(tmp_path: Path, store: Store, folder: str) -> None:
    assert isinstance(await Desk(tmp_path, store).start(folder=folder), JobRefusal)


def test_the_projects_folder_is_found_in_any_spelling_and_no_other() -> None:
    assert folder_named("projects/a/b", "x") == PurePosixPath("projects/a/b")
    with pytest.raises(PathRefused):
        folder_named("project/a", "x")


async def test_who_waits_gets_the_job_at_its_end_and_the_chat_no_notice(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    waiting = asyncio.ensure_future(desk.start(waits=True))
    await desk.clock.wait_for_sleeper()
    await desk.end()
    desk.clock.advance(timedelta(seconds=2))
    job = await waiting
    assert isinstance(job, Job)
    assert (job.state, job.result, job.reports) == (JobState.COMPLETED, "42", False)


async def test_who_has_waited_long_enough_is_told_in_the_chat(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    waiting = asyncio.ensure_future(desk.start(waits=True))
    await desk.clock.wait_for_sleeper()
    assert not (await desk.kept()).reports
    desk.clock.advance(timedelta(seconds=601))
    job = await waiting
    assert isinstance(job, Job)
    assert not job.state.is_over
    assert (await desk.kept()).reports


async def test_who_is_interrupted_while_waiting_is_told_in_the_chat(tmp_path: Path, store: Store) -> None:
    desk = Desk(tmp_path, store)
    waiting = asyncio.ensure_future(desk.start(waits=True))
    await desk.clock.wait_for_sleeper()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await desk.kept()).reports


# -- what it says on the way -------------------------------------------------------------------------------------------
async def test_messages_are_forwarded_once_and_not_without_end(store: Store) -> None:
    deliveries = Deliveries()
    monitor = JobMonitor(store, FakeClock(), deliveries, make_job())
    for text in ("one", "one", *(f"number {number}" for number in range(50))):
        await monitor.say(text)
    assert len(deliveries.texts) == MOST_MESSAGES
    assert deliveries.texts[:2] == ["[Job 00000007] one", "[Job 00000007] number 0"]
    again = JobMonitor(store, FakeClock(), deliveries, make_job())
    await again.say("one")
    assert len(deliveries.texts) == MOST_MESSAGES


async def test_orphans_are_looked_for_only_where_containers_were_ever_used(tmp_path: Path) -> None:
    chosen: list[str] = []

    async def choose(mark: str) -> ProcessHost:
        chosen.append(mark)
        return ProcessHost()

    await ContainerHosts(tmp_path, choose, FakeClock()).reap()
    assert chosen == []
    await ContainerHosts(tmp_path, choose, FakeClock()).host()
    await ContainerHosts(tmp_path, choose, FakeClock()).reap()
    assert len(chosen) == 2


async def test_two_homes_have_two_marks(tmp_path: Path) -> None:
    async def choose(mark: str) -> ProcessHost:
        return ProcessHost()

    marks = {ContainerHosts(tmp_path / name, choose, FakeClock()).mark for name in ("a", "b")}
    assert len(marks) == 2
