from __future__ import annotations

from datetime import timedelta

from agent.model.ids import UserId
from agent.tools.base import RateLimit
from agent.tools.rates import RateWindows
from tests.support.fake_clock import FakeClock

ANN = UserId("telegram:5")
LIMIT = RateLimit(per_minute=2, per_hour=3)


def test_a_minutes_calls_are_limited_and_the_wait_is_told() -> None:
    clock = FakeClock()
    rates = RateWindows(clock)
    assert [rates.take(ANN, "x", LIMIT) for _ in range(2)] == [None, None]

    clock.advance(timedelta(seconds=20))

    assert rates.take(ANN, "x", LIMIT) == timedelta(seconds=40)
    clock.advance(timedelta(seconds=40))
    assert rates.take(ANN, "x", LIMIT) is None


def test_the_hour_must_have_room_as_well_and_refused_calls_do_not_count() -> None:
    clock = FakeClock()
    rates = RateWindows(clock)
    for _ in range(3):
        assert rates.take(ANN, "x", LIMIT) is None
        clock.advance(timedelta(minutes=1))

    assert rates.take(ANN, "x", LIMIT) == timedelta(minutes=57)
    clock.advance(timedelta(minutes=57))
    assert rates.take(ANN, "x", LIMIT) is None


def test_users_and_tools_are_counted_apart() -> None:
    rates = RateWindows(FakeClock())
    once = RateLimit(per_minute=1, per_hour=1)

    assert rates.take(ANN, "x", once) is None
    assert rates.take(ANN, "y", once) is None
    assert rates.take(UserId("slack:5"), "x", once) is None
    assert rates.take(ANN, "x", once) is not None


def test_a_clock_set_back_does_not_lock_anybody_out() -> None:
    clock = FakeClock()
    rates = RateWindows(clock)
    once = RateLimit(per_minute=1, per_hour=1)
    assert rates.take(ANN, "x", once) is None

    clock.advance(timedelta(days=-1))

    assert rates.take(ANN, "x", once) is None
