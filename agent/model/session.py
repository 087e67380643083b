"""Threads and turns: the states they can be in, and what may happen in each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent.errors import InvalidTransition
from agent.model.history import HistoryView
from agent.model.ids import SessionId, ThreadId, TurnId, UserId
from channels.message import ChatType, ConversationKey


class ThreadState(StrEnum):
    """What a conversation is doing."""

    IDLE = "idle"
    PROCESSING = "processing"
    AWAITING_APPROVAL = "awaiting_approval"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"


class BusyMode(StrEnum):
    """What a message does while a turn runs: waits, joins the running turn, or ends it and takes its place."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class ThreadEvent(StrEnum):
    """What can happen to a conversation."""

    INPUT = "input"
    APPROVAL_NEEDED = "approval needed"
    SETTLED = "settled"
    INTERRUPTED = "interrupted"
    APPROVED = "approved"
    DENIED = "denied"
    CLOSED = "closed"
    REOPENED = "reopened"


class TurnState(StrEnum):
    """How far one request has come. Messages in the inbox that no turn has taken are pending and have no row."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def is_open(self) -> bool:
        return self in (TurnState.RUNNING, TurnState.WAITING)


_S, _E = ThreadState, ThreadEvent
_TRANSITIONS = {
    (_S.IDLE, _E.INPUT): _S.PROCESSING,
    (_S.INTERRUPTED, _E.INPUT): _S.PROCESSING,
    (_S.PROCESSING, _E.APPROVAL_NEEDED): _S.AWAITING_APPROVAL,
    (_S.PROCESSING, _E.SETTLED): _S.IDLE,
    (_S.PROCESSING, _E.INTERRUPTED): _S.INTERRUPTED,
    (_S.AWAITING_APPROVAL, _E.APPROVED): _S.PROCESSING,
    (_S.AWAITING_APPROVAL, _E.DENIED): _S.IDLE,
    (_S.AWAITING_APPROVAL, _E.INTERRUPTED): _S.INTERRUPTED,
    (_S.IDLE, _E.CLOSED): _S.COMPLETED,
    (_S.INTERRUPTED, _E.CLOSED): _S.COMPLETED,
    (_S.AWAITING_APPROVAL, _E.CLOSED): _S.COMPLETED,
    (_S.COMPLETED, _E.REOPENED): _S.IDLE,
}


def next_state(state: ThreadState, event: ThreadEvent) -> ThreadState:
    """The state after `event`. Raises InvalidTransition where the table of the design forbids it."""
    try:
        return _TRANSITIONS[state, event]
    except KeyError:
        raise InvalidTransition(state, event) from None


@dataclass(frozen=True, slots=True)
class Session:
    """One person, wherever they write from."""

    id: SessionId
    user: UserId
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation. Its history is rows of its own and is never part of this value.

    `epoch` fences runners: a commit with an older epoch is refused. `entry_count` messages are stored, of which `view`
    tells the present history. `model` and `busy_mode` are this thread's own choices, None for the settings'.
    """

    id: ThreadId
    session: SessionId
    user: UserId
    key: ConversationKey
    generation: int
    chat_type: ChatType
    state: ThreadState
    epoch: int
    turn_count: int
    entry_count: int
    view: HistoryView
    model: str | None
    busy_mode: str | None
    title: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply. `number` counts from 0 within the thread."""

    id: TurnId
    thread: ThreadId
    number: int
    state: TurnState
    started_at: datetime
    stop_requested: bool = False
