"""What the conversation needs from what lies above it, as narrow as it uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.llm.messages import ChatMessage
from agent.model.ids import ThreadId
from agent.store.inbox import Lane
from agent.store.outbox import Parcel
from channels.message import EarlierMessage, IncomingMessage


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


class Surroundings(Protocol):
    """Reads what was said in a thread before the bot was called into it."""

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """Other people's words, oldest first; empty where there is no thread or no way to read it. Does not raise."""
        ...


class Deliveries(Protocol):
    """Takes what was committed to the outbox."""

    def offer(self, parcel: Parcel) -> None: ...
