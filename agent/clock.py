"""Time, as a collaborator that tests can move."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


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
