"""Questions before risky calls: what is asked, who may answer, and what an answer does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from agent.model.ids import ApprovalId, ThreadId, TurnId, UserId
from agent.model.tool_call import JsonValue
from channels.message import Address, ChatType


class ApprovalState(StrEnum):
    """What became of a question."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ConsentPlace:
    """Where an "always" holds: in a person's private chats, or in the one shared chat where it was said."""

    name: str

    @classmethod
    def of(cls, address: Address, chat_type: ChatType) -> ConsentPlace:
        return cls(f"{address.channel}:{address.chat_id}" if chat_type.is_shared else _PRIVATE)

    @property
    def is_shared(self) -> bool:
        """Whether others read along there."""
        return self.name != _PRIVATE


_PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A question about one call.

    `description` and `display` say what will run, secrets redacted. `may_be_always` is False for calls that are asked
    every time.
    """

    id: ApprovalId
    thread: ThreadId
    turn: TurnId
    call_id: str
    tool: str
    description: str
    display: Mapping[str, JsonValue]
    requested_by: UserId
    channel: str
    place: ConsentPlace
    may_be_always: bool
    created_at: datetime
    expires_at: datetime
    state: ApprovalState = ApprovalState.OPEN


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer. `names` is the id a button carried; a typed word names none."""

    user: UserId
    channel: str
    approved: bool
    always: bool
    names: UUID | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a question, and what it had shown: nothing else may run on its account."""

    state: ApprovalState
    display: Mapping[str, JsonValue]

    def releases(self, display: Mapping[str, JsonValue]) -> bool:
        """Whether a call that shows itself so was allowed."""
        return self.state is ApprovalState.APPROVED and self.display == json.loads(json.dumps(dict(display)))


@dataclass(frozen=True, slots=True)
class Decided:
    """The question is settled. `remember`: the tool need not be asked again here."""

    state: ApprovalState
    remember: bool


@dataclass(frozen=True, slots=True)
class NotDecided:
    """The answer changes nothing, and why, in words for the one who gave it."""

    reason: str


TRUSTED_CHANNELS = frozenset({"web", "console"})
"""The operator's own surfaces: an answer given there may settle a question shown elsewhere."""


def decide(pending: PendingApproval, answer: Answer, now: datetime) -> Decided | NotDecided:
    """What `answer` does to `pending`. Only the person whose request it is may answer, and only where it was asked."""
    if answer.names is not None and answer.names != pending.id:
        return NotDecided("That question is no longer open; nothing was run.")
    if answer.user != pending.requested_by:
        return NotDecided("Only the person who asked for it can answer this question.")
    if answer.channel != pending.channel and answer.channel not in TRUSTED_CHANNELS:
        return NotDecided("Please answer where the question was asked.")
    match pending.state:
        case ApprovalState.APPROVED | ApprovalState.DENIED:
            return NotDecided("That question is already answered.")
        case ApprovalState.CANCELLED:
            return NotDecided("That question was cancelled; nothing was run.")
        case ApprovalState.EXPIRED:
            return NotDecided(_EXPIRED)
        case ApprovalState.OPEN if now >= pending.expires_at:
            return NotDecided(_EXPIRED)
        case ApprovalState.OPEN:
            return _decided(pending, answer)
        case unreachable:
            assert_never(unreachable)


_EXPIRED = "That question has expired; nothing was run."


def _decided(pending: PendingApproval, answer: Answer) -> Decided:
    if not answer.approved:
        return Decided(ApprovalState.DENIED, remember=False)
    return Decided(ApprovalState.APPROVED, remember=answer.always and pending.may_be_always)
