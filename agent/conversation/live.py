"""What a running turn does, while it does it: for drafts, typing signs and the page. Losing an event loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from agent.model.ids import ThreadId
from channels.message import Address


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Which reply is being written, and where. `reply_id` is the id the finished answer will have."""

    thread: ThreadId
    reply_id: UUID
    address: Address
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """A turn runs."""

    place: TurnPlace


@dataclass(frozen=True, slots=True)
class TextSoFar:
    """More of the answer has arrived. `render` gives all of it that may be shown; call it only when it will be."""

    place: TurnPlace
    render: Callable[[], str]


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool runs."""

    place: TurnPlace
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool is done. `preview` is a short, screened piece of its output."""

    place: TurnPlace
    call_id: str
    name: str
    ok: bool
    preview: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn rests; its replies are in the outbox."""

    place: TurnPlace


LiveEvent = TurnBegan | TextSoFar | ToolBegan | ToolEnded | TurnEnded


class Surface(Protocol):
    """Somewhere live events are shown. Taking one must neither block nor raise."""

    def publish(self, event: LiveEvent) -> None: ...

    async def rest(self, place: TurnPlace) -> None:
        """Show nothing more of this reply; returns when what is under way has ended, so that the answer can follow."""
        ...


class Live:
    """Hands events to every surface, at once and without waiting."""

    def __init__(self) -> None:
        self._surfaces: list[Surface] = []

    def attach(self, surface: Surface) -> None:
        self._surfaces.append(surface)

    def publish(self, event: LiveEvent) -> None:
        for surface in self._surfaces:
            surface.publish(event)

    async def rest(self, place: TurnPlace) -> None:
        for surface in self._surfaces:
            await surface.rest(place)
