"""Lets background jobs do the runs of routines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, assert_never

from agent.model.ids import JobId
from agent.model.job import Job, JobRefusal, JobRequest


class Jobs(Protocol):
    """What takes jobs, shows them, and tells of their changes."""

    async def create(self, request: JobRequest) -> Job | JobRefusal: ...

    async def outcome(self, job: JobId) -> Job | None: ...

    def on_change(self, listener: Callable[[Job], None]) -> None:
        """Let `listener` be told of each change, after its commit."""
        ...


class JobRuns:
    """`agent.routines.engine.JobDispatch` on what takes jobs."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._awaited: dict[JobId, asyncio.Event] = {}
        jobs.on_change(self._note)

    async def start(self, request: JobRequest) -> JobId | str:
        match await self._jobs.create(request):
            case Job(id=job):
                return job
            case JobRefusal(text=text):
                return text
            case unreachable:
                assert_never(unreachable)

    async def ended(self, job: JobId) -> Job | None:
        changed = self._awaited.setdefault(job, asyncio.Event())
        try:
            while (found := await self._jobs.outcome(job)) is not None and not found.state.is_over:
                await changed.wait()
                changed.clear()
            return found
        finally:
            self._awaited.pop(job, None)

    def _note(self, job: Job) -> None:
        if changed := self._awaited.get(job.id):
            changed.set()
