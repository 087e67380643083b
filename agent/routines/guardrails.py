"""Whether a routine may run now. Pure: the rows are read by the caller, in the transaction that acts on the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent.model.routine import Guardrails
from agent.model.tool_call import JsonValue


class Block(StrEnum):
    """Why a routine may not run now."""

    COOLDOWN = "it ran a moment ago and is resting"
    CONCURRENT = "it is running already"
    DUPLICATE = "the same event came a moment ago"
    CAPACITY = "as many routines as may are running"


@dataclass(frozen=True, slots=True)
class Activity:
    """What a routine has been doing. `open_runs` wait or run; `same_event_at`: the last run for an equal event.

    `running` and `capacity` are of all routines together.
    """

    last_run_at: datetime | None
    open_runs: int = 0
    same_event_at: datetime | None = None
    running: int = 0
    capacity: int = 1


@dataclass(frozen=True, slots=True)
class Blocked:
    """It may not. `until`: when this reason ends, where that is known."""

    reason: Block
    until: datetime | None = None


def may_fire(guardrails: Guardrails, activity: Activity, now: datetime) -> Blocked | None:
    """None if a routine may run now, else the first reason against it."""
    if activity.running >= activity.capacity:
        return Blocked(Block.CAPACITY)
    last = activity.last_run_at
    if last is not None and now - last < guardrails.cooldown:
        return Blocked(Block.COOLDOWN, last + guardrails.cooldown)
    if activity.open_runs >= guardrails.max_concurrent:
        return Blocked(Block.CONCURRENT)
    window, same = guardrails.dedup_window, activity.same_event_at
    if window is not None and same is not None and now - same < window:
        return Blocked(Block.DUPLICATE, same + window)
    return None


def event_hash(*parts: str | Mapping[str, JsonValue]) -> str:
    """A fingerprint of what came with an event: equal contents have the same."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
