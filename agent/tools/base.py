"""What a tool is: a description for the model, typed arguments, declared effects, and a `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

    `assess`, `assess_effect`: compute approval and effect from validated arguments, instead of the fixed ones.
    `told_address`: the address that a call asks. One that stands word for word in the conversation carries nothing out
    of it, so it is asked without consent where `UNLESS_ALWAYS` would need it; None: this does not apply.
    `check`: why validated arguments cannot be used, before anybody is asked about them; None if they can.
    `timeout`: the executor's limit for `run`.
    `local`: touches the machine's shell or files, offered to the operator alone unless settings say otherwise.
    `operator_only`, `private_only`: refused to everybody else; refused in shared chats.
    `rare`: not in the prompt before it was found with `tool_search`. A call by name works at any time.
    `sensitive`: top-level argument names that are shown and logged as [REDACTED] only.
    `keeps_arguments`: they are written down as they are, so a call that holds a secret is refused.
    `schema`: what the model sees in place of the schema of `arguments`, for tools that other programs describe.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    effect: Effect
    approval: Approval = Approval.NEVER
    assess: Callable[[Any], Approval] | None = None
    assess_effect: Callable[[Any], Effect] | None = None
    told_address: Callable[[Any], str | None] | None = None
    check: Callable[[Any], str | None] | None = None
    timeout: timedelta = timedelta(seconds=60)
    rate: RateLimit | None = None
    local: bool = False
    operator_only: bool = False
    private_only: bool = False
    rare: bool = False
    sensitive: frozenset[str] = frozenset()
    keeps_arguments: bool = False
    schema: Mapping[str, JsonValue] | None = None


class IterationBudget:
    """How many model calls a turn may make, its subagents' included. One for each turn, shared by what it starts."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.own = 0
        """Rounds of the turn itself."""
        self.lent = 0
        """Rounds of its subagents."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.own - self.lent)

    def lend(self) -> bool:
        """Take a round for a subagent. False if only the one is left that the turn needs for its own answer."""
        if self.left <= 1:
            return False
        self.lent += 1
        return True


class Consents(Protocol):
    """What the person has allowed for good."""

    async def allows(self, tool: str) -> bool:
        """Whether a call that asks unless it was allowed may run without being asked about now."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who runs a tool, where, and on whose files. `origin` is "chat", "task" or "job:ID".

    `model` is what the turn asks, if not the settings' choice.

    `budget` and `consents` are there for tools that ask a model themselves; without them such a tool refuses.
    """

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
    origin: str = "chat"
    model: str | None = None
    budget: IterationBudget | None = None
    consents: Consents | None = None


class ToolBroke(Exception):
    """Raised by a tool that knows what to say of its own fault: it counts as broken, and `output` is the result."""

    def __init__(self, output: ToolOutput) -> None:
        super().__init__("a tool is at fault")
        self.output = output


A = TypeVar("A", bound=BaseModel, contravariant=True)


class Tool(Protocol[A]):
    """Arguments reach a tool already validated as its own model. Expected failures are `ToolOutput(is_error=True)`."""

    @property
    def spec(self) -> ToolSpec: ...

    def scope(self, arguments: A) -> PathScope | None:
        """What the call touches; None where that is not known: the call then runs alone."""
        ...

    async def run(self, arguments: A, context: ToolContext) -> ToolOutput: ...
