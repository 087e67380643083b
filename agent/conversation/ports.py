"""What the conversation needs from what lies above it, as narrow as it uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.conversation.prompt import ActiveSkill
from agent.hooks.base import InboundEvent, OutboundEvent, Passed, ResponseEvent, Stopped
from agent.llm.messages import ChatMessage
from agent.model.ids import ThreadId, UserId
from agent.store.base import Transaction
from agent.store.inbox import Lane
from agent.store.outbox import Parcel
from channels.message import Address, EarlierMessage, IncomingMessage


@dataclass(frozen=True, slots=True)
class ChosenSkill:
    """A skill with its text as the model reads it."""

    skill: ActiveSkill
    text: str


class Journal(Protocol):
    """Makes a turn's progress durable; each call raises Fenced if the runner was overtaken."""

    async def begin(self, messages: Sequence[ChatMessage], calls: Sequence[str]) -> None:
        """Before effects: all the turn has added so far, and which calls are about to run."""
        ...

    async def allows(self, tool: str) -> bool:
        """Whether the person's "always" for this tool stands here at this moment: it may be revoked during a turn."""
        ...

    async def take_more(self, messages: Sequence[ChatMessage]) -> str | None:
        """Take what the person has written meanwhile into this turn, durably; None if there is nothing."""
        ...

    async def record(self, messages: Sequence[ChatMessage]) -> None:
        """After effects: all the turn has added so far, their results included."""
        ...


class TurnSignals(Protocol):
    """Starts and stops the work of a thread. Both are hints given after a commit: the rows decide."""

    def wake(self, thread: ThreadId, lane: Lane) -> None: ...

    def stop(self, thread: ThreadId) -> None: ...


class Skills(Protocol):
    """Texts that teach the agent a task, chosen by what a person says."""

    async def for_message(self, text: str) -> Sequence[ChosenSkill]:
        """The skills that fit a message, best first, within the operator's bounds. Does not raise."""
        ...

    async def is_named(self, text: str) -> bool:
        """Whether a message begins with `/` and the name of a skill. Does not raise."""
        ...

    def narrowed(self, active: Sequence[ActiveSkill]) -> frozenset[str] | None:
        """The only tools that may be used beside these skills; None: all."""
        ...


class Hooks(Protocol):
    """What the operator and plug-ins put in the way of messages. Nothing of it raises."""

    @property
    def may_change_messages(self) -> bool:
        """Whether a person's words could be changed or refused: they then join no turn that runs."""
        ...

    @property
    def may_change_replies(self) -> bool:
        """Whether a reply could be changed or withheld: it is then not shown while it is written."""
        ...

    def session_started(self, user: UserId, session: str) -> None:
        """Told after the commit; waits for nothing."""
        ...

    def session_ended(self, user: UserId, session: str) -> None: ...

    async def inbound(self, event: InboundEvent) -> Passed | Stopped: ...

    async def response(self, event: ResponseEvent) -> Passed | Stopped: ...

    async def outbound(self, event: OutboundEvent) -> Passed | Stopped: ...


class Surroundings(Protocol):
    """Reads what was said in a thread before the bot was called into it."""

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """Other people's words, oldest first; empty where there is no thread or no way to read it. Does not raise."""
        ...


class MessageTriggers(Protocol):
    """What listens for a person's words and acts in the place of an answer."""

    def take(self, tx: Transaction, user: UserId, message: IncomingMessage, now: datetime) -> bool:
        """Whether something of this person's takes these words over; what it does is then as durable as `tx`."""
        ...


class Deliveries(Protocol):
    """Takes what was committed to the outbox."""

    def offer(self, parcel: Parcel) -> None: ...


class CredentialStored(Protocol):
    """Told of each credential that was handed over, after the commit; `address` is where. Does not raise."""

    def __call__(self, user: UserId, name: str, address: Address, /) -> None: ...
