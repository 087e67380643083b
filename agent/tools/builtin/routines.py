"""Routines: what the agent is to do later, again and again, or when something happens."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import StrEnum
from typing import Annotated, ClassVar, Protocol

from pydantic import Field

from agent.errors import RoutineRefused
from agent.model.tool_call import JsonValue, ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.registry import AnyTool
from agent.tools.schema import Arguments

_NOT_NOW = "the database cannot be used at the moment; nothing was changed. Try again in a moment."
Name = Annotated[str, Field(min_length=1, max_length=128)]


class TriggerType(StrEnum):
    """What sets a routine off."""

    CRON = "cron"
    EVENT = "event"
    SYSTEM_EVENT = "system_event"
    MANUAL = "manual"
    WEBHOOK = "webhook"


class ActionType(StrEnum):
    """What a routine does."""

    LIGHTWEIGHT = "lightweight"
    FULL_JOB = "full_job"


class RoutineCreateArguments(Arguments):
    """Arguments of `routine_create`. Their bounds are checked by the desk: each would stand in every prompt."""

    name: str
    trigger_type: TriggerType = Field(description="cron: at times; event: the user's messages")
    prompt: str = Field(description="all a run needs to know; it sees no chat")
    description: str = ""
    schedule: str | None = Field(default=None, description="5 cron fields, or 6 with seconds first")
    at: str | None = Field(default=None, description="instead of schedule: once, ISO local time")
    until: str | None = Field(default=None, description="last day of schedule, ISO")
    timezone: str | None = Field(default=None, description="IANA; the user's if missing")
    event_pattern: str | None = Field(default=None, description="regex")
    event_channel: str | None = None
    event_source: str | None = None
    event_type: str | None = None
    event_filters: dict[str, str | int | float | bool] = Field(default={})
    webhook_path: str | None = None
    action_type: ActionType = ActionType.LIGHTWEIGHT
    context_paths: list[str] = Field(default=[], description="documents a run is told")
    cooldown_secs: int | None = None
    dedup_secs: int | None = None
    tool_permissions: list[str] = Field(default=[])
    notify_channel: str | None = Field(default=None, description="leave out for this conversation")
    notify_user: str | None = None


class RoutineListArguments(Arguments):
    """`routine_list` takes none."""


class RoutineUpdateArguments(Arguments):
    """Arguments of `routine_update`; what is missing stays."""

    name: Name
    enabled: bool | None = None
    prompt: str | None = Field(default=None, min_length=1, max_length=20_000)
    description: str | None = Field(default=None, max_length=500)
    schedule: str | None = None
    timezone: str | None = None


class RoutineNameArguments(Arguments):
    """A routine by its name."""

    name: Name


class RoutineHistoryArguments(Arguments):
    """Arguments of `routine_history`."""

    name: Name
    limit: int = Field(default=10, ge=1, le=50)


class EventEmitArguments(Arguments):
    """Arguments of `event_emit`."""

    event_source: str = Field(min_length=1, max_length=200)
    event_type: str = Field(min_length=1, max_length=200)
    payload: dict[str, JsonValue] = Field(default={})


class RoutineDesk(Protocol):
    """Keeps a person's routines. Each gives the words for the model, or raises RoutineRefused with others."""

    async def create(self, arguments: RoutineCreateArguments, context: ToolContext) -> str: ...

    async def listing(self, context: ToolContext) -> str: ...

    async def change(self, arguments: RoutineUpdateArguments, context: ToolContext) -> str: ...

    async def delete(self, name: str, context: ToolContext) -> str: ...

    async def fire(self, name: str, context: ToolContext) -> str: ...

    async def history(self, name: str, limit: int, context: ToolContext) -> str: ...

    async def emit(self, arguments: EventEmitArguments, context: ToolContext) -> str: ...


def create_approval(arguments: RoutineCreateArguments) -> Approval:
    """Asked about where tools that ask are to run with nobody about: a job uses those that can be allowed for good,
    and those that ask each time where they are named."""
    if arguments.tool_permissions:
        return Approval.ALWAYS
    return Approval.UNLESS_ALWAYS if arguments.action_type is ActionType.FULL_JOB else Approval.NEVER


def update_approval(arguments: RoutineUpdateArguments) -> Approval:
    """Asked about where a routine is to do something else than what was consented to."""
    return Approval.NEVER if arguments.prompt is None else Approval.UNLESS_ALWAYS


class RoutineCreate:
    """Makes a routine. Its runs see the files of the conversation it is made in, and answer there."""

    spec: ClassVar = ToolSpec(
        "routine_create",
        "Do something later, repeatedly, or when something happens: reminders, checks, reactions.",
        RoutineCreateArguments,
        Effect.WRITE,
        assess=create_approval,
        rate=RateLimit(per_minute=10, per_hour=60),
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineCreateArguments) -> PathScope | None:
        return None

    async def run(self, arguments: RoutineCreateArguments, context: ToolContext) -> ToolOutput:
        return await _told(self._desk.create(arguments, context), " No routine was made.")


class RoutineList:
    """Lists the person's routines."""

    spec: ClassVar = ToolSpec(
        "routine_list",
        "List the user's routines with their next time, state and counters.",
        RoutineListArguments,
        Effect.READ,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineListArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: RoutineListArguments, context: ToolContext) -> ToolOutput:
        try:
            return ToolOutput(await self._desk.listing(context))
        except StoreError:
            return ToolOutput(_NOT_NOW, is_error=True)


class RoutineUpdate:
    """Changes a routine, switches it on or off."""

    spec: ClassVar = ToolSpec(
        "routine_update",
        "Change a routine: enable or disable it, its prompt, schedule, time zone or description.",
        RoutineUpdateArguments,
        Effect.WRITE,
        assess=update_approval,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineUpdateArguments) -> PathScope | None:
        return None

    async def run(self, arguments: RoutineUpdateArguments, context: ToolContext) -> ToolOutput:
        return await _told(self._desk.change(arguments, context), " Nothing was changed.")


class RoutineDelete:
    """Removes a routine and its history."""

    spec: ClassVar = ToolSpec(
        "routine_delete",
        "Delete a routine: a reminder or a scheduled task that is not wanted any more.",
        RoutineNameArguments,
        Effect.WRITE,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineNameArguments) -> PathScope | None:
        return None

    async def run(self, arguments: RoutineNameArguments, context: ToolContext) -> ToolOutput:
        return await _told(self._desk.delete(arguments.name, context))


class RoutineFire:
    """Runs a routine now."""

    spec: ClassVar = ToolSpec(
        "routine_fire",
        "Run a routine now; its result is sent to its conversation when it ends.",
        RoutineNameArguments,
        Effect.OUTSIDE,
        Approval.UNLESS_ALWAYS,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineNameArguments) -> PathScope | None:
        return None

    async def run(self, arguments: RoutineNameArguments, context: ToolContext) -> ToolOutput:
        return await _told(self._desk.fire(arguments.name, context))


class RoutineHistory:
    """Shows the last runs of a routine."""

    spec: ClassVar = ToolSpec(
        "routine_history",
        "The last runs of a routine: when, what came of them, what was missed and why.",
        RoutineHistoryArguments,
        Effect.READ,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: RoutineHistoryArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: RoutineHistoryArguments, context: ToolContext) -> ToolOutput:
        return await _told(self._desk.history(arguments.name, arguments.limit, context))


class EventEmit:
    """Tells the person's routines of an event."""

    spec: ClassVar = ToolSpec(
        "event_emit",
        "Tell the user's system_event routines that something happened; gives how many run.",
        EventEmitArguments,
        Effect.OUTSIDE,
        Approval.UNLESS_ALWAYS,
        rare=True,
    )

    def __init__(self, desk: RoutineDesk) -> None:
        self._desk = desk

    def scope(self, arguments: EventEmitArguments) -> PathScope | None:
        return None

    async def run(self, arguments: EventEmitArguments, context: ToolContext) -> ToolOutput:
        try:
            return ToolOutput(await self._desk.emit(arguments, context))
        except StoreError:
            return ToolOutput(_NOT_NOW, is_error=True)


def routine_tools(desk: RoutineDesk) -> tuple[AnyTool, ...]:
    """All of them."""
    return (
        RoutineCreate(desk),
        RoutineList(desk),
        RoutineUpdate(desk),
        RoutineDelete(desk),
        RoutineFire(desk),
        RoutineHistory(desk),
        EventEmit(desk),
    )


async def _told(answer: Awaitable[str], kept: str = "") -> ToolOutput:
    """What the desk says; its refusals, with what `kept` adds, and a store that is away as errors."""
    try:
        return ToolOutput(await answer)
    except RoutineRefused as refused:
        return ToolOutput(f"{refused}{kept}", is_error=True)
    except StoreError:
        return ToolOutput(_NOT_NOW, is_error=True)
