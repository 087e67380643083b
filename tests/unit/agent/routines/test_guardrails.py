"""What keeps a routine from running: its rest, itself, an equal event, too many others. routines_heartbeat.md 6.7."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agent.model.routine import Guardrails
from agent.routines.guardrails import Activity, Block, Blocked, event_hash, may_fire
from tests.support.builders import NOON

SECOND = timedelta(seconds=1)
RESTS = Guardrails(timedelta(seconds=300), dedup_window=timedelta(hours=1))


def test_what_never_ran_may_run() -> None:
    assert may_fire(RESTS, Activity(None), NOON) is None


@pytest.mark.parametrize(("seconds", "expected"), [(0, Block.COOLDOWN), (299, Block.COOLDOWN), (300, None)])
def test_it_rests_for_the_cooldown_and_not_longer(seconds: int, expected: Block | None) -> None:
    blocked = may_fire(RESTS, Activity(NOON - seconds * SECOND), NOON)

    assert (blocked.reason if blocked else None) is expected
    assert blocked is None or blocked.until == NOON + (300 - seconds) * SECOND


def test_it_does_not_run_beside_itself() -> None:
    blocked = Blocked(Block.CONCURRENT)

    assert may_fire(Guardrails(timedelta(0)), Activity(NOON, open_runs=1), NOON) == blocked
    assert may_fire(Guardrails(timedelta(0), max_concurrent=2), Activity(NOON, open_runs=1), NOON) is None


def test_an_equal_event_within_the_window_counts_once() -> None:
    window = Guardrails(timedelta(0), dedup_window=timedelta(hours=1))
    before = NOON - timedelta(minutes=59)

    assert may_fire(window, Activity(before, same_event_at=before), NOON) == Blocked(
        Block.DUPLICATE, before + timedelta(hours=1)
    )
    assert may_fire(window, Activity(before, same_event_at=NOON - timedelta(hours=1)), NOON) is None
    assert may_fire(Guardrails(timedelta(0)), Activity(before, same_event_at=before), NOON) is None


def test_all_together_there_are_only_so_many() -> None:
    assert may_fire(RESTS, Activity(None, running=10, capacity=10), NOON) == Blocked(Block.CAPACITY)
    assert may_fire(RESTS, Activity(None, running=9, capacity=10), NOON) is None


def test_equal_contents_have_equal_hashes_in_whatever_order() -> None:
    assert event_hash("a", {"x": 1, "y": [2]}) == event_hash("a", {"y": [2], "x": 1})
    assert event_hash("a", {"x": 1}) != event_hash("a", {"x": 2})
    assert event_hash("ab", "c") != event_hash("a", "bc")
