"""What a slash command is, and what it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from zoneinfo import ZoneInfo

from agent.conversation.memories import ThreadMemories
from agent.conversation.room import RoomKeeper
from agent.jobs.scheduler import JobScheduler
from agent.llm.base import LLMProvider
from agent.loop import cost_guard
from agent.model.session import Thread
from agent.routines.desk import RoutineDesk
from agent.safety.layer import SafetyLayer
from agent.skills.shelf import SkillShelf
from agent.store.base import Store
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.workspace.scope import Scope
from agent.workspace.workspace import Workspace
from channels.base import ChannelHealth
from channels.message import IncomingMessage


class CacheImpact(StrEnum):
    """What a command does to the prompt prefix that providers cache."""

    NONE = "none"
    DEFERRED = "deferred"
    IMMEDIATE = "immediate"


class Spending(Protocol):
    """What has been spent, over all sources."""

    async def spending(self) -> cost_guard.Spending: ...


class HeartbeatCheck(Protocol):
    """Runs a checklist at once."""

    async def check_now(self, scope: Scope) -> str:
        """What to say about it."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What commands work with; built once."""

    version: str
    started_at: datetime
    store: Store
    registry: ToolRegistry
    local_tools_for: LocalToolsFor
    llm: LLMProvider
    heartbeat: HeartbeatCheck
    spending: Spending
    health: Callable[[], Mapping[str, ChannelHealth]]
    room: RoomKeeper
    memories: ThreadMemories
    safety: SafetyLayer
    workspace: Workspace
    skills: SkillShelf
    restart: Callable[[timedelta], None] | None
    jobs: JobScheduler
    zone: ZoneInfo
    routines: RoutineDesk | None = None


@dataclass(frozen=True, slots=True)
class CommandContext:
    """One use of a command: who typed it, where, and when.

    `apply_now`: a command with a deferred effect on the prompt takes effect at once, since `--now` was typed.
    """

    services: Services
    thread: Thread
    message: IncomingMessage
    is_operator: bool
    now: datetime
    apply_now: bool = False


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What to say, and whether the bot is to stop after it was said."""

    text: str
    quits: bool = False


Run = Callable[[CommandContext, tuple[str, ...]], Awaitable[CommandReply]]


@dataclass(frozen=True, slots=True)
class Command:
    """A registry entry. `arguments` is the hint behind the name in `/help`."""

    name: str
    help: str
    cache_impact: CacheImpact
    run: Run
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    operator_only: bool = False
