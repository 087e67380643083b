"""Ends sessions that nobody uses, so that what was once allowed does not stay allowed for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import structlog

from agent.clock import Clock
from agent.conversation.memories import ThreadMemories
from agent.conversation.ports import Hooks
from agent.model.ids import SessionId, ThreadId, UserId
from agent.store import conversations
from agent.store.base import Store, Transaction

log = structlog.get_logger(__name__)

PERIOD = timedelta(minutes=10)
MANY_SESSIONS = 1_000


class SessionPruner:
    """A service. A session that runs, waits or has unread messages is never ended."""

    def __init__(self, store: Store, clock: Clock, memories: ThreadMemories, idle_for: timedelta, hooks: Hooks) -> None:
        self._store = store
        self._clock = clock
        self._memories = memories
        self._idle_for = idle_for
        self._hooks = hooks
        self._looked_at = clock.now() - idle_for

    async def run(self) -> None:
        """Until cancelled; the first look is after one period."""
        while True:
            await self._clock.sleep(PERIOD)
            await self.prune()

    async def prune(self) -> int:
        """End what is idle now, and give the number of threads that were let go."""
        unused_since = self._clock.now() - self._idle_for

        def work(tx: Transaction) -> tuple[list[ThreadId], Sequence[tuple[UserId, SessionId]], int]:
            ended = conversations.fell_idle(tx, self._looked_at, unused_since)
            return list(conversations.prune(tx, unused_since)), ended, conversations.count_sessions(tx, unused_since)

        idle, ended, in_use = await self._store.write(work)
        self._looked_at = unused_since
        for user, session in ended:
            self._hooks.session_ended(user, str(session))
        for thread in idle:
            self._memories.forget(thread)
        if idle:
            log.info("sessions_pruned", threads=len(idle))
        if in_use >= MANY_SESSIONS:
            log.warning("many_sessions", in_use=in_use)
        return len(idle)
