"""The contract between a platform adapter and the gateway that hosts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, runtime_checkable
from uuid import UUID

from channels.message import Attachment, Draft, EarlierMessage, IncomingMessage, OutgoingFile, OutgoingMessage


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an incoming message once it is durably ours. `thread_id` is None where no thread takes it."""

    thread_id: UUID | None = None
    note: str | None = None  # a short text for a tapped button's toast; adapters without toasts ignore it


Accept = Callable[[IncomingMessage], Awaitable[Accepted]]

OnMigration = Callable[[str, str], Awaitable[None]]
"""Takes the old and the new id of a chat. It may be called with the same pair again."""


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """What a platform can take. `max_text` is in the platform's own unit, measured after rendering."""

    max_text: int
    buttons: bool
    threads: bool


class ChannelState(StrEnum):
    """How a connection is, for readiness and `/status`."""

    STARTING = "starting"
    CONNECTED = "connected"
    DEGRADED = "degraded"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ChannelHealth:
    """A state and, where it is not good, the reason in words an operator understands."""

    state: ChannelState
    reason: str = ""


class Uncertain(StrEnum):
    """What to do with a message whose sending was cut off by a crash."""

    SENT = "sent"
    RESEND = "resend"
    SKIP = "skip"


class Delivery(Protocol):
    """The sending of one `OutgoingMessage`, part by part, so that a retry does not repeat what has arrived.

    The parts of a message are those of its text, then its files, each of them one.
    """

    @property
    def sent(self) -> tuple[str, ...]:
        """Platform ids of the parts that arrived, in order."""
        ...

    async def record(self, platform_id: str) -> None:
        """Note durably that one more part, not the last, has arrived."""
        ...

    async def read_file(self, file: OutgoingFile) -> bytes:
        """The content of a file of the message; raises `Rejected` where it is no longer there."""
        ...


class Channel(Protocol):
    """A connection to one platform.

    `run` connects, hands every message meant for us to `accept`, and reconnects by itself after passing faults; it
    confirms a delivery to the platform only after `accept` has returned. A person's edit of a message is handed in too,
    marked `is_edit` and with the id of that message. It ends by cancellation, or by raising
    `Unauthorized` (final) or `Unavailable` (the supervisor starts it again).

    `send` renders, splits and sends one message, waits until connected, starts after the parts in `delivery.sent`, and
    returns the platform id of the last part. It raises `ChannelError`. The rendering of a message is deterministic.
    In the place of a file that the platform does not take stands a line that says so (`channels.files`), which counts
    as that part: the rest of the message arrives.

    `show` is sugar: the typing sign, or the text so far. It never raises `ChannelError`, drops what it may not show
    now, and returns the platform id of the visible draft if there is one.

    `settle` tells what to do with a message whose sending a crash cut off.

    `earlier` gives at most `limit` messages said before one in its thread, oldest first: other people's words. It takes
    a few seconds at most and never raises `ChannelError`: where there is no thread, or no way to read it, it is empty.

    `fetch` reads a file that came with a message. It raises `Rejected` for what is too large or cannot be had, and
    `Unavailable` for what may be had later.
    """

    name: ClassVar[str]
    limits: ClassVar[ChannelLimits]

    @property
    def health(self) -> ChannelHealth: ...

    async def run(self, accept: Accept) -> None: ...

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str: ...

    async def show(self, draft: Draft) -> str | None: ...

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain: ...

    async def open_private_chat(self, user_id: str) -> str:
        """The chat id of the private chat with this user; raises `Rejected` where there is none."""
        ...

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]: ...

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes: ...


@runtime_checkable
class ReportsMigration(Protocol):
    """A channel on which a chat can get a new id. It awaits `on_migration`, if set, before it confirms the news."""

    on_migration: OnMigration | None


@runtime_checkable
class CatchesUp(Protocol):
    """A channel whose platform tells a new process nothing of what it missed.

    `last_seen` changes with each message: chat ids, and by each a text that only the channel reads. What a process kept
    of it is given to `resume_after` of the next one, before `run`.
    """

    @property
    def last_seen(self) -> Mapping[str, str]: ...

    def resume_after(self, last_seen: Mapping[str, str]) -> None: ...
