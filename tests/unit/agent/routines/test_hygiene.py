from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from agent.routines.hygiene import MemoryHygiene
from agent.store import facts
from agent.store.base import Store
from agent.store.open import open_store
from config.settings import MemoryHygieneSettings
from tests.support.fake_clock import FakeClock

SETTINGS = MemoryHygieneSettings(enabled=True, daily_retention_days=30, conversation_retention_days=7, cadence_hours=12)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


def old_note(root: Path, clock: FakeClock) -> Path:
    note = root / "daily/2025-01-01.md"
    note.parent.mkdir(exist_ok=True)
    note.write_text("old")
    moment = (clock.now() - timedelta(days=31)).timestamp()
    os.utime(note, (moment, moment))
    return note


async def test_cleans_once_in_its_time_also_over_a_restart(tmp_path: Path, store: Store) -> None:
    clock = FakeClock()
    note = old_note(tmp_path, clock)
    assert await MemoryHygiene(store, clock, tmp_path, SETTINGS).clean() == 1
    assert not note.exists()

    old_note(tmp_path, clock)
    again = MemoryHygiene(store, clock, tmp_path, SETTINGS)
    assert await again.clean() == 0
    clock.advance(timedelta(hours=12))
    assert await again.clean() == 1


@pytest.mark.parametrize("last", ["", "yesterday", "2026-03-02T12:00:00", "2999-01-01T00:00:00+00:00"])
async def test_unreadable_or_future_time_of_the_last_run_does_not_stop_it(
    tmp_path: Path, store: Store, last: str
) -> None:
    clock = FakeClock()
    old_note(tmp_path, clock)
    await store.write(lambda tx: facts.put(tx, "memory_hygiene_last", last))

    assert await MemoryHygiene(store, clock, tmp_path, SETTINGS).clean() == 1
