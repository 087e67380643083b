"""Who runs the work of a thread: the seam between one process and many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from agent.model.ids import ThreadId
from agent.store.inbox import Lane


@dataclass(frozen=True, slots=True)
class Handlers:
    """What an engine runs. One call at a time for a thread and lane; a call serves whatever is waiting there."""

    serve: Callable[[ThreadId, Lane], Awaitable[None]]
    stop: Callable[[ThreadId], None]
    backlog: Callable[[], Awaitable[tuple[tuple[ThreadId, Lane], ...]]]


class TurnEngine(Protocol):
    """Runs lanes. Exclusion is the engine's; safety is the store's fence, so a doubled wake is harmless."""

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        """Something waits on this lane. Called after the commit that made it so."""
        ...

    def stop(self, thread: ThreadId) -> None:
        """Cut off what runs on this thread; the row says the same, so a lost signal delays and never loses."""
        ...

    async def run(self, handlers: Handlers) -> None:
        """Serve until cancelled, beginning with what earlier processes left."""
        ...

    async def drain(self, grace: timedelta) -> None:
        """Take no new work; wait for what runs, at most `grace`."""
        ...
