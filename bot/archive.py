"""Ports of the tools and of the cost guard, on the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from agent.clock import Clock
from agent.loop.cost_guard import SpendEntry
from agent.store import spend, turns
from agent.store.base import Store
from agent.tools.base import ToolContext


class OutputArchive:
    """Keeps whole the tool outputs that are shown cut, and finds them again by call id, within their thread."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def keep(self, context: ToolContext, name: str, text: str) -> None:
        now = self._clock.now()
        await self._store.write(lambda tx: turns.stash(tx, context.thread, context.call_id, name, text, now))

    async def find(self, context: ToolContext, call_id: str) -> str | None:
        return await self._store.read(lambda tx: turns.stashed(tx, context.thread, call_id))


class StoreLedger:
    """What model calls cost, across restarts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def spent_on(self, day: date) -> Decimal:
        return await self._store.read(lambda tx: spend.dollars_on(tx, day))

    async def calls_after(self, instant: datetime) -> Sequence[datetime]:
        return await self._store.read(lambda tx: spend.calls_since(tx, instant))

    async def add(self, entry: SpendEntry) -> None:
        await self._store.write(lambda tx: spend.add(tx, entry))
