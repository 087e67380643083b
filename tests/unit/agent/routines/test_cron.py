"""Schedules are wall-clock time: each local time fires once, whatever clocks do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.routines.cron import check, instant, next_fire
from agent.routines.errors import InvalidSchedule

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "Australia/Lord_Howe",  # by half an hour
    "America/Sao_Paulo",  # at midnight, until 2019
    "Africa/Casablanca",
    "Pacific/Apia",  # a whole day was left out in 2011
    "Asia/Kolkata",
)
PATTERNS = {
    "*/10 * * * *": (set(range(0, 60, 10)), set(range(24))),
    "30 2 * * *": ({30}, {2}),
    "0 0 * * *": ({0}, {0}),
    "15 0-3 * * *": ({15}, {0, 1, 2, 3}),
    "0 8 * * *": ({0}, {8}),
}


def changes(zone: ZoneInfo) -> Iterator[datetime]:
    """The hours of some years in which the zone's offset changes."""
    for first, last in ((2011, 2011), (2018, 2018), (2025, 2026)):
        at, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
        while at < end:
            if at.astimezone(zone).utcoffset() != (at + HOUR).astimezone(zone).utcoffset():
                yield at
            at += HOUR


def table(pattern: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """What fires after `start` and before `end`, by looking at each minute: a time fires as soon as clocks have come
    to it."""
    minutes, hours = PATTERNS[pattern]
    shown = [start + n * MINUTE for n in range(-1500, (end - start) // MINUTE)]
    local = [at.astimezone(zone).replace(tzinfo=None) for at in shown]
    wall, found = local[0], set()
    for at, clock in zip(shown, local, strict=True):
        while wall <= clock:
            if wall.minute in minutes and wall.hour in hours:
                found.add(at)
            wall += MINUTE
    return sorted(at for at in found if start < at < end)


def fires(pattern: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = next_fire(pattern, start, zone)
    while at is not None and at < end:
        found.append(at)
        at = next_fire(pattern, at, zone)
    return found


@pytest.mark.parametrize("name", ZONES)
def test_it_agrees_with_a_look_at_each_minute_around_each_change(name: str) -> None:
    zone = ZoneInfo(name)
    for change in changes(zone):
        for pattern in PATTERNS:
            reach = 4 * HOUR if pattern.startswith("*") else 50 * HOUR
            start, end = change - reach, change + reach

            assert fires(pattern, zone, start, end) == table(pattern, zone, start, end), (change, pattern)


@given(
    zone=st.sampled_from(ZONES),
    pattern=st.sampled_from([*PATTERNS, "*/20 */3 * * * *", "0 0 2 29 2 *", "0 30 1 * * sun 2026-2040"]),
    after=st.datetimes(datetime(2010, 1, 1), datetime(2035, 1, 1)),
)
@settings(max_examples=150, deadline=None)
def test_it_increases_strictly(zone: str, pattern: str, after: datetime) -> None:
    moments = [after.replace(tzinfo=UTC)]
    for _ in range(4):
        following = next_fire(pattern, moments[-1], ZoneInfo(zone))
        if following is None:
            break
        moments.append(following)

    assert all(a < b for a, b in pairwise(moments))


@given(zone=st.sampled_from(ZONES), local=st.datetimes(datetime(2010, 1, 1), datetime(2035, 1, 1)))
@settings(deadline=None)
def test_a_local_time_is_the_first_instant_at_which_clocks_have_come_to_it(zone: str, local: datetime) -> None:
    local = local.replace(microsecond=0)
    found = instant(local, ZoneInfo(zone))

    assert found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) >= local
    assert (found - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).replace(tzinfo=None) < local


def test_a_skipped_time_fires_after_the_gap_and_a_repeated_one_once() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    spring = fires("30 2 * * *", berlin, datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC))
    autumn = fires("30 2 * * *", berlin, datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, tzinfo=UTC))

    assert [f"{at.astimezone(berlin):%d %H:%M}" for at in spring] == ["29 03:00", "30 02:30"]
    assert [f"{at:%d %H:%M}" for at in autumn] == ["25 00:30"]


def test_eight_in_the_morning_stays_eight_in_the_morning() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    year = fires("0 8 * * *", berlin, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))

    assert len(year) == 365
    assert {f"{at.astimezone(berlin):%H:%M}" for at in year} == {"08:00"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 9 * * *", "2026-03-03 09:30:00"),
        ("15 30 9 * * *", "2026-03-03 09:30:15"),
        ("15 30 9 * * * 2028", "2028-01-01 09:30:15"),
        ("*/2 * * * * *", "2026-03-02 12:00:02"),
        ("0 9 * * mon-fri", "2026-03-03 09:00:00"),
        ("0 9 l * *", "2026-03-31 09:00:00"),
    ],
)
def test_five_six_and_seven_fields(expression: str, expected: str) -> None:
    found = next_fire(expression, datetime(2026, 3, 2, 12, tzinfo=UTC), ZoneInfo("UTC"))

    assert f"{found:%Y-%m-%d %H:%M:%S}" == expected


def test_the_time_it_is_asked_at_does_not_count() -> None:
    at = datetime(2026, 3, 2, 12, tzinfo=UTC)

    assert next_fire("0 12 * * *", at, ZoneInfo("UTC")) == at + 24 * HOUR
    assert next_fire("0 12 * * *", at - timedelta(microseconds=1), ZoneInfo("UTC")) == at


@pytest.mark.parametrize(
    "expression",
    ["", "every tuesday-ish", "* * * *", "* * * * * * * *", "99 * * * *", "@daily", "H * * * *", "r * * * *", "0 9 * * "
     "mon;x", "*/0 * * * *", "0 " * 200],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="not valid"):
        next_fire(expression, datetime(2026, 3, 2, tzinfo=UTC), ZoneInfo("UTC"))


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 2,4,6 *", "0 0 9 * * * 2020"])
def test_what_never_comes_is_refused_at_once(expression: str) -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidSchedule, match="never comes"):
        check(expression, datetime(2026, 3, 2, tzinfo=UTC), ZoneInfo("Europe/Berlin"))

    assert time.perf_counter() - began < 1


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    try:
        found = next_fire(text, datetime(2026, 3, 2, tzinfo=UTC), ZoneInfo("UTC"))
    except InvalidSchedule:
        return

    assert found is None or found > datetime(2026, 3, 2, tzinfo=UTC)
