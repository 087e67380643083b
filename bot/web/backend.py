"""What the page's API asks of the agent's store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from channels.message import Address, OutgoingFile


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """One of the operator's threads. `conversation` is the page's chat id: events name it."""

    id: UUID
    conversation: str
    title: str
    created_at: datetime
    updated_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A tool call of a turn. `ok` is None while its outcome is not known."""

    name: str
    ok: bool | None


@dataclass(frozen=True, slots=True)
class SentView:
    """What the agent sent by itself during a turn, ahead of its reply."""

    message_id: UUID
    text: str
    files: tuple[OutgoingFile, ...] = ()


@dataclass(frozen=True, slots=True)
class FileView:
    """A file of a message, with its content."""

    file: OutgoingFile
    data: bytes


@dataclass(frozen=True, slots=True)
class TurnView:
    """A request and its reply. `user_input` is None where the bot spoke by itself.

    `message_id` is the id of the reply's `OutgoingMessage`: an event that carries the same reply is not shown twice.
    """

    number: int
    user_input: str | None
    response: str | None
    state: str
    tool_calls: tuple[ToolCallView, ...] = ()
    message_id: UUID | None = None
    messages: tuple[SentView, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingApprovalView:
    """An open question. `parameters` is what will run, uncut, secrets redacted."""

    request_id: UUID
    tool_name: str
    description: str
    parameters: str
    may_always: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """A thread as the page shows it, oldest turn first."""

    thread_id: UUID
    conversation: str
    turns: tuple[TurnView, ...]
    pending_approval: PendingApprovalView | None = None


class WebBackend(Protocol):
    """The operator's threads that were held on the page. Each method raises `NotYours` for any other thread."""

    async def threads(self) -> list[ThreadSummary]:
        """Newest first."""
        ...

    async def history(self, thread_id: UUID | None) -> History:
        """A thread; None: the present thread of the page's main conversation."""
        ...

    async def file(self, digest: str) -> FileView:
        """A file of a message that went to the page; raises `NotYours` for any other."""
        ...

    async def address_of(self, thread_id: UUID) -> Address:
        """The place whose messages reach this thread. A thread that its place has left is bound to it again."""
        ...
