"""The only place that chooses classes and builds objects: here the conversation, on its foundation, with its tools."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from agent.agent_loop import Agent
from agent.clock import Clock, SystemClock
from agent.commands import COMMANDS
from agent.commands.base import Services
from agent.conversation.compaction import Compactor
from agent.conversation.intake import Intake
from agent.conversation.live import Live
from agent.conversation.memories import ThreadMemories
from agent.conversation.pruning import SessionPruner
from agent.conversation.room import RoomKeeper
from agent.conversation.session_manager import SessionManager
from agent.conversation.skill_choice import ShelfSkills
from agent.conversation.thread_commands import ThreadCommands
from agent.conversation.thread_ops import ChatSettings, ThreadOps
from agent.dynamic.library import ToolLibrary
from agent.hooks.runner import HookRunner
from agent.jobs.scheduler import JobScheduler
from agent.jobs.self_repair import SelfRepair
from agent.jobs.turns import JobSettings, JobTurns
from agent.llm.base import LLMProvider
from agent.llm.images import OpenAIImages
from agent.llm.speech import OpenAISpeech
from agent.model.session import BusyMode
from agent.routines.access import OwnerAccess
from agent.routines.heartbeat import HeartbeatRunner, HeartbeatSchedule
from agent.routines.hygiene import MemoryHygiene
from agent.routines.people import PeopleWithAccess
from agent.safety.access import AccessPolicy, DmPolicy, GroupPolicy
from agent.skills.shelf import SkillShelf
from agent.store.base import Store
from agent.tools.registry import LocalToolsFor
from agent.turns.expiry import ApprovalExpiry
from agent.turns.in_process import InProcessEngine
from agent.turns.turn_runner import TurnRunner
from agent.workspace.workspace import FolderWorkspace
from bot import __version__
from bot.containers import Containers
from bot.foundation import Foundation, MakeProvider, lay_foundation
from bot.gateway import Gateway
from bot.imports import lean_imports
from bot.jobs import close_questions_at, tell_page
from bot.late_servers import LateServers
from bot.memory_vectors import MemoryVectors
from bot.plugins import NO_PLUGINS, Plugins, build_plugged_channel
from bot.presenter import Presenter, StepSurface
from bot.routines import Routines
from bot.sandboxed import LateSandbox
from bot.tooling import Tooling, fit_tools
from channels import CHANNELS
from channels.base import Channel
from channels.settings import AccessSettings
from channels.web import EventHub, WebChannel
from config.settings import Settings

OPERATORS_OWN = AccessPolicy(everyone_is_operator=True)
SIGNED_CALLERS = AccessPolicy(dm_policy=DmPolicy.OPEN, group_policy=GroupPolicy.DISABLED)
"""Of the webhook: what is handed in there bears the signature of the operator's secret, and is not the operator's."""


@dataclass(frozen=True, slots=True)
class Core:
    """The agent and everything around it that one process runs."""

    store: Store
    clock: Clock
    engine: InProcessEngine
    runner: TurnRunner
    intake: Intake
    gateway: Gateway
    presenter: Presenter
    expiry: ApprovalExpiry
    pruner: SessionPruner
    heartbeat: HeartbeatRunner
    heartbeat_enabled: bool
    hygiene: MemoryHygiene | None
    workspace: FolderWorkspace
    llm: LLMProvider
    cheap_llm: LLMProvider
    sandbox: LateSandbox
    hooks: HookRunner
    servers: LateServers
    shelf: SkillShelf
    images: OpenAIImages
    speech: OpenAISpeech
    jobs: JobScheduler
    repair: SelfRepair
    containers: Containers
    vectors: MemoryVectors | None
    routines: Routines | None
    built_tools: ToolLibrary | None


def build_channels(settings: Settings, plugins: Plugins = NO_PLUGINS) -> dict[str, Channel]:
    """The enabled platform channels; their SDKs load here, those of others never."""
    menu = tuple((command.name, command.help) for command in COMMANDS if not command.operator_only)
    found: dict[str, Channel] = {}
    for name, channel_settings in settings.channels.items():
        if name in plugins.channels:
            if (plugged := build_plugged_channel(name, plugins.channels[name], channel_settings)) is not None:
                found[name] = plugged
            continue
        with lean_imports():
            channel_class = load(CHANNELS[name])
        extra = {"commands": menu} if name == "telegram" else {}
        found[name] = channel_class(channel_settings, **extra)
    return found


def build_core(
    settings: Settings,
    store: Store,
    channels: Mapping[str, Channel],
    steps: Mapping[str, StepSurface],
    quit_bot: Callable[[], None],
    restart_bot: Callable[[timedelta], None] | None = None,
    clock: Clock | None = None,
    make_provider: MakeProvider | None = None,
    plugins: Plugins = NO_PLUGINS,
) -> Core:
    """Wire everything up for these channels. `clock` and `make_provider` take the place of the real ones."""
    clock = clock or SystemClock()
    access = policies(settings)
    base = lay_foundation(settings, store, channels, clock, make_provider, plugins)
    engine = InProcessEngine()
    tooling = fit_tools(base, engine, channels, plugins, access, restart_bot)
    live = Live()
    presenter = Presenter(channels, steps, store, clock)
    live.attach(presenter)
    memories = ThreadMemories(store)
    skills = ShelfSkills(base.shelf)
    heartbeat = _heartbeat(base, access)
    intake = _intake(base, tooling, engine, skills, access)
    close_questions_at(tooling.jobs.records, intake)
    tell_page(channels, tooling.jobs.scheduler)
    expiry = ApprovalExpiry(store, clock, intake)
    runner = TurnRunner(
        _agent(base, tooling, memories, skills, live, heartbeat, frozenset(steps), restart_bot),
        store=store,
        clock=clock,
        memories=memories,
        deliveries=base.gateway,
        live=live,
        quit_bot=quit_bot,
        asked=expiry.nudge,
    )
    hygiene = settings.memory_hygiene
    return Core(
        store=store,
        clock=clock,
        engine=engine,
        runner=runner,
        intake=intake,
        gateway=base.gateway,
        presenter=presenter,
        expiry=expiry,
        pruner=SessionPruner(store, clock, memories, settings.session.idle_timeout, base.hooks),
        heartbeat=heartbeat,
        heartbeat_enabled=settings.heartbeat.enabled,
        hygiene=MemoryHygiene(store, clock, settings.workspace, hygiene) if hygiene.enabled else None,
        workspace=base.workspace,
        llm=base.llm,
        cheap_llm=base.cheap,
        sandbox=base.sandbox,
        hooks=base.hooks,
        servers=tooling.servers,
        shelf=base.shelf,
        images=tooling.images,
        speech=base.speech,
        jobs=tooling.jobs.scheduler,
        repair=_repair(base, tooling, engine),
        containers=tooling.containers,
        vectors=base.vectors,
        routines=tooling.routines,
        built_tools=tooling.library if settings.agent.allow_local_tools else None,
    )


def _agent(
    base: Foundation,
    tooling: Tooling,
    memories: ThreadMemories,
    skills: ShelfSkills,
    live: Live,
    heartbeat: HeartbeatRunner,
    watched: frozenset[str],
    restart: Callable[[timedelta], None] | None,
) -> Agent:
    """What serves turns and commands. `watched`: channels that show an answer while it is written."""
    settings = base.settings
    chosen, zone = settings.agent, ZoneInfo(str(settings.agent.timezone))
    local_for = LocalToolsFor(chosen.local_tools_for.value)
    room = RoomKeeper(
        Compactor(base.store, base.clock, base.cheap, base.workspace, base.safety),
        memories,
        base.llm,
        limit_tokens=chosen.context_limit_tokens,
        threshold=chosen.compaction_threshold,
    )
    thread_ops = ThreadOps(
        ChatSettings(
            agent_name=chosen.name,
            zone=zone,
            max_iterations=chosen.max_tool_iterations,
            auto_approve=chosen.auto_approve_tools,
            approval_timeout=chosen.approval_timeout,
            live_channels=watched | {name for name, each in settings.channels.items() if each.streaming},
            local_tools_for=local_for,
            busy_mode=BusyMode(chosen.busy_mode.value),
        ),
        store=base.store,
        clock=base.clock,
        llm=base.llm,
        registry=tooling.registry,
        executor=tooling.executor,
        safety=base.safety,
        identity=base.identity,
        memories=memories,
        room=room,
        surroundings=base.gateway,
        live=live,
        skills=skills,
        hooks=base.screened_hooks,
        attachments=base.attachments,
    )
    job_turns = JobTurns(
        JobSettings(chosen.name, zone, chosen.auto_approve_tools, chosen.approval_timeout, local_for),
        tooling.jobs.records,
        store=base.store,
        clock=base.clock,
        llm=base.llm,
        registry=tooling.registry,
        executor=tooling.executor,
        safety=base.safety,
        identity=base.identity,
        memories=memories,
        skills=skills,
        hooks=base.screened_hooks,
        containers=tooling.containers.turns,
    )
    services = Services(
        version=__version__,
        started_at=base.clock.now(),
        store=base.store,
        registry=tooling.registry,
        local_tools_for=local_for,
        llm=base.llm,
        heartbeat=heartbeat,
        spending=base.guard,
        health=base.gateway.health,
        room=room,
        memories=memories,
        safety=base.safety,
        workspace=base.workspace,
        skills=base.shelf,
        restart=restart,
        jobs=tooling.jobs.scheduler,
        zone=zone,
        routines=None if tooling.routines is None else tooling.routines.desk,
    )
    thread_commands = ThreadCommands(base.clock, room, tooling.registry, chosen.compaction_threshold)
    return Agent(thread_ops, job_turns, thread_commands, COMMANDS, services, base.clock)


def _intake(
    base: Foundation,
    tooling: Tooling,
    engine: InProcessEngine,
    skills: ShelfSkills,
    access: Mapping[str, AccessPolicy],
) -> Intake:
    return Intake(
        store=base.store,
        clock=base.clock,
        sessions=SessionManager(base.hooks),
        safety=base.safety,
        policies=access,
        signals=engine,
        deliveries=base.gateway,
        vault=base.vault,
        stored=tooling.servers.on_stored,
        commands=frozenset(word for command in COMMANDS for word in (command.name, *command.aliases)),
        busy_mode=BusyMode(base.settings.agent.busy_mode.value),
        skills=skills,
        triggers=None if tooling.routines is None else tooling.routines.triggers,
    )


def _heartbeat(base: Foundation, access: Mapping[str, AccessPolicy]) -> HeartbeatRunner:
    people = PeopleWithAccess(base.store, base.clock, OwnerAccess(access))
    return HeartbeatRunner(
        base.settings.agent.name,
        heartbeat_schedule(base.settings),
        store=base.store,
        clock=base.clock,
        cheap_llm=base.cheap,
        llm=base.llm,
        workspace=base.workspace,
        identity=base.identity,
        safety=base.safety,
        notifier=base.notifier,
        people=people.list,
    )


def _repair(base: Foundation, tooling: Tooling, engine: InProcessEngine) -> SelfRepair:
    tell, rebuild = base.notifier.notify_operator, tooling.built.rebuild
    return SelfRepair(tooling.jobs.records, base.store, base.clock, engine, tooling.registry, tell, rebuild)


def web_channel() -> WebChannel:
    """The page's channel."""
    return WebChannel(EventHub())


def load(path: str) -> Callable[..., Channel]:
    """The class behind an import string of a registry."""
    module, _, name = path.partition(":")
    found: Callable[..., Channel] = getattr(importlib.import_module(module), name)
    return found


def policies(settings: Settings) -> dict[str, AccessPolicy]:
    """Who may talk, by channel. The terminal and the page are the operator's own."""
    own = {"console": OPERATORS_OWN, "web": OPERATORS_OWN}
    if settings.web.takes_webhooks:
        own["webhook"] = SIGNED_CALLERS
    return own | {name: _policy(each) for name, each in settings.channels.items()}


def heartbeat_schedule(settings: Settings) -> HeartbeatSchedule:
    """When the checklist is due."""
    chosen = settings.heartbeat
    return HeartbeatSchedule(
        chosen.interval, ZoneInfo(str(chosen.timezone)), chosen.fire_at, chosen.quiet_start, chosen.quiet_end
    )


def _policy(settings: AccessSettings) -> AccessPolicy:
    return AccessPolicy.of(
        settings.owner_id, settings.dm_policy, settings.allow_from, settings.group_policy, settings.groups
    )
