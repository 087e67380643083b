"""Builds what runs jobs in containers. Nothing of it is started before the first one is wanted."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from agent.clock import Clock
from agent.conversation.ports import Deliveries
from agent.jobs.container.choose import ContainerSettings, choose_container
from agent.jobs.container.desk import ContainerDesk, Creator
from agent.jobs.container.host import ContainerHost, RefusingHost
from agent.jobs.container.hosts import ContainerHosts
from agent.jobs.container.turns import ContainerTurns
from agent.llm.base import LLMProvider
from agent.safety.layer import SafetyLayer
from agent.store.base import Store
from agent.tools.registry import ToolRegistry
from bot.container_door import ContainerDoor
from config.settings import LocalToolsFor, Settings


@dataclass(frozen=True, slots=True)
class Containers:
    """`hosts.run` is a service; `door.close` ends what listens."""

    hosts: ContainerHosts
    door: ContainerDoor
    desk: ContainerDesk
    turns: ContainerTurns


def build_containers(
    settings: Settings,
    creator: Creator,
    *,
    store: Store,
    clock: Clock,
    llm: LLMProvider,
    safety: SafetyLayer,
    registry: ToolRegistry,
    deliveries: Deliveries,
) -> Containers:
    """Containers for these settings. Who may use the shell may have one."""

    async def choose(mark: str) -> ContainerHost | RefusingHost:
        return await choose_container(container_settings(settings), mark, shutil.which)

    def may_use(is_operator: bool) -> bool:
        is_for_all = settings.agent.local_tools_for is LocalToolsFor.EVERYONE
        return settings.agent.allow_local_tools and (is_operator or is_for_all)

    hosts = ContainerHosts(settings.home, choose, clock)
    door = ContainerDoor()
    turns = ContainerTurns(settings.workspace, hosts, door, store, clock, llm, safety, registry, deliveries, may_use)
    return Containers(hosts, door, ContainerDesk(creator, hosts, store, clock, may_use), turns)


def container_settings(settings: Settings) -> ContainerSettings:
    """What the operator chose."""
    chosen = settings.sandbox
    return ContainerSettings(
        backend=chosen.container.value,
        image=chosen.container_image or "",
        rootfs=Path(chosen.container_rootfs) if chosen.container_rootfs else None,
        own_root=settings.home / "containers" / "root",
    )
