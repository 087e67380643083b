"""Identifiers. Distinct types, so that one kind never stands in for another."""

from __future__ import annotations

import json
from typing import NewType
from uuid import UUID, uuid5

from channels.message import ConversationKey

SessionId = NewType("SessionId", UUID)
ThreadId = NewType("ThreadId", UUID)
TurnId = NewType("TurnId", UUID)
ApprovalId = NewType("ApprovalId", UUID)
JobId = NewType("JobId", UUID)
RoutineId = NewType("RoutineId", UUID)
UserId = NewType("UserId", str)
"""`channel:platform id`, or `OPERATOR` for the one person who runs the bot, wherever they write from."""

OPERATOR = UserId("operator")

_NAMESPACE = UUID("6f1c2d0e-5a43-4f0b-9a53-0d6f5b1f7c11")


def user_id(channel: str, platform_id: str, *, is_operator: bool) -> UserId:
    """The user behind a platform id. Numbers of two platforms may coincide, so the channel is part of it."""
    return OPERATOR if is_operator else UserId(f"{channel}:{platform_id}")


def session_id(user: UserId) -> SessionId:
    """The one session of a user."""
    return SessionId(_derive("session", user))


def thread_id(key: ConversationKey, generation: int) -> ThreadId:
    """The thread of a conversation key; `/new` counts the generation up. No look-up is needed to route."""
    return ThreadId(_derive("thread", *key, str(generation)))


def turn_id(thread: ThreadId, first_seq: int) -> TurnId:
    """The turn that begins with this inbox message: a runner that takes over finds the same turn."""
    return TurnId(_derive("turn", str(thread), str(first_seq)))


def reply_id(turn: UUID, part: str) -> UUID:
    """The outbox id of one reply of a turn, so that a reply exists once."""
    return _derive("reply", str(turn), part)


def approval_id(turn: TurnId, call_id: str) -> ApprovalId:
    """The question about one call of a turn."""
    return ApprovalId(_derive("approval", str(turn), call_id))


def run_id(routine: RoutineId, due: str) -> UUID:
    """The run of a routine for one due time: whoever claims it finds the same one."""
    return _derive("run", str(routine), due)


def job_id(*wish: str) -> JobId:
    """The job of one wish: asked for twice, as after a restart, it is the same one."""
    return JobId(_derive("job", *wish))


def _derive(*parts: str) -> UUID:
    # A JSON list keeps the borders between the parts: ("a:b", "c") and ("a", "b:c") differ.
    return uuid5(_NAMESPACE, json.dumps(parts, ensure_ascii=False))
