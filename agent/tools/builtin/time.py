"""Dates and times for the model, which has no clock and counts badly."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import ClassVar, assert_never
from zoneinfo import ZoneInfo

from pydantic import AliasChoices, Field

from agent.clock import Clock
from agent.model.tool_call import JsonValue, ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments


class TimeOperation(StrEnum):
    """What `time` does."""

    NOW = "now"
    PARSE = "parse"
    CONVERT = "convert"
    FORMAT = "format"
    DIFF = "diff"


class TimeArguments(Arguments):
    """Arguments of `time`. `input` and `format_string` are other names for two of them."""

    operation: TimeOperation
    timestamp: str | None = Field(
        default=None,
        validation_alias=AliasChoices("timestamp", "input"),
        description="ISO 8601, RFC 2822 or Unix seconds; now if missing",
    )
    timestamp2: str | None = Field(default=None, description="diff: the later one")
    timezone: str | None = Field(default=None, description="IANA name; the user's if missing")
    from_timezone: str | None = Field(default=None, description="zone of a timestamp without one")
    to_timezone: str | None = None
    format: str | None = Field(
        default=None, validation_alias=AliasChoices("format", "format_string"), description="strftime"
    )


class TimeTool:
    """Reads the clock and calculates with points in time."""

    spec: ClassVar = ToolSpec(
        "time", "The current time; read, convert, format, subtract times.", TimeArguments, Effect.READ
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def scope(self, arguments: TimeArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: TimeArguments, context: ToolContext) -> ToolOutput:
        try:
            return ToolOutput(json.dumps(_answer(arguments, context.zone, self._clock.now()), ensure_ascii=False))
        except (ValueError, OverflowError) as error:
            return ToolOutput(str(error), is_error=True)


def _answer(arguments: TimeArguments, own_zone: ZoneInfo, now: datetime) -> dict[str, JsonValue]:
    zone = read_zone(arguments.timezone) if arguments.timezone else own_zone
    source = read_zone(arguments.from_timezone) if arguments.from_timezone else zone
    moment = read_time(arguments.timestamp, source) if arguments.timestamp else now
    match arguments.operation:
        case TimeOperation.NOW:
            return _described(now.astimezone(zone))
        case TimeOperation.PARSE:
            return _described(moment.astimezone(zone) if arguments.timezone else moment)
        case TimeOperation.CONVERT:
            target = read_zone(arguments.to_timezone) if arguments.to_timezone else zone
            return _described(moment.astimezone(target))
        case TimeOperation.FORMAT:
            return {"formatted": moment.astimezone(zone).strftime(arguments.format or "%Y-%m-%d %H:%M:%S %Z")}
        case TimeOperation.DIFF:
            if arguments.timestamp is None:
                raise ValueError("'diff' needs 'timestamp'; 'timestamp2' is now if missing.")
            return _difference((read_time(arguments.timestamp2, source) if arguments.timestamp2 else now) - moment)
        case unreachable:
            assert_never(unreachable)


def read_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises ValueError, also for names that try to be paths."""
    try:
        return ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone; use an IANA name such as 'Europe/Berlin' or 'UTC'.") from error


def read_time(text: str, zone: ZoneInfo) -> datetime:
    """The instant that `text` names, in `zone` where it says none. Raises ValueError."""
    text = text.strip()
    found = _unix(text) or _iso(text) or _rfc2822(text)
    if found is None:
        raise ValueError(f"{text[:60]!r} is no time I can read; use ISO 8601 such as '2026-01-31T18:00:00+01:00'.")
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def _unix(text: str) -> datetime | None:
    try:
        seconds = float(text)
        return (
            datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= 1e11 else seconds, UTC) if len(text) > 8 else None
        )
    except (ValueError, OverflowError, OSError):
        return None


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _rfc2822(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None


def _described(moment: datetime) -> dict[str, JsonValue]:
    return {
        "iso": moment.isoformat(timespec="seconds" if not moment.microsecond else "microseconds"),
        "utc": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "unix": int(moment.timestamp()),
        "weekday": moment.strftime("%A"),
        "timezone": str(moment.tzinfo),
    }


def _difference(span: timedelta) -> dict[str, JsonValue]:
    minutes, seconds = divmod(abs(int(span.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if span < timedelta() else ""
    return {
        "seconds": span.total_seconds(),
        "human": f"{sign}{days}d {hours}h {minutes}m {seconds}s",
    }
