"""What becomes of a due time: run, made up for, or missed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from agent.model.routine import Cron, Once, Trigger
from agent.routines import cron

GRACE = timedelta(hours=2)
"""How late a run may begin. What is on a time table comes again: a day late it helps nobody."""
GRACE_ONCE = timedelta(hours=24)
"""A single time does not come again, so it is made up for a day long."""
ON_TIME = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
_TOO_LATE = "missed: the bot was not running, or too busy, and it is too late to make up for it now"
_MADE_UP = "missed: one later run makes up for this time and any other up to {until:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Missed:
    """A due time at which nothing runs."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What to do about a due time. `fire`: the due time to run for, None for none. `then`: the next one."""

    fire: datetime | None
    then: datetime | None
    missed: tuple[Missed, ...] = ()


def first_due(trigger: Trigger, now: datetime) -> datetime | None:
    """The first due time of a new routine; None if it has no time table, or nothing on it is left."""
    match trigger:
        case Cron():
            return _next(trigger, now)
        case Once(at=at):
            return at if at > now else None
        case _:
            return None


def settle(trigger: Cron | Once, due: datetime, now: datetime, cooldown: timedelta) -> Settled:
    """What to do at `now` about the due time `due` and those between the two. At most one of them is run.

    The next one is computed from the due time, never from the end of a run: nothing drifts. Times within the cooldown
    are no due times at all.
    """
    match trigger:
        case Once():
            if now - due <= GRACE_ONCE:
                return Settled(due, None)
            return Settled(None, None, (Missed(due, _TOO_LATE),))
        case Cron():
            return _settle_cron(trigger, due, now, cooldown)
        case unreachable:
            assert_never(unreachable)


def _settle_cron(trigger: Cron, due: datetime, now: datetime, cooldown: timedelta) -> Settled:
    missed: list[Missed] = []
    fire: datetime | None = due
    if now - due > GRACE:
        missed.append(Missed(due, _TOO_LATE))
        fire = _next(trigger, now - GRACE - _MICROSECOND)
    if fire is None or fire > now:
        return Settled(None, fire, tuple(missed))
    rested = fire + cooldown - _MICROSECOND
    other = _next(trigger, max(fire, rested))
    if other is not None and other <= now:
        missed.append(Missed(other, _MADE_UP.format(until=now)))
        other = _next(trigger, max(now, rested))
    return Settled(fire, other, tuple(missed))


def _next(trigger: Cron, after: datetime) -> datetime | None:
    found = cron.next_fire(trigger.expression, after, ZoneInfo(trigger.zone))
    return None if found is None or (trigger.until is not None and found > trigger.until) else found
