"""All built tools: kept on disk, registered, replaced, switched off and removed."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from agent.clock import Clock
from agent.dynamic import folder
from agent.dynamic.bench import Bench
from agent.dynamic.blueprint import Blueprint, is_tool_name
from agent.dynamic.errors import BuildRefused, ToolsUnavailable
from agent.dynamic.folder import MOST_TOOLS, Built, State, Unreadable
from agent.dynamic.tool import DynamicTool, Surroundings
from agent.tools.registry import PROTECTED, ToolRegistry

log = structlog.get_logger(__name__)

MOST_COMMON = 8
"""With more of them none is in the prompt before it is searched for."""
_FAULTS_KEPT = 10

Forget = Callable[[str], Awaitable[None]]
"""Forgets what was remembered of an earlier tool of this name: each "always", and how often it broke."""


@dataclass(frozen=True, slots=True)
class Source:
    """What can be read of a tool: as it is, as it was before, and a script that was proposed in its place."""

    built: Built
    previous: Built | None
    proposal: str | None


class ToolLibrary:
    """The built tools of this home. Changes take turns; none of them waits for a script."""

    def __init__(
        self, root: Path, registry: ToolRegistry, bench: Bench, around: Surroundings, forget: Forget, clock: Clock
    ) -> None:
        self._root = root
        self._registry = registry
        self._bench = bench
        self._around = around
        self._forget = forget
        self._clock = clock
        self._built: dict[str, Built] = {}
        self._faults: dict[str, deque[str]] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Register what earlier processes left. A tool that was changed on disk stays away, with a warning."""
        async with self._lock:
            try:
                found = await asyncio.to_thread(self._read_all)
            except OSError as error:
                log.error("built_tools_unreadable", error=type(error).__name__)
                return
            for built in found:
                if (reason := self.refusal(built.blueprint.name)) is None:
                    self._built[built.blueprint.name] = built
                else:
                    log.warning("built_tool_passed_over", tool=built.blueprint.name, reason=reason)
            self._register()
        if self._built:
            log.info("built_tools_loaded", count=len(self._built))

    def all(self) -> Sequence[Built]:
        """Every tool that is kept and as it was approved, by name."""
        return tuple(self._built[name] for name in sorted(self._built))

    def refusal(self, name: str) -> str | None:
        """Why no tool may be built under this name; None if it may, also in place of one that was built before."""
        if name in self._built:
            return None
        if name in PROTECTED or self._registry.get(name) is not None:
            return f"the name {name!r} belongs to another tool. Choose another one."
        if len(self._built) >= MOST_TOOLS:
            return f"{MOST_TOOLS} tools are built, which is the limit. Remove one first."
        return None

    def faults(self, name: str) -> Sequence[str]:
        """The kinds of the latest faults of a tool's script, oldest first."""
        return tuple(self._faults.get(name, ()))

    async def build(self, blueprint: Blueprint) -> Built:
        """Keep and register a tool that was tried out and approved. Raises BuildError; then nothing has changed.

        Whatever was allowed for good of an earlier tool of this name is asked about again.
        """
        name = blueprint.name
        async with self._lock:
            if (reason := self.refusal(name)) is not None:
                raise BuildRefused(reason)
            await self._forget(name)
            with _as_ours():
                built = await asyncio.to_thread(folder.save, self._root, blueprint, self._clock.now())
            self._built[name] = built
            self._faults.pop(name, None)
            self._register()
        log.info("tool_built", tool=name, version=built.version, writes=blueprint.writes)
        return built

    async def source(self, name: str) -> Source | None:
        """All that is kept of a tool."""
        built = self._built.get(name)
        if built is None:
            return None
        previous = await asyncio.to_thread(folder.read_previous, self._root, name)
        return Source(built, previous, await asyncio.to_thread(folder.proposal, self._root, name))

    async def propose(self, built: Built, code: str) -> bool:
        """Put a script aside for a person to read; False if the tool has changed meanwhile. Raises ToolsUnavailable."""
        name = built.blueprint.name
        async with self._lock:
            current = self._built.get(name)
            if current is None or current.version != built.version:
                return False
            with _as_ours():
                await asyncio.to_thread(folder.propose, self._root, name, code)
        return True

    async def switch_off(self, name: str) -> Built | None:
        """Take a tool away until it is built anew; None if there is none. Raises ToolsUnavailable, and it is away."""
        async with self._lock:
            built = self._built.get(name)
            if built is None:
                return None
            self._built[name] = built = replace(built, state=State.DISABLED)
            self._registry.unregister(name)
            with _as_ours():
                await asyncio.to_thread(folder.mark, self._root, built)
        log.warning("built_tool_switched_off", tool=name)
        return built

    async def remove(self, name: str) -> bool:
        """Delete a tool for good; False if none of this name was built. Raises ToolsUnavailable."""
        if not is_tool_name(name):
            return False
        async with self._lock:
            with _as_ours():
                was_there = await asyncio.to_thread(folder.remove, self._root, name)
            if self._built.pop(name, None) is not None:
                self._registry.unregister(name)
                self._register()
        if was_there:
            log.info("built_tool_removed", tool=name)
        return was_there

    def _read_all(self) -> list[Built]:
        found: list[Built] = []
        for name in folder.names(self._root)[:MOST_TOOLS]:
            try:
                found.append(folder.read(self._root, name))
            except (Unreadable, OSError) as error:
                reason = str(error) if isinstance(error, Unreadable) else type(error).__name__
                log.warning("built_tool_disabled", tool=name, reason=reason)
        return found

    def _register(self) -> None:
        active = [each for each in self._built.values() if each.state is State.ACTIVE]
        is_rare = len(active) > MOST_COMMON
        for built in active:
            name = built.blueprint.name
            note = partial(self._note_fault, name)
            tool = DynamicTool(built.blueprint, self._bench, self._around, note, is_rare=is_rare)
            self._registry.register(tool)

    def _note_fault(self, name: str, kind: str) -> None:
        self._faults.setdefault(name, deque(maxlen=_FAULTS_KEPT)).append(kind)


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolsUnavailable(os.strerror(error.errno) if error.errno else "an unknown fault") from error
