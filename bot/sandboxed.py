"""The shell tool with this machine's sandbox, which is tested after the start and before the first command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent.net.address import is_public
from agent.tools.builtin.shell import ShellTool
from agent.tools.sandbox import choose_sandbox
from agent.tools.sandbox_proxy import HostProxy
from agent.tools.sandbox_request import Outcome, Sandbox, SandboxRequest
from agent.workspace.paths import AGENT_FILES, GUARDED_FOLDERS
from agent.workspace.scope import OperatorScope, Scope
from config.hosts import HostRule
from config.settings import Settings


class LateSandbox:
    """Chooses and tests the sandbox once, at `warm_up` or at the first command: the start need not wait for it."""

    def __init__(self, backend: str, hosts: Sequence[HostRule] = ()) -> None:
        self._backend = backend
        self._hosts = hosts
        self._chosen: Sandbox | None = None
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._chosen.name if self._chosen else self._backend

    async def warm_up(self) -> None:
        await self._sandbox()

    async def run(self, request: SandboxRequest) -> Outcome:
        return await (await self._sandbox()).run(request)

    async def _sandbox(self) -> Sandbox:
        async with self._lock:
            if self._chosen is None:
                proxy = _proxy(self._hosts) if self._hosts else None
                self._chosen = await choose_sandbox(self._backend, proxy=proxy)
        return self._chosen


def shell_tool(sandbox: Sandbox, workspace: Path) -> ShellTool:
    """The shell on the folders of the workspace: each scope sees its own, and the agent's files for reading.

    The operator's holds folders that say what the agent does. Commands read them only, too.
    """
    shown = tuple(workspace / name for name in AGENT_FILES)
    guarded = tuple(workspace / name for name in sorted(GUARDED_FOLDERS))

    def folder_of(scope: Scope) -> Path:
        return workspace / scope.folder

    def readonly_files(scope: Scope) -> tuple[Path, ...]:
        return shown

    def readonly_folders(scope: Scope) -> tuple[Path, ...]:
        return guarded if isinstance(scope, OperatorScope) else ()

    return ShellTool(sandbox, folder_of, readonly_files, readonly_folders)


def late_sandbox(settings: Settings) -> LateSandbox:
    """The sandbox that the settings ask for."""
    return LateSandbox(settings.sandbox.backend.value, settings.sandbox.allow_hosts)


def _proxy(hosts: Sequence[HostRule]) -> HostProxy:
    from agent.net.client import look_up  # brings an HTTP client along, which most shells have no use for

    return HostProxy(hosts, look_up, is_public)
