"""How far a job is, as one message in its chat that is edited now and then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from agent.jobs import wording
from agent.model import ids
from agent.model.job import Job
from agent.store import outbox
from agent.store.base import Transaction
from channels.message import OutgoingMessage, ReplyKind

FIRST_AFTER = timedelta(seconds=20)
"""Shorter jobs show no progress: their end says all."""
AT_MOST_EVERY = timedelta(seconds=10)
_SLOWER_BY = 20


def pause(running_for: timedelta) -> timedelta:
    """How long to wait before the message is edited again: the longer a job runs, the longer."""
    return max(AT_MOST_EVERY, running_for / _SLOWER_BY)


def due(tx: Transaction, job: Job, now: datetime, channels: frozenset[str]) -> Iterator[OutgoingMessage]:
    """The message that shows the progress, or its next edit, if it is time for one."""
    if job.origin is None or not job.reports or job.started_at is None or job.origin.address.channel not in channels:
        return
    running_for = now - job.started_at
    if job.shown_at is None:
        if running_for >= FIRST_AFTER:
            yield OutgoingMessage(
                id=_first(job),
                address=job.origin.address,
                kind=ReplyKind.NOTICE,
                text=wording.progress(job),
                reply_to=job.origin.reply_to,
            )
    elif now - job.shown_at >= pause(running_for) and (shown := outbox.platform_id_of(tx, _first(job))) is not None:
        yield _amendment(job, shown, wording.progress(job))


def last_word(tx: Transaction, job: Job) -> OutgoingMessage | None:
    """The last edit of the message, when the job is over; None where there is no such message."""
    if job.origin is None or job.shown_at is None:
        return None
    shown = outbox.platform_id_of(tx, _first(job))
    return None if shown is None else _amendment(job, shown, wording.progress_over(job))


def _amendment(job: Job, platform_id: str, text: str) -> OutgoingMessage:
    assert job.origin is not None
    return OutgoingMessage(address=job.origin.address, kind=ReplyKind.AMENDMENT, text=text, edits=platform_id)


def _first(job: Job) -> UUID:
    return ids.reply_id(job.id, "progress")
