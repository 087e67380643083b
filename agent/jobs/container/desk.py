"""Takes wishes for jobs in containers, and waits for their end where somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from agent.clock import Clock
from agent.jobs.container import wording
from agent.jobs.container.host import RefusingHost
from agent.jobs.container.hosts import ContainerHosts
from agent.jobs.container.wish import ContainerWish, facts_of, folder_named
from agent.model.ids import JobId
from agent.model.job import Job, JobRefusal, JobRequest
from agent.store import jobs
from agent.store.base import Store, Transaction
from agent.tools.base import ToolContext
from agent.workspace.errors import PathRefused

POLL_EVERY = timedelta(seconds=2)
LONGEST_WAIT = timedelta(seconds=600)
"""Both are IronClaw's; the tool's own limit has to be longer."""


class Creator(Protocol):
    """Takes jobs."""

    async def create(self, request: JobRequest) -> Job | JobRefusal: ...


@dataclass(frozen=True, slots=True)
class ContainerDesk:
    """What `create_job` needs for `mode="container"`."""

    creator: Creator
    hosts: ContainerHosts
    store: Store
    clock: Clock
    may_use: Callable[[bool], bool]

    async def start(
        self, request: JobRequest, context: ToolContext, *, folder: str | None, has_credentials: bool, waits: bool
    ) -> Job | JobRefusal:
        """Take a job for a container, or say why not. With `waits` it is over, unless its time was longer than ours."""
        if not self.may_use(context.is_operator):
            return JobRefusal(wording.NOT_YOURS)
        if has_credentials:
            return JobRefusal(wording.NO_CREDENTIALS)
        try:
            named = folder_named(folder or None, str(request.id)[:8] if request.id else "job")
        except PathRefused as error:
            return JobRefusal(f"{error} Nothing was started.")
        host = await self.hosts.host()
        if isinstance(host, RefusingHost):
            return JobRefusal(wording.UNAVAILABLE.format(reason=host.reason))
        metadata = {**request.metadata, **facts_of(ContainerWish(named))}
        job = await self.creator.create(replace(request, metadata=metadata, reports=request.reports and not waits))
        return await self._waited(job, tells=request.reports) if waits and isinstance(job, Job) else job

    async def _waited(self, job: Job, *, tells: bool) -> Job:
        """The job at its end. Who stops waiting, for whatever reason, is told of the end in the chat instead."""
        until = self.clock.now() + LONGEST_WAIT
        try:
            while not job.state.is_over and self.clock.now() < until:
                await self.clock.sleep(POLL_EVERY)
                job = await self.store.read(partial(_look, job.id))
        finally:
            if not job.state.is_over and tells:
                job = await asyncio.shield(self.store.write(partial(_let_it_tell, job.id)))
        return job


def _look(job: JobId, tx: Transaction) -> Job:
    found = jobs.get(tx, job)
    assert found is not None  # jobs are never deleted
    return found


def _let_it_tell(job: JobId, tx: Transaction) -> Job:
    if not _look(job, tx).state.is_over:
        jobs.note(tx, job, reports=True)
    return _look(job, tx)
