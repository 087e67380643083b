"""When to try again, and what has to wait until when."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Clock(Protocol):
    """Reads and waits for time."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...

    async def sleep(self, duration: timedelta) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(max(0.0, duration.total_seconds()))


def backoff(
    failures: int,
    *,
    first: timedelta = timedelta(seconds=1),
    most: timedelta = timedelta(seconds=60),
    jitter: float = 0.2,
) -> timedelta:
    """How long to wait after so many failures in a row (1 or more): `first` doubling up to `most`.

    Up to the share `jitter` is taken off at random, so that many who failed at once do not come back at once.
    """
    wait = first
    while failures > 1 and wait < most:
        wait, failures = wait * 2, failures - 1
    return min(wait, most) * (1 - random.uniform(0, jitter))


class Holds(Generic[Key]):
    """Things that must not be done again before some instant: a pause a platform asked for, a pace we keep.

    Keeps the `size` latest; what is forgotten may be done at once.
    """

    def __init__(self, size: int = 1024) -> None:
        self._until: OrderedDict[Key, datetime] = OrderedDict()
        self._size = size

    def hold(self, key: Key, until: datetime) -> None:
        """Hold `key` until an instant; a hold is never shortened."""
        self._until[key] = max(until, self._until.pop(key, until))
        if len(self._until) > self._size:
            self._until.popitem(last=False)

    def remaining(self, key: Key, now: datetime) -> timedelta:
        """How much longer `key` is held; zero if it is not."""
        until = self._until.get(key)
        return max(until - now, timedelta()) if until else timedelta()
