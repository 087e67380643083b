"""Builds what runs jobs in containers. What only they need is imported with the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.clock import Clock
from agent.conversation.envelope import Envelope
from agent.conversation.ports import Deliveries
from agent.jobs.container.desk import ContainerDesk, Creator
from agent.jobs.container.host import ContainerHost, RefusingHost
from agent.jobs.container.hosts import ContainerHosts
from agent.jobs.container.ports import Life, Pulse
from agent.jobs.container.wish import ContainerWish
from agent.llm.base import LLMProvider
from agent.loop.agentic_loop import Finish
from agent.model.job import Job
from agent.safety.layer import SafetyLayer
from agent.store.base import Store
from agent.tools.registry import ToolRegistry
from config.settings import LocalToolsFor, Settings

if TYPE_CHECKING:
    from agent.jobs.container.choose import ContainerSettings
    from agent.jobs.container.turns import ContainerTurns
    from bot.container_door import ContainerDoor


class LateContainers:
    """`agent.jobs.container.ports.ContainerWork`, built and listening from the first job on. Close it at the end."""

    def __init__(self, mark: str, build: Callable[[ContainerDoor], ContainerTurns]) -> None:
        self._mark = mark
        self._build = build
        self._door: ContainerDoor | None = None
        self._turns: ContainerTurns | None = None

    async def work(self, wish: ContainerWish, job: Job, envelope: Envelope, life: Life, pulse: Pulse) -> Finish:
        if self._turns is None:
            from bot.container_door import ContainerDoor

            self._door = ContainerDoor(self._mark)
            self._turns = self._build(self._door)
        return await self._turns.work(wish, job, envelope, life, pulse)

    async def close(self) -> None:
        """Listen no more."""
        if self._door is not None:
            await self._door.close()


@dataclass(frozen=True, slots=True)
class Containers:
    """`hosts.run` is a service that ends orphans, `desk` takes wishes, `turns` works on them."""

    hosts: ContainerHosts
    desk: ContainerDesk
    turns: LateContainers


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
        from agent.jobs.container.choose import choose_container

        return await choose_container(container_settings(settings), mark)

    def may_use(is_operator: bool) -> bool:
        is_for_all = settings.agent.local_tools_for is LocalToolsFor.EVERYONE
        return settings.agent.allow_local_tools and (is_operator or is_for_all)

    hosts = ContainerHosts(settings.home, choose, clock)

    def build(door: ContainerDoor) -> ContainerTurns:
        from agent.jobs.container.turns import ContainerTurns

        return ContainerTurns(settings.workspace, hosts, door, store, clock, llm, safety, registry, deliveries, may_use)

    return Containers(hosts, ContainerDesk(creator, hosts, store, clock, may_use), LateContainers(hosts.mark, build))


def container_settings(settings: Settings) -> ContainerSettings:
    """What the operator chose."""
    from agent.jobs.container.choose import ContainerSettings

    chosen = settings.sandbox
    return ContainerSettings(
        backend=chosen.container.value,
        image=chosen.container_image or "",
        rootfs=Path(chosen.container_rootfs) if chosen.container_rootfs else None,
        own_root=settings.home / "containers" / "root",
    )
