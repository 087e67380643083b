"""Routines: what the agent does by itself, when it does it, and what became of each time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal
from uuid import UUID

from agent.model.ids import OPERATOR, JobId, RoutineId, UserId
from channels.message import Address, ChatType

LONGEST_NAME = 128
MOST_FAILURES = 5
"""Failures in a row after which a routine is switched off."""


# -- when --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Cron:
    """Whenever the wall clock in `zone` matches `expression`, `until` an instant if there is one."""

    expression: str
    zone: str
    until: datetime | None = None
    kind: Literal["cron"] = "cron"


@dataclass(frozen=True, slots=True)
class Once:
    """One time. `zone` is where its owner reads it."""

    at: datetime
    zone: str
    kind: Literal["once"] = "once"


@dataclass(frozen=True, slots=True)
class OnMessage:
    """When its owner writes something that `pattern` is found in; on any channel if `channel` is None."""

    pattern: str
    channel: str | None = None
    kind: Literal["event"] = "event"


@dataclass(frozen=True, slots=True)
class OnSystemEvent:
    """When an event of this source and type is told whose payload has these top-level values. All compare as text
    without regard to case."""

    source: str
    event_type: str
    filters: tuple[tuple[str, str], ...] = ()
    kind: Literal["system_event"] = "system_event"


@dataclass(frozen=True, slots=True)
class Manual:
    """When its owner says so."""

    kind: Literal["manual"] = "manual"


@dataclass(frozen=True, slots=True)
class Webhook:
    """When another program posts to `path` with the right signature."""

    path: str
    kind: Literal["webhook"] = "webhook"


Trigger = Cron | Once | OnMessage | OnSystemEvent | Manual | Webhook


# -- what --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Lightweight:
    """One question to the model, with a few tools that never ask. `context_paths` are documents it is told."""

    prompt: str
    context_paths: tuple[str, ...] = ()
    kind: Literal["lightweight"] = "lightweight"


@dataclass(frozen=True, slots=True)
class FullJob:
    """A background job. `tools` are those it may use without asking although they always ask."""

    title: str
    description: str
    max_iterations: int = 25
    tools: tuple[str, ...] = ()
    kind: Literal["full_job"] = "full_job"


Action = Lightweight | FullJob


@dataclass(frozen=True, slots=True)
class Guardrails:
    """What keeps a routine from running too often. `dedup_window` None: equal events each count."""

    cooldown: timedelta
    max_concurrent: int = 1
    dedup_window: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Notify:
    """Of which ends its owner is told. `address` None: where the routine was made."""

    address: Address | None = None
    on_attention: bool = True
    on_failure: bool = True
    on_success: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The conversation in which a routine was made. `sender` is the platform's id of its owner there, if known."""

    address: Address
    chat_type: ChatType
    sender: str
    zone: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a routine does and when, as its owner ordered it."""

    trigger: Trigger
    action: Action
    guardrails: Guardrails
    notify: Notify
    origin: Origin


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine as it stands. `due_at`: the next due time, for those that have one. `wake_at`: when to look at it, a
    little later than it is due where it has to rest first."""

    id: RoutineId
    user: UserId
    name: str
    description: str
    enabled: bool
    plan: Plan
    due_at: datetime | None
    wake_at: datetime | None
    last_run_at: datetime | None
    run_count: int
    consecutive_failures: int
    created_at: datetime
    updated_at: datetime

    @property
    def is_operators(self) -> bool:
        return self.user == OPERATOR

    @property
    def is_finished(self) -> bool:
        """Whether it has a time table and no time on it is left."""
        return isinstance(self.plan.trigger, Cron | Once) and self.due_at is None


class RunStatus(StrEnum):
    """How far one run is. A `MISSED` one never began; its summary says why."""

    PENDING = "pending"
    RUNNING = "running"
    OK = "ok"
    ATTENTION = "attention"
    FAILED = "failed"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Run:
    """One time. The due time is its key: what is not on a time table is due when it was asked for.

    `cause` says in a word what set it off; `detail` is what came with that: a person's words, an event's payload.
    """

    id: UUID
    routine: RoutineId
    due_at: datetime
    cause: str
    status: RunStatus
    detail: str = ""
    summary: str = ""
    job: JobId | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a run. A `FAILED` one counts towards switching the routine off, a `MISSED` one does not."""

    status: RunStatus
    summary: str = ""


def plain_name(name: str) -> str:
    """A routine's name as data: one line, nothing that formats, bounded."""
    kept = re.sub(r"[`*_\[\]<>\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", " ", name)
    return " ".join(kept.split())[:LONGEST_NAME]


def state_path(name: str) -> str:
    """The document in which a routine keeps what it wants to know the next time."""
    folder = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:60] or "routine"
    return f"routines/{folder}/state.md"
