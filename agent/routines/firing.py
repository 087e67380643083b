"""Sets runs off: at due times, by a person's words, by events, by hand. Each is a function of one transaction.

A run begins as a row that waits: from then on it is as durable as the transaction, and exists once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from agent.errors import RoutineRefused
from agent.model.ids import UserId
from agent.model.routine import Cron, Once, OnMessage, OnSystemEvent, Routine, Run
from agent.model.tool_call import JsonValue
from agent.routines.guardrails import Activity, Block, Blocked, event_hash, may_fire
from agent.routines.timetable import ON_TIME, settle
from agent.skills.patterns import Pattern, compile_pattern
from agent.store import routines
from agent.store.base import Transaction
from channels.message import IncomingMessage

log = structlog.get_logger(__name__)

MADE_UP_AT_ONCE = 2
"""How many late runs begin within `Rules.interval`: after a long pause they are spread out."""
_MOST_PATTERNS = 256
_LONGEST_SEARCHED = 20_000  # characters of a message that a pattern is looked for in


@dataclass(frozen=True, slots=True)
class Fired:
    """What one look at the time table set off."""

    runs: tuple[Run, ...]
    overdue: tuple[tuple[Routine, str], ...] = ()
    """Single times that nothing made up for, and why: their owners wait for them."""
    made_up: int = 0
    """How many of the runs are late."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's settings for setting runs off."""

    capacity: int
    interval: timedelta


# -- the time table ------------------------------------------------------------------------------------------------
def fire_due(
    tx: Transaction, seen: Iterable[Routine], now: datetime, rules: Rules, most_late: int = MADE_UP_AT_ONCE
) -> Fired:
    """Claim the due times of these routines, each for one caller only; at most so many that are late."""
    runs: list[Run] = []
    overdue: list[tuple[Routine, str]] = []
    late = 0
    open_runs = routines.count_open(tx)
    for before in seen:
        routine = routines.get(tx, before.id)  # it may have changed since it was read
        if routine is None or not routine.enabled or routine.wake_at is None or routine.wake_at > now:
            continue
        if routine.due_at is None or not isinstance(routine.plan.trigger, Cron | Once):
            continue
        is_late = now - routine.due_at > max(ON_TIME, rules.interval * 2)
        if open_runs >= rules.capacity or (is_late and late >= most_late):
            continue  # it stays due
        claimed = _claim_due(tx, routine, routine.plan.trigger, now, rules, overdue)
        if claimed is not None:
            runs.append(claimed)
            open_runs += 1
            late += is_late
    return Fired(tuple(runs), tuple(overdue), late)


def _claim_due(
    tx: Transaction,
    routine: Routine,
    trigger: Cron | Once,
    now: datetime,
    rules: Rules,
    overdue: list[tuple[Routine, str]],
) -> Run | None:
    assert routine.due_at is not None  # the caller's condition
    cooldown = routine.plan.guardrails.cooldown
    settled = settle(trigger, routine.due_at, now, cooldown)
    for missed in settled.missed:
        routines.record_missed(tx, routine.id, missed.at, missed.reason, now)
        if isinstance(trigger, Once):
            overdue.append((routine, missed.reason))
    if settled.fire is None:
        routines.advance(tx, routine.id, settled.then, settled.then, routine.last_run_at)
        return None
    activity = Activity(routine.last_run_at, routines.count_open(tx, routine.id), capacity=rules.capacity)
    if (blocked := may_fire(routine.plan.guardrails, activity, now)) is not None:
        wake_at = blocked.until or now + rules.interval
        routines.advance(tx, routine.id, settled.fire, wake_at, routine.last_run_at)
        return None
    run = routines.claim(tx, routine.id, settled.fire, "schedule", _lateness(trigger, settled.fire, now))
    last_run = settled.fire if now - settled.fire <= ON_TIME else now
    routines.advance(tx, routine.id, settled.then, settled.then, last_run)
    return run


def _lateness(trigger: Cron | Once, due: datetime, now: datetime) -> str:
    if now - due <= ON_TIME:
        return ""
    return f"This was due at {due:%Y-%m-%d %H:%M} UTC and is made up for now, since the bot was not running."


# -- what a person writes ---------------------------------------------------------------------------------------------
class MessageTriggers:
    """Finds the routine that listens for a message. Its patterns are compiled once; its routines are read each time."""

    def __init__(self, rules: Rules, nudge: Callable[[], None]) -> None:
        self._rules = rules
        self._nudge = nudge
        self._patterns: OrderedDict[str, Pattern | None] = OrderedDict()

    def take(self, tx: Transaction, user: UserId, message: IncomingMessage, now: datetime) -> bool:
        """Whether a routine of this person listens for these words and may run now. Its run then waits to begin, and
        nothing else answers them.

        A routine that was made in a shared chat hears only what is said there. Messages with files are for nobody.
        """
        if message.attachments:
            return False
        for routine in routines.listening(tx, user):
            if self._hears(routine, message) and self._may_fire(tx, routine, message, now):
                fingerprint = event_hash(message.text)
                routines.claim_now(tx, routine.id, now, "message", message.text, fingerprint)
                routines.note_run(tx, routine.id, now)
                tx.after_commit(self._nudge)
                log.info("routine_heard_message", routine=str(routine.id))
                return True
        return False

    def _may_fire(self, tx: Transaction, routine: Routine, message: IncomingMessage, now: datetime) -> bool:
        return _blocked(tx, routine, now, self._rules, event_hash(message.text)) is None

    def _hears(self, routine: Routine, message: IncomingMessage) -> bool:
        trigger, origin = routine.plan.trigger, routine.plan.origin
        if not isinstance(trigger, OnMessage):
            return False
        here = message.address
        if trigger.channel is not None and trigger.channel.lower() != here.channel.lower():
            return False
        if origin.chat_type.is_shared and (origin.address.channel, origin.address.chat_id) != (
            here.channel,
            here.chat_id,
        ):
            return False
        pattern = self._compiled(trigger.pattern)
        text = message.text[:_LONGEST_SEARCHED].encode("utf-8", "replace")
        return pattern is not None and pattern.search(text) is not None

    def _compiled(self, source: str) -> Pattern | None:
        if source not in self._patterns:
            self._patterns[source] = compile_pattern(source)
            if len(self._patterns) > _MOST_PATTERNS:
                self._patterns.popitem(last=False)
        return self._patterns[source]


# -- events, by hand and from other programs --------------------------------------------------------------------------
def fire_system_event(
    tx: Transaction,
    user: UserId,
    source: str,
    event_type: str,
    payload: Mapping[str, JsonValue],
    now: datetime,
    rules: Rules,
) -> Sequence[Run]:
    """Set off a person's routines that wait for this event, as far as they may run now."""
    found: list[Run] = []
    fingerprint = event_hash(source.lower(), event_type.lower(), payload)
    for routine in routines.for_system_event(tx, user, source):
        trigger = routine.plan.trigger
        if not isinstance(trigger, OnSystemEvent) or not matches(trigger, source, event_type, payload):
            continue
        if _blocked(tx, routine, now, rules, fingerprint) is None:
            detail = json.dumps({"source": source, "type": event_type, "payload": payload}, ensure_ascii=False)
            found.append(routines.claim_now(tx, routine.id, now, "system event", detail, fingerprint))
            routines.note_run(tx, routine.id, now)
    return found


def matches(trigger: OnSystemEvent, source: str, event_type: str, payload: Mapping[str, JsonValue]) -> bool:
    """Whether an event is the one a routine waits for. Only texts, numbers and truth values can match a filter."""
    if (trigger.source.lower(), trigger.event_type.lower()) != (source.lower(), event_type.lower()):
        return False
    return all(_text(payload.get(name)) == wanted.lower() for name, wanted in trigger.filters)


def _text(value: JsonValue) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value).lower()
        case _:
            return None


def fire_by_hand(tx: Transaction, routine: Routine, now: datetime, cause: str = "by hand") -> Run:
    """Set off a routine because somebody says so: without regard to its cooldown. Raises RoutineRefused."""
    if not routine.enabled:
        raise RoutineRefused(f"The routine {routine.name!r} is disabled. It was not run; enable it first.")
    if routines.count_open(tx, routine.id) >= routine.plan.guardrails.max_concurrent:
        raise RoutineRefused(f"The routine {routine.name!r} is running already; it was not started again.")
    run = routines.claim_now(tx, routine.id, now, cause)
    routines.note_run(tx, routine.id, now)
    return run


def fire_webhook(tx: Transaction, path: str, body: str, now: datetime, rules: Rules) -> Blocked | Run | None:
    """Set off the routine behind a path; None if there is none, or why it may not run now."""
    routine = routines.for_webhook(tx, path)
    if routine is None:
        return None
    fingerprint = event_hash(path, body)
    if (blocked := _blocked(tx, routine, now, rules, fingerprint)) is not None:
        return blocked
    routines.note_run(tx, routine.id, now)
    return routines.claim_now(tx, routine.id, now, "webhook", body, fingerprint)


def _blocked(tx: Transaction, routine: Routine, now: datetime, rules: Rules, fingerprint: str) -> Blocked | None:
    window = routine.plan.guardrails.dedup_window
    same = None if window is None else routines.same_event_at(tx, routine.id, fingerprint, now - window)
    blocked = may_fire(
        routine.plan.guardrails,
        Activity(
            routine.last_run_at, routines.count_open(tx, routine.id), same, routines.count_open(tx), rules.capacity
        ),
        now,
    )
    if blocked is not None and blocked.reason is not Block.DUPLICATE:
        log.info("routine_not_fired", routine=str(routine.id), reason=blocked.reason.name.lower())
    return blocked
