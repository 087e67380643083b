"""The only place that chooses classes and builds objects."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo

from agent.agent_loop import Agent
from agent.clock import Clock, SystemClock
from agent.commands import COMMANDS
from agent.commands.base import Services
from agent.conversation.compaction import Compactor
from agent.conversation.hooked import ScreenedHooks
from agent.conversation.intake import Intake
from agent.conversation.live import Live
from agent.conversation.memories import ThreadMemories
from agent.conversation.pruning import SessionPruner
from agent.conversation.room import RoomKeeper
from agent.conversation.session_manager import SessionManager
from agent.conversation.skill_choice import ShelfSkills
from agent.conversation.thread_commands import ThreadCommands
from agent.conversation.thread_ops import ChatSettings, ThreadOps
from agent.credentials.keys import load_master_key, system_keychain
from agent.credentials.store import CredentialStore
from agent.dynamic.library import ToolLibrary
from agent.hooks.runner import HookRunner
from agent.jobs.scheduler import JobScheduler
from agent.jobs.self_repair import SelfRepair
from agent.jobs.turns import JobSettings, JobTurns
from agent.llm import PROVIDERS
from agent.llm.base import LLMProvider
from agent.llm.chain import BareProviders, build_chain
from agent.llm.images import OpenAIImages
from agent.llm.speech import OpenAISpeech
from agent.loop.cost_guard import CostGuard, Limits
from agent.media.reader import AttachmentReader
from agent.media.seeing import SeeingProvider
from agent.model.session import BusyMode
from agent.routines.heartbeat import HeartbeatRunner, HeartbeatSchedule
from agent.routines.hygiene import MemoryHygiene
from agent.routines.job_runs import JobRuns
from agent.safety.access import AccessPolicy, DmPolicy, GroupPolicy
from agent.safety.layer import SafetyLayer
from agent.skills.shelf import SkillShelf
from agent.store.base import Store
from agent.tools.builtin import basic_tools, file_tools
from agent.tools.builtin.message import Message
from agent.tools.builtin.task import Task
from agent.tools.execute import ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import AnyTool, LocalToolsFor, ToolRegistry
from agent.turns.expiry import ApprovalExpiry
from agent.turns.in_process import InProcessEngine
from agent.turns.turn_runner import TurnRunner
from agent.workspace.identity import Identity
from agent.workspace.workspace import FolderWorkspace
from bot import __version__
from bot.archive import OutputArchive, StoreLedger
from bot.built_tools import build_built_tools
from bot.containers import Containers, build_containers
from bot.extended import build_extensions, service_book
from bot.gateway import Gateway
from bot.hooks import build_hooks
from bot.imports import lean_imports
from bot.jobs import StoreToolHealth, build_jobs, close_questions_at, tell_page
from bot.late_servers import LateServers
from bot.memory_vectors import MemoryVectors, build_index, build_vectors
from bot.notifier import OperatorNotifier, Targets
from bot.plugins import NO_PLUGINS, Plugins, build_plugged_channel
from bot.posting import Directory, StoreOutbox
from bot.presenter import Presenter, StepSurface
from bot.routines import Routines, build_routines
from bot.sandboxed import LateSandbox, late_sandbox, shell_tool
from bot.toolbox import build_shelf, build_speech, build_toolbox
from channels import CHANNELS
from channels.base import Channel
from channels.settings import AccessSettings
from channels.web import OPERATOR_ID, EventHub, WebChannel
from config.settings import Settings

MakeProvider = Callable[[Settings, str | None], LLMProvider]
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
    vectors: MemoryVectors | None = None
    routines: Routines | None = None
    built_tools: ToolLibrary | None = None


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
    gateway = Gateway(channels, store, clock)
    live = Live()
    presenter = Presenter(channels, steps, store, clock)
    live.attach(presenter)
    engine = InProcessEngine()
    safety = SafetyLayer(
        secrets_of(settings),
        settings.safety.max_output_length,
        injection_check=settings.safety.injection_check_enabled,
    )
    guard = CostGuard(
        Limits(settings.limits.max_cost_per_day_cents, settings.limits.max_actions_per_hour), StoreLedger(store), clock
    )
    hooks = build_hooks(plugins, settings.workspace, clock)
    screened_hooks = ScreenedHooks(hooks, safety)
    make = make_provider or partial(build_provider, targets=plugins.provider_targets)
    models = build_chain(_bare_providers(settings, make), settings.llm, guard, clock, random.SystemRandom())
    speech = build_speech(settings, guard)
    attachments = AttachmentReader(gateway, settings.workspace, safety, speech, clock)
    llm, cheap = SeeingProvider(models.main, attachments.load), models.cheap
    workspace = FolderWorkspace(settings.workspace, clock)
    identity = Identity(workspace, clock)
    archive = OutputArchive(store, clock)
    busy_mode = BusyMode(settings.agent.busy_mode.value)
    local_for = LocalToolsFor(settings.agent.local_tools_for.value)
    sandbox = late_sandbox(settings)
    book = service_book(settings)
    vault = CredentialStore(
        store,
        clock,
        partial(load_master_key, settings.secrets.master_key, settings.home, system_keychain()),
        book.terms_for,
    )
    notifier = OperatorNotifier(_targets(settings, channels), gateway, store, clock)
    vectors = build_vectors(settings, store, clock, guard, safety.contains_secret)
    outbox = StoreOutbox(store, clock, gateway)
    shelf = build_shelf(settings)
    toolbox = build_toolbox(settings, safety, guard, outbox, shelf, vault, book, restart_bot)
    tools: list[AnyTool] = [
        *basic_tools(workspace, build_index(store, vectors), archive.find, clock, safety.contains_secret),
        Message(outbox, Directory(gateway, notifier), settings.workspace, safety.contains_secret),
        *toolbox.tools,
    ]
    if settings.agent.allow_local_tools:
        tools += [*file_tools(settings.workspace), shell_tool(sandbox, settings.workspace)]
    jobs = build_jobs(settings, store, clock, engine, gateway, screened_hooks, channels)
    registry = ToolRegistry(tools)
    containers = build_containers(
        settings,
        jobs.scheduler,
        store=store,
        clock=clock,
        llm=llm,
        safety=safety,
        registry=registry,
        deliveries=gateway,
    )
    for job_tool in jobs.tools(containers.desk):
        registry.add_builtin(job_tool)
    built = build_built_tools(settings, store, clock, safety, registry, llm, sandbox)
    if settings.agent.allow_local_tools:
        for tool in built.tools:
            registry.add_builtin(tool)
    extended = build_extensions(settings, store, clock, gateway, safety, registry, vault, book, plugins, built.library)
    for tool in extended.tools:
        registry.add_builtin(tool)
    for plugged in plugins.tools:
        registry.register(plugged)
    executor = ToolExecutor(
        registry,
        safety,
        RateWindows(clock),
        archive,
        local_for,
        settings.safety.max_output_length,
        hooks,
        StoreToolHealth(store, clock),
    )
    registry.add_builtin(Task(llm, registry, executor, safety))
    routines = build_routines(
        settings,
        store=store,
        clock=clock,
        llm=llm,
        registry=registry,
        executor=executor,
        safety=safety,
        workspace=workspace,
        identity=identity,
        hooks=hooks,
        gateway=gateway,
        places=Directory(gateway, notifier),
        jobs=JobRuns(jobs.scheduler),
        policies=policies(settings),
    )
    skills = ShelfSkills(shelf)
    memories = ThreadMemories(store)
    zone = ZoneInfo(str(settings.agent.timezone))
    chat_settings = ChatSettings(
        agent_name=settings.agent.name,
        zone=zone,
        max_iterations=settings.agent.max_tool_iterations,
        auto_approve=settings.agent.auto_approve_tools,
        approval_timeout=settings.agent.approval_timeout,
        live_channels=frozenset(steps) | {name for name, each in settings.channels.items() if each.streaming},
        local_tools_for=local_for,
        busy_mode=busy_mode,
    )
    compactor = Compactor(store, clock, cheap, workspace, safety)
    room = RoomKeeper(
        compactor,
        memories,
        llm,
        limit_tokens=settings.agent.context_limit_tokens,
        threshold=settings.agent.compaction_threshold,
    )
    thread_ops = ThreadOps(
        chat_settings,
        store=store,
        clock=clock,
        llm=llm,
        registry=registry,
        executor=executor,
        safety=safety,
        identity=identity,
        memories=memories,
        room=room,
        surroundings=gateway,
        live=live,
        skills=skills,
        hooks=screened_hooks,
        attachments=attachments,
    )
    job_turns = JobTurns(
        JobSettings(
            settings.agent.name, zone, settings.agent.auto_approve_tools, settings.agent.approval_timeout, local_for
        ),
        jobs.records,
        store=store,
        clock=clock,
        llm=llm,
        registry=registry,
        executor=executor,
        safety=safety,
        identity=identity,
        memories=memories,
        skills=skills,
        hooks=screened_hooks,
        containers=containers.turns,
    )
    heartbeat = HeartbeatRunner(
        settings.agent.name,
        heartbeat_schedule(settings),
        store=store,
        clock=clock,
        cheap_llm=cheap,
        llm=llm,
        workspace=workspace,
        identity=identity,
        safety=safety,
        notifier=notifier,
    )
    thread_commands = ThreadCommands(clock, room, registry, settings.agent.compaction_threshold)
    services = Services(
        version=__version__,
        started_at=clock.now(),
        store=store,
        registry=registry,
        local_tools_for=local_for,
        llm=llm,
        heartbeat=heartbeat,
        spending=guard,
        health=gateway.health,
        room=room,
        memories=memories,
        safety=safety,
        workspace=workspace,
        skills=shelf,
        restart=restart_bot,
        jobs=jobs.scheduler,
        zone=zone,
        routines=None if routines is None else routines.desk,
    )
    intake = Intake(
        store=store,
        clock=clock,
        sessions=SessionManager(hooks),
        safety=safety,
        policies=policies(settings),
        signals=engine,
        deliveries=gateway,
        vault=vault,
        stored=extended.servers.on_stored,
        commands=frozenset(word for command in COMMANDS for word in (command.name, *command.aliases)),
        busy_mode=busy_mode,
        skills=skills,
        triggers=None if routines is None else routines.triggers,
    )
    close_questions_at(jobs.records, intake)
    tell_page(channels, jobs.scheduler)
    expiry = ApprovalExpiry(store, clock, intake)
    runner = TurnRunner(
        Agent(thread_ops, job_turns, thread_commands, COMMANDS, services, clock),
        store=store,
        clock=clock,
        memories=memories,
        deliveries=gateway,
        live=live,
        quit_bot=quit_bot,
        asked=expiry.nudge,
    )
    hygiene = settings.memory_hygiene
    return Core(
        store,
        clock,
        engine,
        runner,
        intake,
        gateway,
        presenter,
        expiry,
        SessionPruner(store, clock, memories, settings.session.idle_timeout, hooks),
        heartbeat,
        settings.heartbeat.enabled,
        MemoryHygiene(store, clock, settings.workspace, hygiene) if hygiene.enabled else None,
        workspace,
        llm,
        cheap,
        sandbox,
        hooks,
        extended.servers,
        shelf,
        toolbox.images,
        speech,
        jobs.scheduler,
        SelfRepair(jobs.records, store, clock, engine, registry, notifier.notify_operator, built.rebuild),
        containers,
        vectors,
        routines,
        built.library if settings.agent.allow_local_tools else None,
    )


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


def secrets_of(settings: Settings) -> list[str]:
    """Every secret value in the settings, for the log and the safety layer to mask."""
    found: list[str] = []
    extensions = (*settings.channels.values(), *settings.providers.values())
    for section in (*extensions, settings.web, settings.secrets, settings.memory):
        for name in type(section).model_fields:
            value = getattr(section, name)
            if hasattr(value, "get_secret_value"):
                found.append(value.get_secret_value())
    if settings.database_url:
        found.append(settings.database_url)
    return found


def heartbeat_schedule(settings: Settings) -> HeartbeatSchedule:
    """When the checklist is due."""
    chosen = settings.heartbeat
    return HeartbeatSchedule(
        chosen.interval, ZoneInfo(str(chosen.timezone)), chosen.fire_at, chosen.quiet_start, chosen.quiet_end
    )


def build_provider(settings: Settings, model: str | None, targets: Mapping[str, str] = PROVIDERS) -> LLMProvider:
    """The chosen provider, bare. Building it loads no SDK."""
    chosen = settings.llm
    module, _, name = targets[chosen.provider].partition(":")
    provider: LLMProvider = getattr(importlib.import_module(module), name)(
        settings.providers[chosen.provider], model=model, timeout=chosen.timeout
    )
    return provider


def _bare_providers(settings: Settings, make: MakeProvider) -> BareProviders:
    chosen = settings.llm
    return BareProviders(
        make(settings, chosen.model),
        make(settings, chosen.cheap_model) if chosen.cheap_model else None,
        tuple(make(_choosing(settings, ref.provider), ref.model) for ref in chosen.fallback),
    )


def _choosing(settings: Settings, provider: str) -> Settings:
    """The settings as they were if this provider had been chosen."""
    return settings.model_copy(update={"llm": settings.llm.model_copy(update={"provider": provider})})


def _policy(settings: AccessSettings) -> AccessPolicy:
    return AccessPolicy.of(
        settings.owner_id, settings.dm_policy, settings.allow_from, settings.group_policy, settings.groups
    )


def _targets(settings: Settings, channels: Mapping[str, Channel]) -> Targets:
    owners = {name: each.owner_id for name, each in settings.channels.items() if each.owner_id}
    if "web" in channels:
        owners["web"] = OPERATOR_ID
    return Targets(settings.heartbeat.notify_channel, settings.heartbeat.notify_user, owners)
