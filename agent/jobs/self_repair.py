"""Looks after what came to a halt by itself: jobs that hang or are stuck, and tools that break again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog

from agent.clock import Clock
from agent.conversation.ports import TurnSignals
from agent.errors import InvalidTransition
from agent.jobs import wording
from agent.jobs.records import JobRecords
from agent.model.job import Job, JobState
from agent.store import jobs, tool_health
from agent.store.base import Store, Transaction
from agent.store.inbox import Lane
from agent.tools.registry import ToolRegistry

log = structlog.get_logger(__name__)

CHECK_EVERY = timedelta(seconds=60)
BROKEN_AFTER = 5
"""Failures in a row of a tool that did not come with the bot (the number is that of IronClaw's repair)."""


@dataclass(frozen=True, slots=True)
class Success:
    """The job goes on."""

    job: Job


@dataclass(frozen=True, slots=True)
class Retry:
    """It did not work now; the next check tries again and nobody is told."""

    job: Job


@dataclass(frozen=True, slots=True)
class ManualRequired:
    """It was tried often enough: the job has failed, and its person is told once."""

    job: Job


RepairResult = Success | Retry | ManualRequired


class SelfRepair:
    """A service. Each check is a few short transactions, and two processes that check at once do no harm."""

    def __init__(
        self,
        records: JobRecords,
        store: Store,
        clock: Clock,
        signals: TurnSignals,
        registry: ToolRegistry,
        tell_operator: Callable[[str], Awaitable[bool]],
        rebuild: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._records = records
        self._store = store
        self._clock = clock
        self._signals = signals
        self._registry = registry
        self._tell_operator = tell_operator
        self._rebuild = rebuild  # what to tell of a tool that was built here; None: it was not

    async def run(self) -> None:
        """Until cancelled. What earlier processes left has all its time again: nobody could work on it meanwhile."""
        await self._store.write(self._begin)
        while True:
            await self.check()
            await self._clock.sleep(CHECK_EVERY)

    def _begin(self, tx: Transaction) -> None:
        jobs.extend(tx, self._clock.now() + self._records.rules.threshold)
        self._records.watch_open(tx)
        tool_health.forget(tx)

    async def check(self) -> tuple[RepairResult, ...]:
        """One look at everything."""
        await self._store.write(self._halt_hanging)
        results = [await self.repair(job) for job in await self._store.read(jobs.stuck)]
        for thread in await self._store.read(jobs.over_but_running):
            self._signals.stop(thread)
            self._signals.wake(thread, Lane.TURN)
        await self._store.write(self._records.ended_elsewhere)
        await self._store.write(lambda tx: self._records.start_waiting(tx, self._clock.now()))
        await self._take_broken_tools_away()
        return tuple(results)

    async def repair(self, job: Job) -> RepairResult:
        """Try one stuck job again, or give it up."""
        try:
            result = await self._store.write(partial(self._repair, job, self._clock.now()))
        except InvalidTransition:  # somebody else was quicker
            result = Retry(job)
        match result:
            case Success():
                log.info("job_recovered", job_id=str(job.id), attempt=result.job.attempts)
            case ManualRequired():
                log.warning("job_given_up", job_id=str(job.id), attempts=job.attempts)
            case Retry():
                pass
            case unreachable:
                assert_never(unreachable)
        return result

    def _repair(self, job: Job, now: datetime, tx: Transaction) -> RepairResult:
        if job.attempts < self._records.rules.max_attempts:
            return Success(self._records.recover(tx, job, now))
        return ManualRequired(self._records.end(tx, job, JobState.FAILED, wording.gave_up(job), now))

    def _halt_hanging(self, tx: Transaction) -> None:
        now = self._clock.now()
        for job in jobs.hanging(tx, now):
            log.warning("job_hangs", job_id=str(job.id))
            self._records.halt(tx, job, wording.HANGS, now)

    async def _take_broken_tools_away(self) -> None:
        """Tools that keep breaking are not offered until the next start. Built-in ones stay, whatever they do."""
        for name in await self._store.read(tool_health.switched_off):
            self._registry.unregister(name)  # a server that connected anew has brought it again
        for name in await self._store.read(lambda tx: tool_health.broken(tx, BROKEN_AFTER)):
            if not self._registry.unregister(name):
                continue
            if await self._store.write(partial(tool_health.switch_off, tool=name, now=self._clock.now())):
                log.error("tool_switched_off", tool=name)
                rebuilt = await self._rebuild(name)
                await self._tell_operator(rebuilt or wording.TOOL_SWITCHED_OFF.format(tool=name, count=BROKEN_AFTER))
