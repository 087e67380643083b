"""A running job's row: signs of life, what it has used up, and the message that shows how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from agent.clock import Clock
from agent.conversation.envelope import Envelope
from agent.jobs.records import JobRecords
from agent.model.job import Job, JobState
from agent.store import jobs, spend, turns
from agent.store.base import Store, Transaction
from agent.tools.registry import ToolRegistry


class StoreVitals:
    """`agent.jobs.delegate.Vitals` on the store, fenced: a run that was overtaken changes nothing."""

    def __init__(
        self,
        records: JobRecords,
        store: Store,
        clock: Clock,
        registry: ToolRegistry,
        job: Job,
        envelope: Envelope,
    ) -> None:
        self._records = records
        self._store = store
        self._clock = clock
        self._registry = registry
        self._job = job
        self._thread = envelope.thread
        self._steps = job.steps

    async def pulse(self, tools: Sequence[str] = ()) -> Job:
        if not tools:
            self._steps += 1
        longest = max((self._time_of(name) for name in tools), default=timedelta(0))
        return await self._store.write(partial(self._pulse, longest))

    def is_over_time(self, job: Job) -> bool:
        return job.deadline is not None and self._clock.now() >= job.deadline

    async def halt(self, reason: str) -> None:
        await self._store.write(partial(self._halt, reason))

    async def renewed(self, envelope: Envelope) -> Envelope:
        """The envelope with what the journal holds by now."""
        written = await self._store.read(lambda tx: turns.journal(tx, envelope.turn.id))
        return replace(envelope, journal=written)

    def _pulse(self, longest: timedelta, tx: Transaction) -> Job:
        turns.fenced_place(tx, self._thread.id, self._thread.epoch)
        job = self._current(tx)
        if job.state is not JobState.IN_PROGRESS:
            return job
        now, rules = self._clock.now(), self._records.rules
        alive = {
            "steps": self._steps,
            "tokens": spend.tokens_of(tx, [str(turn) for turn in jobs.turns_of(tx, job.thread)]),
            "alive_until": now + rules.threshold + longest,
            "deadline": job.deadline or now + rules.timeout,
        }
        jobs.note(tx, job.id, **alive)
        job = self._current(tx)
        self._records.show_progress(tx, job, now)
        return job

    def _halt(self, reason: str, tx: Transaction) -> None:
        turns.fenced_place(tx, self._thread.id, self._thread.epoch)
        job = self._current(tx)
        if job.state is JobState.IN_PROGRESS:
            self._records.halt(tx, job, reason, self._clock.now())

    def _current(self, tx: Transaction) -> Job:
        job = jobs.get(tx, self._job.id)
        assert job is not None  # jobs are never deleted
        return job

    def _time_of(self, name: str) -> timedelta:
        tool = self._registry.get(name)
        return timedelta(0) if tool is None else tool.spec.timeout
