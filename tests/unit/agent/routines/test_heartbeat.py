"""The rules of the heartbeat: when it is due, when it is quiet, what an answer means. routines_heartbeat.md 6.1-6.4."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.routines.heartbeat import (
    OK_TOKEN,
    AllClear,
    Failed,
    HeartbeatSchedule,
    NeedsAttention,
    is_effectively_empty,
    is_quiet,
    next_due,
    read_answer,
)

HALF_HOUR = timedelta(minutes=30)
# Gaps of an hour at 02:00, of half an hour, at midnight, of a whole day, and no change at all.
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia", "Asia/Kolkata")
MOMENTS = st.datetimes(datetime(2009, 1, 1), datetime(2031, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
TIMES = st.times().map(lambda found: found.replace(second=0, microsecond=0))


def schedule(**more: object) -> HeartbeatSchedule:
    return HeartbeatSchedule(**({"interval": HALF_HOUR, "zone": ZoneInfo("UTC")} | more))  # type: ignore[arg-type]


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 2, hour, minute, tzinfo=UTC)


# -- quiet hours -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("start", "end", "quiet"),
    [
        (8, 10, {8, 9}),
        (22, 6, {22, 23, 0, 1, 2, 3, 4, 5}),
        (23, 0, {23}),
        (0, 1, {0}),
        (7, 7, set()),
        (None, 6, set()),
        (22, None, set()),
        (None, None, set()),
    ],
)
def test_quiet_hours_begin_with_the_first_and_end_before_the_last(
    start: int | None, end: int | None, quiet: set[int]
) -> None:
    chosen = schedule(quiet_start=start, quiet_end=end)

    assert {hour for hour in range(24) if is_quiet(chosen, at(hour, 59))} == quiet
    assert {hour for hour in range(24) if is_quiet(chosen, at(hour))} == quiet


def test_quiet_hours_are_hours_of_the_chosen_zone() -> None:
    chosen = schedule(zone=ZoneInfo("Asia/Kolkata"), quiet_start=22, quiet_end=6)

    assert is_quiet(chosen, at(17))  # 22:30 there
    assert not is_quiet(chosen, at(3))  # 08:30 there


# -- the checklist ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "checklist",
    [
        "",
        "\n \n",
        "# Heartbeat\n## Things",
        "-\n*\n- [ ]\n- [x]",
        "  - [ ]  ",
        "<!-- look at mail -->",
        "<!--\na\n-->\n#",
        "<!-- never closed\n- look at mail",
        "#hashtag",
        "<!-- a --> <!-- b -->",
    ],
)
def test_checklist_without_a_task_is_empty(checklist: str) -> None:
    assert is_effectively_empty(checklist)


@pytest.mark.parametrize(
    "checklist",
    ["- [ ] look at mail", "- [x] done", "look", "- a", "* b", "+", "- [X]", "-- ", "<!-- a --> look", "1.", "<!- x"],
)
def test_checklist_with_a_line_of_content_is_not_empty(checklist: str) -> None:
    assert not is_effectively_empty(checklist)
    assert not is_effectively_empty(f"# Heartbeat\n\n<!-- hint -->\n{checklist}\n- [ ]\n")


# -- the answer ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "answer",
    [
        "HEARTBEAT_OK",
        " heartbeat_ok.\n",
        "**HEARTBEAT_OK**",
        "`HEARTBEAT_OK`",
        "HEARTBEAT OK",
        "_Heartbeat_OK_!",
        "HEARTBEAT_OK - nothing to do.",
        "All is well. HEARTBEAT_OK",
        "> HEARTBEAT_OK, as always",
        "x" * 299 + " HEARTBEAT_OK",
    ],
)
def test_answer_that_is_the_token_or_has_it_at_an_end_is_all_clear(answer: str) -> None:
    assert read_answer(answer) == AllClear()


@pytest.mark.parametrize("answer", ["", "  \n", "\t"])
def test_empty_answer_is_a_failure(answer: str) -> None:
    assert isinstance(read_answer(answer), Failed)


def test_answer_that_was_cut_off_is_a_failure_whatever_it_says() -> None:
    assert isinstance(read_answer("HEARTBEAT_OK", cut_off=True), Failed)
    assert isinstance(read_answer("The disk is", cut_off=True), Failed)


def test_finding_that_mentions_the_token_is_still_told_without_it() -> None:
    """An answer that merely contains the token was swallowed once."""
    finding = read_answer("The disk is full, so this is no HEARTBEAT_OK at all: act today.")

    assert isinstance(finding, NeedsAttention)
    assert "disk is full" in finding.text
    assert "act today" in finding.text
    assert OK_TOKEN not in finding.text


def test_long_report_with_the_token_at_its_end_is_told() -> None:
    assert isinstance(read_answer("The disk is full. " + "x" * 300 + " HEARTBEAT_OK"), NeedsAttention)
    assert isinstance(read_answer("HEARTBEAT_OK " + "x" * 300), NeedsAttention)


@pytest.mark.parametrize("answer", ["HEARTBEAT_OKAY nothing", "Rent is due today.", "HEARTBEAT"])
def test_other_words_are_a_finding(answer: str) -> None:
    assert read_answer(answer) == NeedsAttention(answer)


@given(st.text())
def test_every_answer_means_exactly_one_thing(answer: str) -> None:
    match read_answer(answer):
        case NeedsAttention(text=text):
            assert text.strip()
        case AllClear():
            assert answer.strip()
        case Failed():
            assert not answer.strip()


# -- when it is due --------------------------------------------------------------------------------------------
@given(MOMENTS, st.integers(60, 100_000), st.integers(1, 8))
def test_interval_is_due_strictly_later_and_alike_in_every_process(now: datetime, seconds: int, backoff: int) -> None:
    chosen = schedule(interval=timedelta(seconds=seconds))

    due = next_due(chosen, now, backoff)

    assert now < due <= now + timedelta(seconds=seconds) * backoff
    assert next_due(chosen, due - timedelta(microseconds=1), backoff) == due
    assert next_due(chosen, due, backoff) - due == timedelta(seconds=seconds) * backoff


@given(MOMENTS, TIMES, st.sampled_from(ZONES))
def test_daily_time_is_due_strictly_later_within_two_days_and_alike_in_every_process(
    now: datetime, fire_at: time, zone: str
) -> None:
    chosen = schedule(zone=ZoneInfo(zone), fire_at=fire_at)

    due = next_due(chosen, now)

    assert now < due <= now + timedelta(hours=49)
    assert due.tzinfo is UTC
    assert next_due(chosen, due - timedelta(microseconds=1)) == due
    assert next_due(chosen, due) > due


def walk(chosen: HeartbeatSchedule, start: date, days: int) -> list[datetime]:
    now = datetime(start.year, start.month, start.day, tzinfo=UTC)
    end, found = now + timedelta(days=days), list[datetime]()
    while (now := next_due(chosen, now)) < end:
        found.append(now)
    return found


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("fire_at", [time(0, 0), time(0, 15), time(1, 30), time(2, 15), time(2, 30), time(9, 0)])
def test_daily_time_comes_once_a_day_all_year_at_that_local_time(zone: str, fire_at: time) -> None:
    chosen = schedule(zone=ZoneInfo(zone), fire_at=fire_at)

    found = walk(chosen, date(2026, 1, 1), 365)

    local = [due.astimezone(ZoneInfo(zone)) for due in found]
    assert len({due.date() for due in local}) == len(local) >= 364
    off = [due for due in local if due.time() != fire_at]
    assert len(off) <= 1  # the day of the gap
    assert all(due.time() > fire_at for due in off)


@pytest.mark.parametrize(
    ("zone", "fire_at", "day", "due"),
    [
        # 02:00 -> 03:00
        ("America/New_York", time(2, 30), date(2026, 3, 8), datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
        ("America/New_York", time(2, 50), date(2026, 3, 8), datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
        ("Europe/Berlin", time(2, 10), date(2026, 3, 29), datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
        # 02:00 -> 02:30
        ("Australia/Lord_Howe", time(2, 15), date(2026, 10, 4), datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
        # 00:00 -> 01:00
        ("Africa/Cairo", time(0, 15), date(2026, 4, 24), datetime(2026, 4, 23, 22, 0, tzinfo=UTC)),
        # at the edges of a gap
        ("America/New_York", time(2, 0), date(2026, 3, 8), datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
        ("America/New_York", time(3, 0), date(2026, 3, 8), datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
    ],
)
def test_time_that_daylight_saving_skips_comes_at_the_first_valid_instant(
    zone: str, fire_at: time, day: date, due: datetime
) -> None:
    chosen = schedule(zone=ZoneInfo(zone), fire_at=fire_at)
    before = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC) - timedelta(hours=3)

    assert next_due(chosen, before) == due


@pytest.mark.parametrize(
    ("zone", "fire_at", "day", "due"),
    [
        ("America/New_York", time(1, 30), date(2026, 11, 1), datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
        ("Europe/Berlin", time(2, 15), date(2026, 10, 25), datetime(2026, 10, 25, 0, 15, tzinfo=UTC)),
    ],
)
def test_time_that_happens_twice_comes_the_first_time_only(zone: str, fire_at: time, day: date, due: datetime) -> None:
    chosen = schedule(zone=ZoneInfo(zone), fire_at=fire_at)

    found = walk(chosen, day - timedelta(days=1), 3)

    assert due in found
    assert due + timedelta(hours=1) not in found
