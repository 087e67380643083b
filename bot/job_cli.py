"""`optimclaw job …`: short transactions on the same database, beside a running bot or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import click

from agent.clock import SystemClock
from agent.conversation.hooked import NoHooks
from agent.jobs import wording
from agent.jobs.records import JobRecords, JobRules
from agent.jobs.scheduler import JobScheduler
from agent.model.ids import ThreadId
from agent.model.job import JobRefusal, JobViewer
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.outbox import Parcel
from config.settings import Settings

EVERYBODY = JobViewer(None)


def list_jobs(settings: Settings, narrowed_to: str) -> int:
    """Print the newest jobs: 0, or 1 where there is no such filter."""

    async def act(scheduler: JobScheduler) -> int:
        found = await scheduler.list(EVERYBODY, narrowed_to)
        if isinstance(found, JobRefusal):
            return _refused(found)
        if not found.total:
            click.echo("There are no jobs." if narrowed_to == "all" else "There are no jobs like that.")
        for job in found.jobs:
            click.echo(f"{job.id}  {wording.words(job.state):11}  {job.user}  {job.title}")
        if found.total > len(found.jobs):
            click.echo(f"and {found.total - len(found.jobs)} more")
        return 0

    return _on_scheduler(settings, act)


def show_job(settings: Settings, reference: str) -> int:
    """Print one job: 0, or 1 where there is none or more than one."""

    async def act(scheduler: JobScheduler) -> int:
        found = await scheduler.find(EVERYBODY, reference)
        if isinstance(found, JobRefusal):
            return _refused(found)
        click.echo(wording.details(found, datetime.now(UTC)).replace("**", "").replace("`", ""))
        return 0

    return _on_scheduler(settings, act)


def cancel_job(settings: Settings, reference: str) -> int:
    """Cancel one job: 0, or 1 where that cannot be done."""

    async def act(scheduler: JobScheduler) -> int:
        found = await scheduler.cancel(EVERYBODY, reference)
        if isinstance(found, JobRefusal):
            return _refused(found)
        click.echo(f"Job {found.id} is cancelled.")
        return 0

    return _on_scheduler(settings, act)


def _refused(refusal: JobRefusal) -> int:
    text = refusal.text.replace("of yours ", "").replace("one of your jobs", "one job")
    click.echo(text.replace("`/jobs` lists", "`optimclaw job list` lists").replace("`", ""), err=True)
    return 1


class _Elsewhere:
    """Stands in for the running bot, which finds in the rows what has changed."""

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        return None

    def stop(self, thread: ThreadId) -> None:
        return None

    def offer(self, parcel: Parcel) -> None:
        return None


def _on_scheduler(settings: Settings, act: Callable[[JobScheduler], Awaitable[int]]) -> int:
    async def once() -> int:
        store = open_store(settings.home)
        try:
            nobody = _Elsewhere()
            records = JobRecords(JobRules(max_parallel=0), nobody, nobody)  # this process runs none
            return await act(JobScheduler(records, store, SystemClock(), NoHooks()))
        finally:
            await store.close()

    return asyncio.run(once())
