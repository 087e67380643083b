"""Foreign code, called so that neither its faults nor its obstinacy reach the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broke:
    """There is no answer. `error` is the class of what was raised, never its text."""

    error: str
    took_too_long: bool = False


class Bounded:
    """Calls foreign code, each call in a task of its own.

    In the caller's task a call could swallow the caller's cancellation, or be taken for it: a `CancelledError` of a
    call's own would end the turn. A TaskGroup would wait for a call that does not stop when it is told to.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[object]] = set()

    async def __call__(self, call: Callable[[], Awaitable[T]], timeout: timedelta) -> T | Broke:
        """What the call gives within its time. A cancelled caller leaves at once, and the call is cancelled."""
        task = asyncio.create_task(_made(call))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=timeout.total_seconds())
        finally:
            is_over = task.done()
            if not is_over:
                task.cancel()
        if not is_over:
            return Broke(TimeoutError.__name__, took_too_long=True)
        if task.cancelled():
            return Broke(asyncio.CancelledError.__name__)
        error = task.exception()
        return task.result() if error is None else Broke(type(error).__name__)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it is known; unasked, the loop would print it with its trace


async def _made(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
