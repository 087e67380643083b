"""How routines are told to people and to the model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

from agent.model.routine import (
    Cron,
    Manual,
    Once,
    OnMessage,
    OnSystemEvent,
    Routine,
    Run,
    Trigger,
    Webhook,
    plain_name,
)

_LONGEST_SUMMARY = 300


def when(trigger: Trigger) -> str:
    """What sets a routine off, in words."""
    match trigger:
        case Cron(expression=expression, zone=zone, until=until):
            end = f", until {until.astimezone(ZoneInfo(zone)):%Y-%m-%d}" if until else ""
            return f"`{expression}` {zone}{end}"
        case Once(at=at, zone=zone):
            return f"once, {moment(at, zone)}"
        case OnMessage(pattern=pattern, channel=channel):
            return f"messages like `{plain_name(pattern)}`{f' on {channel}' if channel else ''}"
        case OnSystemEvent(source=source, event_type=kind):
            return f"event {plain_name(source)} {plain_name(kind)}"
        case Manual():
            return "by hand"
        case Webhook(path=path):
            return f"webhook {path}"
        case unreachable:
            assert_never(unreachable)


def moment(at: datetime, zone: str) -> str:
    """An instant as its reader's clock shows it."""
    return f"{at.astimezone(ZoneInfo(zone)):%A %Y-%m-%d %H:%M} {zone}"


def state(routine: Routine) -> str:
    """How a routine stands, in a few words."""
    if not routine.enabled:
        return "disabled"
    if routine.is_finished:
        return "over"
    return f"next {moment(routine.due_at, routine.plan.origin.zone)}" if routine.due_at else "enabled"


def line(routine: Routine) -> str:
    """One routine in a list."""
    counters = f"{routine.run_count} run{'' if routine.run_count == 1 else 's'}"
    if routine.consecutive_failures:
        counters += f", {routine.consecutive_failures} failed in a row"
    about = f" ({plain_name(routine.description)})" if routine.description else ""
    return f"**{routine.name}**{about}: {when(routine.plan.trigger)}; {state(routine)}; {counters}"


def history(routine: Routine, runs: Sequence[Run]) -> str:
    """The runs of a routine, newest first."""
    if not runs:
        return f"{routine.name!r} has not run yet."
    zone = ZoneInfo(routine.plan.origin.zone)
    return "\n".join(_run_line(run, zone) for run in runs)


def _run_line(run: Run, zone: ZoneInfo) -> str:
    summary = " ".join(run.summary.split())
    said = f": {summary[:_LONGEST_SUMMARY]}{'…' if len(summary) > _LONGEST_SUMMARY else ''}" if summary else ""
    return f"- {run.due_at.astimezone(zone):%Y-%m-%d %H:%M:%S} ({run.cause}) {run.status}{said}"
