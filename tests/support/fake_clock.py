"""A clock that stands until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from tests.support.builders import NOON


class FakeClock:
    """Satisfies `Clock`. Sleepers wake, in the order of their due times, when `advance` passes them."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self._slept = asyncio.Event()
        self._sleepers: list[tuple[datetime, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._now

    async def sleep(self, duration: timedelta) -> None:
        due = self._now + duration
        if due <= self._now:
            await asyncio.sleep(0)
            return
        event = asyncio.Event()
        self._sleepers.append((due, event))
        self._slept.set()
        try:
            await event.wait()
        finally:
            self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[1] is not event]

    async def wait_for_sleeper(self, at_most: timedelta = timedelta(seconds=45)) -> None:
        """Return when somebody sleeps who is due within `at_most`."""
        while not any(due <= self._now + at_most for due, _ in self._sleepers):
            self._slept.clear()
            await self._slept.wait()

    async def wait_for_due(self, due: datetime, count: int = 1) -> None:
        """Return when `count` sleepers are due at exactly this instant."""
        while sum(each == due for each, _ in self._sleepers) < count:
            self._slept.clear()
            await self._slept.wait()

    def advance(self, duration: timedelta) -> None:
        """Move on by `duration` and wake whoever is due."""
        self._now += duration
        for due, event in sorted(self._sleepers, key=lambda sleeper: sleeper[0]):
            if due <= self._now:
                event.set()
