"""What a hook is: a named function at certain points of the message path, which may look, change or refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from agent.model.ids import UserId
from agent.model.tool_call import JsonValue

DEFAULT_PRIORITY = 100
DEFAULT_TIMEOUT = timedelta(seconds=5)
SOURCE_MARK = "::"
"""Stands in a hook's name between the file it comes from and its own name there."""


class Point(StrEnum):
    """Where hooks run. At the ends of a session nothing can be changed."""

    BEFORE_INBOUND = "beforeInbound"
    BEFORE_TOOL_CALL = "beforeToolCall"
    BEFORE_OUTBOUND = "beforeOutbound"
    SESSION_START = "onSessionStart"
    SESSION_END = "onSessionEnd"
    TRANSFORM_RESPONSE = "transformResponse"


class FailureMode(StrEnum):
    """What a hook that breaks or takes too long does to what it looks at."""

    OPEN = "fail_open"  # nothing: the hook is left out
    CLOSED = "fail_closed"  # it is refused


@dataclass(frozen=True, slots=True)
class InboundEvent:
    """A person's words, before the agent has them. They are not parsed again when a hook changes them."""

    user: UserId
    channel: str
    content: str
    thread: str


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """A call before it runs. `arguments` have the sensitive ones masked; `context` is "chat", "task" or "job:ID"."""

    tool: str
    arguments: Mapping[str, JsonValue]
    user: UserId
    context: str


@dataclass(frozen=True, slots=True)
class OutboundEvent:
    """A reply before it is sent."""

    user: UserId
    channel: str
    content: str
    thread: str


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """The final text of a turn, before the turn is completed."""

    user: UserId
    thread: str
    content: str


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A session began, or ended for want of use. `point` says which."""

    point: Point
    user: UserId
    session: str


Event = InboundEvent | ToolEvent | OutboundEvent | ResponseEvent | SessionEvent


@dataclass(frozen=True, slots=True)
class Go:
    """Go on as it is."""


@dataclass(frozen=True, slots=True)
class Change:
    """Go on with this in its place: the content, or a call's arguments as a JSON object."""

    content: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Stop it. The reason is told to the person or to the model."""

    reason: str


Outcome = Go | Change | Reject


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook. Lower priorities run first, equal ones in the order they were registered.

    `observes`: it never changes or refuses anything; whatever it returns counts as `Go`.
    """

    name: str
    points: frozenset[Point]
    run: Callable[[Event], Awaitable[Outcome]]
    priority: int = DEFAULT_PRIORITY
    failure_mode: FailureMode = FailureMode.OPEN
    timeout: timedelta = DEFAULT_TIMEOUT
    observes: bool = False


@dataclass(frozen=True, slots=True)
class ToolHooks:
    """Hooks around a tool's run, for plug-ins. Arguments have the sensitive ones masked.

    `veto` gives the reason why a call must not run, or None; one that raises or takes too long is a veto. `transform`
    gives the result as the model is to read it, or None to keep it; one that raises keeps it. `observe` is told what
    the call gave and whether it failed.
    """

    name: str
    veto: Callable[[str, Mapping[str, JsonValue]], Awaitable[str | None]] | None = None
    transform: Callable[[str, Mapping[str, JsonValue], str], Awaitable[str | None]] | None = None
    observe: Callable[[str, Mapping[str, JsonValue], str, bool], Awaitable[None]] | None = None
    timeout: timedelta = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class Passed:
    """No hook stopped it: the content as it goes on."""

    content: str


@dataclass(frozen=True, slots=True)
class PassedCall:
    """No hook stopped the call. `changes` are the arguments that hooks replaced; None: they left them alone."""

    changes: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A hook stopped it. `by_fault`: the hook did not refuse, it failed, and fails closed."""

    reason: str
    by_fault: bool = False
