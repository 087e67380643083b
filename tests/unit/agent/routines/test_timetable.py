"""Each due time runs once or is recorded as missed; nothing drifts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model.routine import Cron, Manual, Once
from agent.routines.timetable import GRACE, Settled, first_due, settle

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
DAILY = Cron("0 8 * * *", "UTC")
HOURLY = Cron("0 * * * *", "UTC")
NO_REST = timedelta(0)


def test_a_punctual_time_runs_and_the_next_is_the_next_of_the_expression() -> None:
    assert settle(DAILY, EIGHT, EIGHT + MINUTE, NO_REST) == Settled(EIGHT, EIGHT + 24 * HOUR)


def test_a_late_run_does_not_shift_those_after_it() -> None:
    settled = settle(DAILY, EIGHT, EIGHT + 90 * MINUTE, NO_REST)

    assert (settled.fire, settled.then, settled.missed) == (EIGHT, EIGHT + 24 * HOUR, ())


def test_what_is_too_late_is_missed_with_a_reason_and_not_run() -> None:
    settled = settle(DAILY, EIGHT, EIGHT + 12 * HOUR, NO_REST)

    assert (settled.fire, settled.then) == (None, EIGHT + 24 * HOUR)
    assert [missed.at for missed in settled.missed] == [EIGHT]
    assert "not running" in settled.missed[0].reason


def test_of_many_missed_times_one_is_made_up_for() -> None:
    settled = settle(HOURLY, EIGHT, EIGHT + 12 * HOUR + 30 * MINUTE, NO_REST)

    assert settled.fire == EIGHT + 11 * HOUR
    assert settled.then == EIGHT + 13 * HOUR
    assert [missed.at for missed in settled.missed] == [EIGHT, EIGHT + 12 * HOUR]


def test_times_within_the_cooldown_are_left_out_without_a_word() -> None:
    settled = settle(Cron("* * * * *", "UTC"), EIGHT, EIGHT + timedelta(seconds=10), timedelta(seconds=300))

    assert settled == Settled(EIGHT, EIGHT + 5 * MINUTE)


def test_a_schedule_just_as_dense_as_its_cooldown_leaves_nothing_out() -> None:
    settled = settle(Cron("*/5 * * * *", "UTC"), EIGHT, EIGHT + timedelta(seconds=14), timedelta(seconds=300))

    assert settled.then == EIGHT + 5 * MINUTE


def test_nothing_comes_after_the_last_day() -> None:
    until = Cron("0 8 * * *", "UTC", until=EIGHT + 24 * HOUR)

    assert settle(until, EIGHT, EIGHT, NO_REST).then == EIGHT + 24 * HOUR
    assert settle(until, EIGHT + 24 * HOUR, EIGHT + 24 * HOUR, NO_REST).then is None


@pytest.mark.parametrize(("late", "runs"), [(MINUTE, True), (23 * HOUR, True), (25 * HOUR, False)])
def test_a_single_time_is_made_up_for_a_day_long(late: timedelta, runs: bool) -> None:
    settled = settle(Once(EIGHT, "UTC"), EIGHT, EIGHT + late, NO_REST)

    assert settled.fire == (EIGHT if runs else None)
    assert settled.then is None
    assert bool(settled.missed) is not runs


def test_only_a_time_table_has_a_first_time() -> None:
    assert first_due(DAILY, EIGHT) == EIGHT + 24 * HOUR
    assert first_due(Once(EIGHT, "UTC"), EIGHT) is None
    assert first_due(Once(EIGHT, "UTC"), EIGHT - MINUTE) == EIGHT
    assert first_due(Manual(), EIGHT) is None


@given(
    late=st.integers(0, 3 * 24 * 60),
    cooldown=st.integers(0, 200),
    dense=st.sampled_from(["*/7 * * * *", "0 */5 * * *"]),
)
@settings(deadline=None)
def test_whatever_happens_the_next_time_lies_ahead_and_what_runs_is_in_time(
    late: int, cooldown: int, dense: str
) -> None:
    now = EIGHT + late * MINUTE
    settled = settle(Cron(dense, "UTC"), EIGHT, now, cooldown * MINUTE)

    assert settled.then is not None
    assert settled.then > now
    assert settled.fire is None or now - GRACE <= settled.fire <= now
    assert settled.fire is not None or settled.missed
