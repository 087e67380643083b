"""What happens to jobs in a transaction: taken, started, told something, halted, ended. Whoever runs them, these rows
decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from agent.conversation.ports import Deliveries, TurnSignals
from agent.jobs import progress, wording
from agent.model import ids
from agent.model.approval import ApprovalState, PendingApproval
from agent.model.ids import JobId
from agent.model.job import JOB_PLACE, Job, JobLimits, JobOrigin, JobRequest, JobState
from agent.store import approvals, conversations, inbox, jobs, outbox, turns
from agent.store.base import Transaction
from agent.store.inbox import Lane
from channels.message import (
    Address,
    ChatType,
    ConversationKey,
    IncomingMessage,
    MessageMetadata,
    OutgoingMessage,
    ReplyKind,
    Sender,
)

LONGEST_TITLE = 100
MOST_ITERATIONS = 500
"""Model calls that anybody may allow a job (the number is that of IronClaw's worker)."""
GO_ON = "[system note] This job came to a halt and is started again. Go on where it stopped; repeat nothing."


@dataclass(frozen=True, slots=True)
class JobRules:
    """What the operator chose for jobs. `threshold`: how long one may show no sign of life."""

    max_parallel: int
    default_limits: JobLimits = field(default_factory=JobLimits)
    timeout: timedelta = timedelta(seconds=3600)
    threshold: timedelta = timedelta(seconds=300)
    max_attempts: int = 3
    progress_channels: frozenset[str] = frozenset()


Changed = Callable[[Job], None]
CloseQuestion = Callable[[Transaction, PendingApproval, ApprovalState, str, datetime], None]


class JobRecords:
    """Changes jobs inside other people's transactions, and gives free slots away."""

    def __init__(self, rules: JobRules, signals: TurnSignals, deliveries: Deliveries) -> None:
        self.rules = rules
        self._signals = signals
        self._deliveries = deliveries
        self._listeners: list[Changed] = []
        self._open: set[JobId] = set()  # jobs that were not over when they were heard of last
        self._close_question: CloseQuestion | None = None

    def listen(self, listener: Changed) -> None:
        """Let `listener` be told of each job that has changed its state, after the commit. It must not raise."""
        self._listeners.append(listener)

    def close_questions_with(self, close: CloseQuestion) -> None:
        """How a question is closed so that its prompts show it: the door's way, which is built later."""
        self._close_question = close

    # -- beginning -------------------------------------------------------------------------------------------------
    def take(self, tx: Transaction, request: JobRequest, now: datetime) -> Job:
        """Keep a new job, and start it if a slot is free. The same wish again gives the job that is there."""
        identifier = request.id or JobId(uuid4())
        if (known := jobs.get(tx, identifier)) is not None:
            return known
        job = Job(
            id=identifier,
            user=request.user,
            thread=ids.thread_id(_key(request.user, identifier), 0),
            title=_title(request.title),
            description=request.description,
            state=JobState.PENDING,
            origin=request.origin,
            model=request.model,
            limits=_limits(request.limits, self.rules.default_limits),
            allowed_tools=request.allowed_tools,
            reports=request.reports,
            metadata=request.metadata,
            created_at=now,
        )
        jobs.add(tx, job)
        self._changed(tx, job)
        self.start_waiting(tx, now)
        return jobs.get(tx, identifier) or job

    def start_waiting(self, tx: Transaction, now: datetime) -> None:
        """Give free slots to the jobs that wait longest."""
        jobs.lock_slots(tx)
        free = self.rules.max_parallel - jobs.slots_held(tx)
        for job in jobs.next_pending(tx, free) if free > 0 else ():
            self._start(tx, job, now)

    def _start(self, tx: Transaction, job: Job, now: datetime) -> None:
        address = _address(job)
        chat_type = job.origin.chat_type if job.origin else ChatType.PRIVATE
        conversations.add_thread(tx, _key(job.user, job.id), address, chat_type, now, model=job.model)
        started = jobs.move(tx, job, JobState.IN_PROGRESS, now, "a slot was free", **self._fresh_times(now))
        self._say_to(tx, started, _wish(job), f"start-{job.attempts}", now)
        self._changed(tx, started)

    def _fresh_times(self, now: datetime) -> dict[str, datetime]:
        return {"deadline": now + self.rules.timeout, "alive_until": now + self.rules.threshold}

    # -- on the way ------------------------------------------------------------------------------------------------
    def tell(self, tx: Transaction, job: Job, text: str, key: str, now: datetime) -> None:
        """Let a job know what its person says: it joins the running turn, or stands in the wish of one that waits."""
        if job.state is JobState.PENDING:
            jobs.note(tx, job.id, description=f"{job.description}\n\n{text}")
        else:
            self._say_to(tx, job, f"The person says: {text}", f"told-{key}", now)

    def recover(self, tx: Transaction, job: Job, now: datetime) -> Job:
        """Let a stuck job go on: its state, its work and who does it change together."""
        again = jobs.move(
            tx, job, JobState.IN_PROGRESS, now, "started again", attempts=job.attempts + 1, **self._fresh_times(now)
        )
        self._say_to(tx, again, GO_ON, f"start-{again.attempts}", now)
        self._changed(tx, again)
        return again

    def halt(self, tx: Transaction, job: Job, reason: str, now: datetime) -> Job:
        """A job is stuck: what runs of it is cut off, and the person is told, once for each job."""
        stuck = jobs.move(tx, job, JobState.STUCK, now, reason, deadline=None, alive_until=None)
        self._cut_off(tx, stuck, now)
        self._tell_person(tx, stuck, "stuck", wording.is_stuck(stuck, reason), ReplyKind.NOTICE, now)
        self._changed(tx, stuck)
        return stuck

    # -- ending ----------------------------------------------------------------------------------------------------
    def cancel(self, tx: Transaction, job: Job, reason: str, now: datetime) -> Job:
        """End a job that its person does not want any more; whoever asked is answered by the asker's own reply."""
        over = jobs.move(tx, job, JobState.CANCELLED, now, reason, error="cancelled", deadline=None, alive_until=None)
        self._cut_off(tx, over, now)
        self._after_end(tx, over, now)
        return over

    def end(self, tx: Transaction, job: Job, after: JobState, text: str, now: datetime, shown: str = "") -> Job:
        """A job has come to its end. `text` is its result, or why it has none; `shown` what the person reads of it."""
        is_done = after is JobState.COMPLETED
        kept: dict[str, Any] = {"result": text} if is_done else {"error": text}
        over = jobs.move(tx, job, after, now, text[:200], deadline=None, alive_until=None, **kept)
        kind = ReplyKind.NOTICE if is_done else ReplyKind.ERROR
        self._tell_person(tx, over, "end", wording.ended(over, shown or text), kind, now)
        self._after_end(tx, over, now)
        return over

    def _after_end(self, tx: Transaction, job: Job, now: datetime) -> None:
        inbox.drop_waiting(tx, job.thread, now)
        if (amendment := progress.last_word(tx, job)) is not None:
            self._post(tx, amendment, now)
        self._changed(tx, job)
        self.start_waiting(tx, now)

    def _cut_off(self, tx: Transaction, job: Job, now: datetime) -> None:
        """End what runs or waits on a job's thread."""
        pending = approvals.open_of(tx, job.thread)
        if pending is not None and self._close_question is not None:
            self._close_question(tx, pending, ApprovalState.CANCELLED, job.user, now)
        elif pending is not None:
            approvals.close(tx, pending.id, ApprovalState.CANCELLED, job.user, now)
        if (turn := turns.open_turn(tx, job.thread)) is not None:
            turns.request_stop(tx, turn.id)
            tx.after_commit(partial(self._signals.stop, job.thread))
            tx.after_commit(partial(self._signals.wake, job.thread, Lane.TURN))

    # -- telling ---------------------------------------------------------------------------------------------------
    def show_progress(self, tx: Transaction, job: Job, now: datetime) -> None:
        """Renew the one message that shows how far a job is, where its chat can edit messages and it is time to."""
        for message in progress.due(tx, job, now, self.rules.progress_channels):
            self._post(tx, message, now)
            jobs.note(tx, job.id, shown_at=now)

    def _say_to(self, tx: Transaction, job: Job, text: str, key: str, now: datetime) -> None:
        """Put words into the inbox of a job's thread, as if its person had written them in the chat of origin."""
        origin = job.origin
        message = IncomingMessage(
            message_id=f"job-{job.id}-{key}",
            address=_address(job),
            sender=Sender(user_id=origin.sender if origin else ""),
            text=text,
            metadata=MessageMetadata(
                chat_type=origin.chat_type if origin else ChatType.PRIVATE, timezone=origin.zone if origin else None
            ),
            received_at=now,
        )
        if not inbox.is_seen(tx, message.delivery_key):
            inbox.append(tx, job.thread, Lane.TURN, message, now)
        tx.after_commit(partial(self._signals.wake, job.thread, Lane.TURN))

    def _tell_person(self, tx: Transaction, job: Job, key: str, text: str, kind: ReplyKind, now: datetime) -> None:
        """A notice in the chat of origin, once for each job and key, whoever else says it too."""
        if job.origin is None or not job.reports:
            return
        identifier = notice_id(job.id, key)
        if not outbox.is_there(tx, identifier):
            message = OutgoingMessage(
                id=identifier, address=job.origin.address, kind=kind, text=text, reply_to=job.origin.reply_to
            )
            self._post(tx, message, now)

    def _post(self, tx: Transaction, message: OutgoingMessage, now: datetime) -> None:
        tx.after_commit(partial(self._deliveries.offer, outbox.add(tx, message, now)))

    def ended_elsewhere(self, tx: Transaction) -> None:
        """Let the listeners know of jobs that another process, such as a shell, has ended."""
        for identifier in tuple(self._open):  # it belongs to the event loop, and this runs beside it
            job = jobs.get(tx, identifier)
            if job is not None and job.state.is_over:
                tx.after_commit(partial(self._announce_once, job))

    def watch_open(self, tx: Transaction) -> None:
        """Keep an eye on the jobs that an earlier process left."""
        tx.after_commit(partial(self._open.update, jobs.not_over(tx)))

    def _changed(self, tx: Transaction, job: Job) -> None:
        tx.after_commit(partial(self._announce, job))

    def _announce_once(self, job: Job) -> None:
        if job.id in self._open:
            self._announce(job)

    def _announce(self, job: Job) -> None:
        if job.state.is_over:
            self._open.discard(job.id)
        else:
            self._open.add(job.id)
        for listener in self._listeners:
            listener(job)


def notice_id(job: JobId, key: str) -> UUID:
    """The outbox id of one notice about a job, so that it exists once."""
    return ids.reply_id(job, key)


def place_of(origin: JobOrigin | None, job: JobId) -> Address:
    """Where a job's words go: its chat of origin; without one, nowhere, under a name that no channel has."""
    return origin.address if origin else Address(channel=JOB_PLACE, chat_id=str(job))


def _address(job: Job) -> Address:
    return place_of(job.origin, job.id)


def _key(user: str, job: JobId) -> ConversationKey:
    return ConversationKey(user, JOB_PLACE, str(job))


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


def _wish(job: Job) -> str:
    """What is to be done, once; in front of it a word that keeps it from being taken for a command."""
    is_said = job.description.startswith(job.title.rstrip("…"))
    return f"Job: {job.description}" if is_said else f"Job: {job.title}\n\n{job.description}"


def _limits(wanted: JobLimits | None, default: JobLimits) -> JobLimits:
    """The smaller of what was asked for and what the operator allows; 0 tokens set no limit."""
    if wanted is None:
        return default
    budgets = [tokens for tokens in (wanted.max_tokens, default.max_tokens) if tokens > 0]
    return JobLimits(min(max(1, wanted.max_iterations), MOST_ITERATIONS), min(budgets, default=0))
