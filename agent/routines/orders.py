"""From what a model asks for to a routine: everything is read and checked here, before anything is stored. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from agent.errors import RoutineRefused
from agent.model.routine import (
    Action,
    Cron,
    FullJob,
    Guardrails,
    Lightweight,
    Manual,
    Once,
    OnMessage,
    OnSystemEvent,
    Trigger,
    Webhook,
    plain_name,
)
from agent.routines import cron
from agent.skills.patterns import compile_pattern
from agent.tools.builtin.routines import ActionType, RoutineCreateArguments, TriggerType

_WEBHOOK_PATH = re.compile(r"[a-z0-9][a-z0-9_-]{2,63}")
_FARTHEST = timedelta(days=365 * 10)
LONGEST_PROMPT = 20_000
LONGEST_DESCRIPTION = 500
MOST_LISTED = 20
LONGEST_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Moment:
    """When an order is given, and in which zone its times are meant unless it says otherwise."""

    now: datetime
    zone: ZoneInfo


def check_bounds(order: RoutineCreateArguments) -> None:
    """Raises RoutineRefused for what is too long, too many or out of range."""
    prompt, seconds = order.prompt.strip(), (order.cooldown_secs, order.dedup_secs)
    if not prompt or len(prompt) > LONGEST_PROMPT:
        raise RoutineRefused(f"'prompt' may have 1 to {LONGEST_PROMPT} characters.")
    if len(order.description) > LONGEST_DESCRIPTION:
        raise RoutineRefused(f"'description' may have {LONGEST_DESCRIPTION} characters.")
    if max(len(order.context_paths), len(order.tool_permissions), len(order.event_filters)) > MOST_LISTED:
        raise RoutineRefused(f"A list may have {MOST_LISTED} entries.")
    if any(each is not None and not 0 <= each <= LONGEST_SECONDS for each in seconds):
        raise RoutineRefused(f"'cooldown_secs' and 'dedup_secs' go from 0 to {LONGEST_SECONDS}.")


def read_name(name: str) -> str:
    """A routine's name as it is kept. Raises RoutineRefused where nothing is left of it."""
    if kept := plain_name(name):
        return kept
    raise RoutineRefused("The name is empty once signs that format text are left out; give it a few words.")


def read_zone(name: str | None, default: ZoneInfo) -> ZoneInfo:
    """The zone of an IANA name. Raises RoutineRefused for one that is unknown."""
    if name is None or not name.strip():
        return default
    try:
        return ZoneInfo(name.strip())
    except (KeyError, ValueError, OSError) as error:
        raise RoutineRefused(
            f"{name[:60]!r} is no time zone; use an IANA name such as 'Europe/Berlin' or 'UTC'."
        ) from error


def read_trigger(order: RoutineCreateArguments, moment: Moment) -> Trigger:
    """What sets the routine off. Raises RoutineRefused, with what is wrong and what is expected."""
    match order.trigger_type:
        case TriggerType.CRON:
            return _timed(order, moment)
        case TriggerType.EVENT:
            return _on_message(order)
        case TriggerType.SYSTEM_EVENT:
            return _on_system_event(order)
        case TriggerType.MANUAL:
            return Manual()
        case TriggerType.WEBHOOK:
            path = (order.webhook_path or "").strip().strip("/").lower()
            if not _WEBHOOK_PATH.fullmatch(path):
                raise RoutineRefused(
                    "A webhook routine needs 'webhook_path': 3 to 64 letters, digits, hyphens and underscores."
                )
            return Webhook(path)


def read_action(order: RoutineCreateArguments, name: str) -> Action:
    """What the routine does."""
    if order.action_type is ActionType.FULL_JOB:
        return FullJob(name, order.prompt, tools=tuple(order.tool_permissions))
    if order.tool_permissions:
        raise RoutineRefused("'tool_permissions' is for action_type 'full_job': other runs use no tool that asks.")
    return Lightweight(order.prompt, tuple(order.context_paths))


def read_guardrails(order: RoutineCreateArguments, default_cooldown: timedelta) -> Guardrails:
    """How often it may run."""
    cooldown = default_cooldown if order.cooldown_secs is None else timedelta(seconds=order.cooldown_secs)
    window = None if order.dedup_secs is None else timedelta(seconds=order.dedup_secs)
    return Guardrails(cooldown, dedup_window=window)


def _timed(order: RoutineCreateArguments, moment: Moment) -> Cron | Once:
    zone = read_zone(order.timezone, moment.zone)
    schedule, at = (order.schedule or "").strip(), (order.at or "").strip()
    if bool(schedule) == bool(at):
        raise RoutineRefused("A cron routine needs either 'schedule' (again and again) or 'at' (once).")
    if at:
        return Once(_read_at(at, zone, moment.now), zone.key)
    return read_schedule(schedule, zone, moment.now, order.until)


def read_schedule(schedule: str, zone: ZoneInfo, now: datetime, until: str | None = None) -> Cron:
    """A schedule that has a time to come, up to the end of the day `until` in its zone. Raises RoutineRefused."""
    last = _read_until(until, zone) if until and until.strip() else None
    first = cron.check(schedule, now, zone)
    if last is not None and first > last:
        raise RoutineRefused(
            f"Nothing of the schedule is left before 'until' ({last.astimezone(zone):%Y-%m-%d %H:%M}): it would first "
            f"be {first.astimezone(zone):%Y-%m-%d %H:%M}. {_clock(now, zone)}"
        )
    return Cron(" ".join(schedule.split()), zone.key, last)


def _read_at(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    try:
        local = datetime.fromisoformat(text)
    except ValueError as error:
        raise RoutineRefused(
            f"'at' is no time I can read: {text[:40]!r}. Use ISO local time such as '2026-01-31T18:00'. "
            f"{_clock(now, zone)}"
        ) from error
    found = cron.instant(local.replace(fold=0), zone) if local.tzinfo is None else local.astimezone(UTC)
    if found <= now:
        raise RoutineRefused(f"'at' is in the past: {_shown(found, zone)}. {_clock(now, zone)} Name a time to come.")
    if found - now > _FARTHEST:
        raise RoutineRefused(f"'at' is too far ahead: {_shown(found, zone)}. {_clock(now, zone)}")
    return found


def _read_until(text: str, zone: ZoneInfo) -> datetime:
    try:
        last = date.fromisoformat(text.strip()[:10])
    except ValueError as error:
        raise RoutineRefused(f"'until' is no date: {text[:40]!r}. Use ISO such as '2026-06-30'.") from error
    return cron.instant(datetime.combine(last, time(23, 59, 59)), zone)


def _on_message(order: RoutineCreateArguments) -> OnMessage:
    if not order.event_pattern:
        raise RoutineRefused("An event routine needs 'event_pattern', a regular expression for the user's messages.")
    if compile_pattern(order.event_pattern) is None:
        raise RoutineRefused(
            "'event_pattern' is not valid: a regular expression of at most 500 characters is expected, without "
            "look-around and back references."
        )
    pattern = compile_pattern(order.event_pattern)
    if pattern is not None and pattern.search(b"") is not None:
        raise RoutineRefused("'event_pattern' is not valid: it matches every message. Name words to listen for.")
    return OnMessage(order.event_pattern, (order.event_channel or "").strip().lower() or None)


def _on_system_event(order: RoutineCreateArguments) -> OnSystemEvent:
    source, kind = (order.event_source or "").strip(), (order.event_type or "").strip()
    if not source or not kind:
        raise RoutineRefused("A system_event routine needs 'event_source' and 'event_type'.")
    filters = tuple(sorted((name, _filter(value)) for name, value in order.event_filters.items()))
    return OnSystemEvent(source, kind, filters)


def _filter(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _clock(now: datetime, zone: ZoneInfo) -> str:
    return f"It is {_shown(now, zone)} now."


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    return f"{moment.astimezone(zone):%A %Y-%m-%d %H:%M} {zone.key}"
