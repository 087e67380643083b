"""Builds the tools, what runs them, and the work that goes on by itself through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from agent.conversation.ports import TurnSignals
from agent.dynamic.library import ToolLibrary
from agent.llm.images import OpenAIImages
from agent.routines.job_runs import JobRuns
from agent.safety.access import AccessPolicy
from agent.tools.builtin import basic_tools, file_tools
from agent.tools.builtin.message import Message
from agent.tools.builtin.task import Task
from agent.tools.execute import ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import AnyTool, LocalToolsFor, ToolRegistry
from bot.built_tools import BuiltTools, build_built_tools
from bot.containers import Containers, build_containers
from bot.extended import build_extensions
from bot.foundation import Foundation
from bot.jobs import Jobs, StoreToolHealth, build_jobs
from bot.late_servers import LateServers
from bot.memory_vectors import build_index
from bot.plugins import Plugins
from bot.routines import Routines, build_routines
from bot.sandboxed import shell_tool
from bot.toolbox import build_toolbox
from channels.base import Channel


@dataclass(frozen=True, slots=True)
class Tooling:
    """The tools at work. `routines` are None where they are switched off."""

    registry: ToolRegistry
    executor: ToolExecutor
    jobs: Jobs
    containers: Containers
    built: BuiltTools
    servers: LateServers
    images: OpenAIImages
    routines: Routines | None

    @property
    def library(self) -> ToolLibrary:
        """The tools that the agent wrote itself."""
        return self.built.library


def fit_tools(
    base: Foundation,
    signals: TurnSignals,
    channels: Mapping[str, Channel],
    plugins: Plugins,
    policies: Mapping[str, AccessPolicy],
    restart: Callable[[timedelta], None] | None,
) -> Tooling:
    """All tools for these settings, in one registry behind one executor."""
    settings, store, clock, safety = base.settings, base.store, base.clock, base.safety
    toolbox = build_toolbox(settings, safety, base.guard, base.outbox, base.shelf, base.vault, base.book, restart)
    registry = ToolRegistry([*_local_tools(base), *toolbox.tools])
    jobs = build_jobs(settings, store, clock, signals, base.gateway, base.screened_hooks, channels)
    containers = build_containers(
        settings,
        jobs.scheduler,
        store=store,
        clock=clock,
        llm=base.llm,
        safety=safety,
        registry=registry,
        deliveries=base.gateway,
    )
    built = build_built_tools(settings, store, clock, safety, registry, base.llm, base.sandbox)
    extended = build_extensions(
        settings, store, clock, base.gateway, safety, registry, base.vault, base.book, plugins, built.library
    )
    own = built.tools if settings.agent.allow_local_tools else ()
    for tool in (*jobs.tools(containers.desk), *own, *extended.tools):
        registry.add_builtin(tool)
    for plugged in plugins.tools:
        registry.register(plugged)
    executor = ToolExecutor(
        registry,
        safety,
        RateWindows(clock),
        base.archive,
        LocalToolsFor(settings.agent.local_tools_for.value),
        settings.safety.max_output_length,
        base.hooks,
        StoreToolHealth(store, clock),
    )
    registry.add_builtin(Task(base.llm, registry, executor, safety))
    routines = build_routines(
        settings,
        store=store,
        clock=clock,
        llm=base.llm,
        registry=registry,
        executor=executor,
        safety=safety,
        workspace=base.workspace,
        identity=base.identity,
        hooks=base.hooks,
        gateway=base.gateway,
        places=base.places,
        jobs=JobRuns(jobs.scheduler),
        policies=policies,
    )
    return Tooling(registry, executor, jobs, containers, built, extended.servers, toolbox.images, routines)


def _local_tools(base: Foundation) -> list[AnyTool]:
    """The tools on memory, files and the machine, and the one that sends."""
    settings, is_secret = base.settings, base.safety.contains_secret
    index = build_index(base.store, base.vectors)
    tools: list[AnyTool] = [
        *basic_tools(base.workspace, index, base.archive.find, base.clock, is_secret),
        Message(base.outbox, base.places, settings.workspace, is_secret),
    ]
    if settings.agent.allow_local_tools:
        tools += [*file_tools(settings.workspace), shell_tool(base.sandbox, settings.workspace)]
    return tools
