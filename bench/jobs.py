"""What taking a job costs where many wait already, durably and one after the other, and what ending one costs."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from agent.clock import SystemClock
from agent.conversation.hooked import NoHooks
from agent.jobs.records import JobRecords, JobRules
from agent.jobs.scheduler import JobScheduler
from agent.model.ids import OPERATOR, ThreadId
from agent.model.job import Job, JobOrigin, JobRequest, JobViewer
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.outbox import Parcel
from channels.message import Address, ChatType

QUEUED = 500
GOALS = {
    f"take one of {QUEUED} jobs, p50, ms": "<= 5",
    f"end a job and start the next of {QUEUED}, p50, ms": "<= 5",
}
_ORIGIN = JobOrigin(Address(channel="telegram", chat_id="1"), ChatType.PRIVATE, "1")


class _Nobody:
    """Wakes nothing, delivers nothing."""

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        return None

    def stop(self, thread: ThreadId) -> None:
        return None

    def offer(self, parcel: Parcel) -> None:
        return None


async def measure() -> dict[str, float]:
    """Both figures, on a database of their own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        store = open_store(Path(home))
        nobody = _Nobody()
        scheduler = JobScheduler(JobRecords(JobRules(5), nobody, nobody), store, SystemClock(), NoHooks())
        taken, ended, found = [], [], list[Job]()
        try:
            for number in range(QUEUED):
                began = time.perf_counter()
                job = await scheduler.create(JobRequest(OPERATOR, f"job {number}", "look at it", _ORIGIN))
                taken.append(time.perf_counter() - began)
                assert isinstance(job, Job)
                found.append(job)
            for job in found[:100]:
                began = time.perf_counter()
                await scheduler.cancel(JobViewer(OPERATOR), str(job.id))
                ended.append(time.perf_counter() - began)
        finally:
            await store.close()
    take, end = GOALS
    return {take: statistics.median(taken) * 1000, end: statistics.median(ended) * 1000}
