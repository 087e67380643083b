"""Brings what a container's model says on the way into the chat that its job comes from.

It goes from here to the outbox: no model reads it, and no message from outside can pass for it. The end of the job is
told by the job itself, as for any other.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from agent.clock import Clock
from agent.conversation.ports import Deliveries
from agent.jobs.container import wording
from agent.jobs.records import notice_id
from agent.model.job import Job
from agent.store import outbox
from agent.store.base import Store, Transaction
from channels.message import OutgoingMessage, ReplyKind

MOST_MESSAGES = 20
"""What is said after these is found in the job's events: a chat is no log."""


class JobMonitor:
    """Forwards the messages of one run of a job, each of them once."""

    def __init__(self, store: Store, clock: Clock, deliveries: Deliveries, job: Job) -> None:
        self._store = store
        self._clock = clock
        self._deliveries = deliveries
        self._job = job
        self._said = 0
        self._last = ""

    async def say(self, text: str) -> None:
        """Forward a message, unless it is the one before again, or too many were forwarded."""
        if self._job.origin is None or not self._job.reports or text == self._last:
            return
        self._last = text
        if self._said >= MOST_MESSAGES:
            return
        self._said += 1
        await self._store.write(partial(self._post, text, f"said-{self._job.attempts}-{self._said}", self._clock.now()))

    def _post(self, text: str, key: str, now: datetime, tx: Transaction) -> None:
        origin = self._job.origin
        assert origin is not None  # asked before
        identifier = notice_id(self._job.id, key)
        if outbox.is_there(tx, identifier):
            return
        message = OutgoingMessage(
            id=identifier,
            address=origin.address,
            kind=ReplyKind.NOTICE,
            text=wording.said(self._job.short_id, text),
            reply_to=origin.reply_to,
        )
        tx.after_commit(partial(self._deliveries.offer, outbox.add(tx, message, now)))
