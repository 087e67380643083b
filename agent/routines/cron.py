"""Cron expressions as wall-clock time in a zone. Pure.

croniter knows the expressions; it is only asked about local time without a zone, since with one it walks backwards at
clock changes. What a local time means when clocks change is decided here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from agent.routines.errors import InvalidSchedule

LONGEST_EXPRESSION = 200
_SECOND = timedelta(seconds=1)
_MOST_YEARS = 50  # leap days fall on a given weekday every 28 years, 40 around 2100
_DICE = re.compile(r"\b[hr]\b", re.IGNORECASE)  # croniter's own signs for a time that it picks itself


def next_fire(expression: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant strictly after `after`, in UTC, at which clocks in `zone` match `expression`; None if none is
    left.

    Five fields, six (seconds first) or seven (a year last). A local time that daylight saving skips falls on the first
    valid instant after the gap, one that happens twice on the first of the two; so several skipped times make one.

    Raises InvalidSchedule for what is no expression.
    """
    times = _Times(expression)
    local = _begin(after, zone)
    while (local_next := times.after(local)) is not None:
        found = instant(local_next, zone)
        if found > after:
            return found
        local = local_next
    return None


def check(expression: str, now: datetime, zone: ZoneInfo) -> datetime:
    """The next time of an expression that somebody asks for. Raises InvalidSchedule if it has none."""
    found = next_fire(expression, now, zone)
    if found is None:
        raise InvalidSchedule(f"The schedule {expression!r} never comes: no such date is ahead.")
    return found


def instant(local: datetime, zone: ZoneInfo) -> datetime:
    """The first instant, in UTC, at which clocks in `zone` show a local time, or the first one after a gap."""
    shown = local.replace(tzinfo=zone, fold=0)
    found = shown.astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None, fold=0) == local:
        return found
    # In a gap fold 1 has the offset behind it (PEP 495), so the gap ends somewhere between the two.
    return _change(shown.replace(fold=1).astimezone(UTC), found, zone)


def _begin(after: datetime, zone: ZoneInfo) -> datetime:
    """A local time before all those that come after an instant, and as late as is safe."""
    shown = after.astimezone(zone)
    local = shown.replace(tzinfo=None, microsecond=0, fold=0)
    if not shown.fold:
        return local
    # The second time round: everything up to the end of the hour that is shown twice has been.
    first = shown.replace(fold=0)
    change = _change(first.astimezone(UTC), after.astimezone(UTC), zone)
    offset = first.utcoffset()
    assert offset is not None  # a zone gives one
    return change.replace(tzinfo=None) + offset - _SECOND


def _change(before: datetime, behind: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which the zone's offset changes, given one on each side. Zone rules change on whole seconds."""
    before = before.replace(microsecond=0)
    offset = behind.astimezone(zone).utcoffset()
    while behind - before > _SECOND:
        middle = before + (behind - before) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            behind = middle
        else:
            before = middle
    return behind.replace(microsecond=0)


class _Times:
    """The local times of an expression, without a zone."""

    def __init__(self, expression: str) -> None:
        self._fields = expression.split()
        if len(expression) > LONGEST_EXPRESSION or not 5 <= len(self._fields) <= 7 or _DICE.search(expression):
            raise _invalid(expression)
        self._expression = " ".join(self._fields)

    def after(self, local: datetime) -> datetime | None:
        from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]  # it has no stubs

        try:
            times = croniter(
                self._expression,
                local,
                ret_type=datetime,
                second_at_beginning=len(self._fields) > 5,
                max_years_between_matches=_MOST_YEARS,
            )
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise _invalid(self._expression) from error
        try:
            found: datetime = times.get_next(datetime)
        except (CroniterBadDateError, OverflowError):
            return None
        return found


def _invalid(expression: str) -> InvalidSchedule:
    return InvalidSchedule(
        f"The schedule {expression[:60]!r} is not valid: five cron fields are expected (minute hour day month "
        "weekday), six with seconds first, or seven with a year last, such as '0 9 * * mon-fri'."
    )
