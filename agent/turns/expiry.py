"""Lets unanswered questions run out: waits for the next one that is due, not by the clock's tick."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from agent.clock import Clock
from agent.conversation.intake import Intake
from agent.store import approvals
from agent.store.base import Store

LONGEST_WAIT = timedelta(minutes=10)


class ApprovalExpiry:
    """A service; `nudge` it when a question was asked, so that it looks at the new time."""

    def __init__(self, store: Store, clock: Clock, intake: Intake) -> None:
        self._store = store
        self._clock = clock
        self._intake = intake
        self._asked = asyncio.Event()

    def nudge(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._asked.clear()
            due = await self._store.read(approvals.next_expiry)
            wait = LONGEST_WAIT if due is None else min(due - self._clock.now(), LONGEST_WAIT)
            if wait > timedelta(0):
                await self._wait(wait)
            else:
                await self._intake.expire_questions()

    async def _wait(self, duration: timedelta) -> None:
        async with asyncio.TaskGroup() as group:
            sleep = group.create_task(self._clock.sleep(duration))
            asked = group.create_task(self._asked.wait())
            await asyncio.wait([sleep, asked], return_when=asyncio.FIRST_COMPLETED)
            sleep.cancel()
            asked.cancel()
