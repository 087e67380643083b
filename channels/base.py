"""The contract between a platform adapter and the gateway that hosts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol
from uuid import UUID

from channels.message import Draft, IncomingMessage, OutgoingMessage


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an incoming message once it is durably ours. `thread_id` is None where no thread takes it."""

    thread_id: UUID | None = None
    note: str | None = None  # a short text for a tapped button's toast; adapters without toasts ignore it


Accept = Callable[[IncomingMessage], Awaitable[Accepted]]


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
    """The sending of one `OutgoingMessage`, part by part, so that a retry does not repeat what has arrived."""

    @property
    def sent(self) -> tuple[str, ...]:
        """Platform ids of the parts that arrived, in order."""
        ...

    async def record(self, platform_id: str) -> None:
        """Note durably that one more part, not the last, has arrived."""
        ...


class Channel(Protocol):
    """A connection to one platform.

    `run` connects, hands every message meant for us to `accept`, and reconnects by itself after passing faults; it
    confirms a delivery to the platform only after `accept` has returned. It ends by cancellation, or by raising
    `Unauthorized` (final) or `Unavailable` (the supervisor starts it again).

    `send` renders, splits and sends one message, waits until connected, starts after the parts in `delivery.sent`, and
    returns the platform id of the last part. It raises `ChannelError`. The rendering of a message is deterministic.

    `show` is sugar: the typing sign, or the text so far. It never raises `ChannelError`, drops what it may not show now,
    and returns the platform id of the visible draft if there is one.

    `settle` tells what to do with a message whose sending a crash cut off.
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
