from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from channels.pacing import Holds, SystemClock, backoff

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_backoff_doubles_up_to_its_bound() -> None:
    waits = [backoff(failures, jitter=0).total_seconds() for failures in (1, 2, 3, 6, 7, 8, 5000)]

    assert waits == [1, 2, 4, 32, 60, 60, 60]


@given(st.integers(1, 100))
def test_jitter_only_shortens_a_little(failures: int) -> None:
    assert backoff(failures, jitter=0) * 0.8 <= backoff(failures) <= backoff(failures, jitter=0)


def test_hold_ends_at_its_instant() -> None:
    holds: Holds[str] = Holds()
    holds.hold("chat", NOON + 3 * SECOND)

    assert holds.remaining("chat", NOON) == 3 * SECOND
    assert holds.remaining("chat", NOON + 3 * SECOND) == timedelta()
    assert holds.remaining("other", NOON) == timedelta()


def test_hold_is_never_shortened() -> None:
    holds: Holds[str] = Holds()
    holds.hold("chat", NOON + 9 * SECOND)
    holds.hold("chat", NOON + SECOND)

    assert holds.remaining("chat", NOON) == 9 * SECOND


def test_only_the_latest_holds_are_kept() -> None:
    holds: Holds[int] = Holds(size=2)
    for key in (1, 2, 1, 3):
        holds.hold(key, NOON + SECOND)

    assert [bool(holds.remaining(key, NOON)) for key in (1, 2, 3)] == [True, False, True]


async def test_machines_clock_is_aware_and_sleeps_not_backwards() -> None:
    clock = SystemClock()

    await clock.sleep(timedelta(seconds=-5))

    assert clock.now().utcoffset() == timedelta()
