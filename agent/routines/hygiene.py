"""Keeps the workspace small: old notes of the day and old conversations go."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from agent.clock import Clock
from agent.store import facts
from agent.store.base import Store, Transaction
from agent.workspace.aging import remove_old
from config.settings import MemoryHygieneSettings

log = structlog.get_logger(__name__)

PERIOD = timedelta(hours=1)
"""Between two looks at whether a clean-up is due."""

_LAST = "memory_hygiene_last"


class MemoryHygiene:
    """A service. Of several processes one cleans, and a restart does not clean again before its time."""

    def __init__(self, store: Store, clock: Clock, root: Path, settings: MemoryHygieneSettings) -> None:
        self._store = store
        self._clock = clock
        self._root = root
        self._settings = settings

    async def run(self) -> None:
        """Until cancelled; the first look is after one period."""
        while True:
            await self._clock.sleep(PERIOD)
            await self.clean()

    async def clean(self) -> int:
        """Clean up, if that is due, and give the number of files removed."""
        now = self._clock.now()
        if not await self._store.write(lambda tx: self._claim(tx, now)):
            return 0
        removed = await asyncio.to_thread(
            remove_old,
            self._root,
            {
                "daily": now - timedelta(days=self._settings.daily_retention_days),
                "conversations": now - timedelta(days=self._settings.conversation_retention_days),
            },
        )
        log.info("old_notes_removed", files=removed)
        return removed

    def _claim(self, tx: Transaction, now: datetime) -> bool:
        """Whether it is due and ours. It is noted before it begins: a crash in it is no reason to begin again."""
        last = _moment(facts.get(tx, _LAST))
        cadence = timedelta(hours=self._settings.cadence_hours)
        if last is not None and timedelta() <= now - last < cadence:
            return False
        facts.put(tx, _LAST, now.isoformat())
        return True


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
