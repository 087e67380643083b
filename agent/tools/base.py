"""What a tool is: a description for the model, typed arguments, declared effects, and a `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Protocol, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from agent.model.ids import ThreadId, UserId
from agent.model.tool_call import JsonValue, ToolOutput
from agent.workspace.scope import Scope
from channels.message import Address


class Effect(StrEnum):
    """What running a tool leaves behind. Anything but `READ` is not repeated when its outcome is unknown."""

    READ = "read"
    WRITE = "write"
    OUTSIDE = "outside"


class Approval(StrEnum):
    """When a call needs the consent of the person who caused it."""

    NEVER = "never"
    UNLESS_ALWAYS = "unless_always"  # asked, unless this person said "always" for the tool here
    ALWAYS = "always"  # asked every time, whatever was said or set


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Calls one user may make of one tool, in fixed windows."""

    per_minute: int
    per_hour: int


@dataclass(frozen=True, slots=True)
class PathScope:
    """Which part of a workspace a call touches: calls whose scopes overlap do not run side by side."""

    paths: frozenset[PurePosixPath]

    @classmethod
    def nothing(cls) -> PathScope:
        """A call that touches no file."""
        return cls(frozenset())

    @classmethod
    def of(cls, path: str) -> PathScope:
        return cls(frozenset({PurePosixPath("/", path)}))

    def overlaps(self, other: PathScope) -> bool:
        """Whether a path of one is the same as, or lies above, a path of the other."""
        return any(a == b or a in b.parents or b in a.parents for a in self.paths for b in other.paths)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's name and rules. `arguments`' docstring and field descriptions are what the model reads.

    `local`: touches the machine's shell or files, offered to the operator alone unless settings say otherwise.
    `assess`: computes the approval from validated arguments, instead of `approval`.
    `sensitive`: top-level argument names that are shown and logged as [REDACTED] only.
    `timeout`: the executor's limit for `run`.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    effect: Effect
    approval: Approval = Approval.NEVER
    assess: Callable[[Any], Approval] | None = None
    timeout: timedelta = timedelta(seconds=60)
    rate: RateLimit | None = None
    local: bool = False
    sensitive: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who runs a tool, where, and on whose files."""

    user: UserId
    is_operator: bool
    is_shared: bool
    scope: Scope
    address: Address
    thread: ThreadId
    turn: UUID
    call_id: str
    zone: ZoneInfo
    now: datetime
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


A = TypeVar("A", bound=BaseModel, contravariant=True)


class Tool(Protocol[A]):
    """Arguments reach a tool already validated as its own model. Expected failures are `ToolOutput(is_error=True)`."""

    @property
    def spec(self) -> ToolSpec: ...

    def scope(self, arguments: A) -> PathScope | None:
        """What the call touches; None where that is not known: the call then runs alone."""
        ...

    async def run(self, arguments: A, context: ToolContext) -> ToolOutput: ...
