"""Takes wishes for jobs, and tells, stops, steers and starts again those that are there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial

from agent.clock import Clock
from agent.conversation.ports import Hooks
from agent.errors import InvalidTransition
from agent.hooks.base import InboundEvent, Stopped
from agent.jobs import wording
from agent.jobs.errors import JobRefused
from agent.jobs.events import events_of
from agent.jobs.records import JobRecords
from agent.model.ids import JobId
from agent.model.job import Job, JobEvent, JobListing, JobRefusal, JobRequest, JobState, JobViewer
from agent.store import jobs
from agent.store.base import Store, Transaction

MOST_WAITING = 1000
"""Jobs of one person that may wait for a slot."""
LONGEST_DESCRIPTION = 50_000
LISTED = 20
_DIGITS = re.compile(r"[0-9a-f]{4,32}")
FILTERS: dict[str, tuple[JobState, ...]] = {
    "all": (),
    "active": (JobState.PENDING, JobState.IN_PROGRESS, JobState.STUCK),
    **{state.value: (state,) for state in JobState if state not in (JobState.SUBMITTED, JobState.ACCEPTED)},
}
"""What a list can be narrowed to, by its word."""


class JobScheduler:
    """Every job is found for its own person only; to anybody else it does not exist."""

    def __init__(self, records: JobRecords, store: Store, clock: Clock, hooks: Hooks) -> None:
        self._records = records
        self._store = store
        self._clock = clock
        self._hooks = hooks
        self.counts: Counter[str] = Counter()
        records.listen(self._count)

    def _count(self, job: Job) -> None:
        self.counts[job.state.value] += 1

    # -- taking ----------------------------------------------------------------------------------------------------
    async def dispatch(self, request: JobRequest) -> JobId:
        """Take a job. It is durable when this returns. Raises JobRefused, with a text for whoever asked."""
        match await self.create(request):
            case Job(id=identifier):
                return identifier
            case JobRefusal(text=text):
                raise JobRefused(text)

    async def create(self, request: JobRequest) -> Job | JobRefusal:
        """Take a job, or say why not."""
        if (fault := fault_of(request)) is not None:
            return JobRefusal(fault)
        return await self._store.write(partial(self._take, request))

    def dispatch_in(self, tx: Transaction, request: JobRequest) -> JobId:
        """Take a job within the caller's transaction. Raises JobRefused."""
        if (fault := fault_of(request)) is not None:
            raise JobRefused(fault)
        match self._take(request, tx):
            case Job(id=identifier):
                return identifier
            case JobRefusal(text=text):
                raise JobRefused(text)

    def _take(self, request: JobRequest, tx: Transaction) -> Job | JobRefusal:
        waiting = jobs.waiting(tx, request.user)
        if waiting >= MOST_WAITING and (request.id is None or jobs.get(tx, request.id) is None):
            return JobRefusal(wording.TOO_MANY.format(count=waiting))
        return self._records.take(tx, request, self._clock.now())

    # -- looking ---------------------------------------------------------------------------------------------------
    async def outcome(self, job: JobId) -> Job | None:
        """A job as it stands, whoever asks: for those who started it on somebody's behalf."""
        return await self._store.read(lambda tx: jobs.get(tx, job))

    def on_change(self, listener: Callable[[Job], None]) -> None:
        """Let `listener` be told of each job that changed its state, after the commit. It must not raise or block."""
        self._records.listen(listener)

    async def find(self, viewer: JobViewer, reference: str) -> Job | JobRefusal:
        """A job that somebody sees by its id or at least four of its first digits."""
        return await self._store.read(partial(find, viewer, reference))

    async def list(self, viewer: JobViewer, narrowed_to: str) -> JobListing | JobRefusal:
        """The newest jobs that somebody sees, narrowed by a word of `FILTERS`."""
        states = FILTERS.get(narrowed_to.strip().lower().replace(" ", "_").replace("-", "_"))
        if states is None:
            return JobRefusal(wording.BAD_FILTER.format(filters=", ".join(FILTERS)))
        return await self._store.read(lambda tx: jobs.listing(tx, viewer, states, LISTED))

    async def count(self, viewer: JobViewer) -> dict[JobState, int]:
        """How many jobs that somebody sees are in each state."""
        return await self._store.read(lambda tx: jobs.counts(tx, viewer))

    async def events(self, job: Job, limit: int) -> tuple[JobEvent, ...]:
        """What a job has done, oldest first, at most the last `limit`."""
        return await self._store.read(lambda tx: events_of(tx, job, limit))

    # -- acting ----------------------------------------------------------------------------------------------------
    async def cancel(self, viewer: JobViewer, reference: str) -> Job | JobRefusal:
        """End a job: what runs of it is cut off, what it has done stays done."""
        return await self._act(viewer, reference, self._cancel)

    def _cancel(self, tx: Transaction, job: Job, now: datetime) -> Job | JobRefusal:
        if job.state.is_over:
            return JobRefusal(wording.IS_OVER.format(id=job.short_id, state=wording.words(job.state)))
        return self._records.cancel(tx, job, "cancelled by its person", now)

    async def send(self, viewer: JobViewer, reference: str, text: str, key: str) -> Job | JobRefusal:
        """Tell a job something. `key` makes the same words harmless when they are sent twice."""
        if not text.strip():
            return JobRefusal(wording.NOTHING_TO_TELL)
        job = await self.find(viewer, reference)
        if isinstance(job, JobRefusal):
            return job
        channel = job.origin.address.channel if job.origin else ""
        passed = await self._hooks.inbound(InboundEvent(job.user, channel, text, str(job.thread)))
        if isinstance(passed, Stopped):
            return JobRefusal(f"The message was refused by a hook: {passed.reason}")
        return await self._act(viewer, str(job.id), partial(self._tell, passed.content, key))

    def _tell(self, text: str, key: str, tx: Transaction, job: Job, now: datetime) -> Job | JobRefusal:
        if job.state.is_over:
            return JobRefusal(wording.IS_OVER.format(id=job.short_id, state=wording.words(job.state)))
        self._records.tell(tx, job, text, key, now)
        return job

    async def help(self, viewer: JobViewer, reference: str) -> Job | JobRefusal:
        """Let a stuck job go on at once: recovery and a new run are one change."""
        return await self._act(viewer, reference, self._help)

    def _help(self, tx: Transaction, job: Job, now: datetime) -> Job | JobRefusal:
        if job.state is not JobState.STUCK:
            return JobRefusal(wording.NOT_STUCK.format(id=job.short_id, state=wording.words(job.state)))
        return self._records.recover(tx, job, now)

    async def _act(
        self,
        viewer: JobViewer,
        reference: str,
        act: Callable[[Transaction, Job, datetime], Job | JobRefusal],
    ) -> Job | JobRefusal:
        now = self._clock.now()

        def work(tx: Transaction) -> Job | JobRefusal:
            job = find(viewer, reference, tx)
            return job if isinstance(job, JobRefusal) else act(tx, job, now)

        try:
            return await self._store.write(work)
        except InvalidTransition:
            job = await self.find(viewer, reference)
            state = wording.words(job.state) if isinstance(job, Job) else "gone"
            return JobRefusal(wording.IS_OVER.format(id=reference[:40], state=state))


def fault_of(request: JobRequest) -> str | None:
    """Why a wish cannot be taken, or None."""
    if not request.title.strip():
        return wording.NO_TITLE
    if not request.description.strip():
        return wording.NO_DESCRIPTION
    if len(request.description) > LONGEST_DESCRIPTION:
        return wording.TOO_LONG.format(count=len(request.description), most=LONGEST_DESCRIPTION)
    return None


def find(viewer: JobViewer, reference: str, tx: Transaction) -> Job | JobRefusal:
    """A job that somebody sees, by its id or the first digits of it."""
    shown = " ".join(reference.split())[:40]
    digits = reference.strip().lower().replace("-", "")
    if not _DIGITS.fullmatch(digits):
        return JobRefusal(wording.NO_ID.format(reference=f"“{shown}”"))
    match jobs.named(tx, viewer, digits):
        case []:
            return JobRefusal(wording.NOT_FOUND.format(reference=f"“{shown}”"))
        case [job]:
            return job
        case _:
            return JobRefusal(wording.AMBIGUOUS.format(reference=f"“{shown}”"))
