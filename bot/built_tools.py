"""Builds what makes, keeps and runs the tools that the agent writes itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.clock import Clock
from agent.dynamic.bench import Bench, Place
from agent.dynamic.library import ToolLibrary
from agent.dynamic.tool import Surroundings
from agent.llm.base import LLMProvider
from agent.safety.layer import SafetyLayer
from agent.store import conversations, tool_health
from agent.store.base import Store, Transaction
from agent.tools.builtin.build_software import BuildSoftware, ToolSource
from agent.tools.builtin.shell import hidden_folders
from agent.tools.registry import AnyTool, ToolRegistry
from agent.tools.sandbox import RefusingSandbox
from agent.tools.sandbox_bubblewrap import PROGRAM_PATH
from agent.tools.sandbox_door import find_python
from agent.tools.sandbox_request import Sandbox
from agent.workspace.paths import AGENT_FILES, GUARDED_FOLDERS
from agent.workspace.scope import OperatorScope, Scope
from config.settings import SandboxBackend, Settings

_OFF = "built tools run in a sandbox alone, and SANDBOX_BACKEND=off"


@dataclass(frozen=True, slots=True)
class BuiltTools:
    """The tools to build tools with, and where those are kept.

    `rebuild` looks for a cure of a broken tool and gives what the operator is to be told; None: it was not built here.
    """

    tools: tuple[AnyTool, ...]
    library: ToolLibrary
    rebuild: Callable[[str], Awaitable[str | None]]


def build_built_tools(
    settings: Settings,
    store: Store,
    clock: Clock,
    safety: SafetyLayer,
    registry: ToolRegistry,
    llm: LLMProvider,
    sandbox: Sandbox,
) -> BuiltTools:
    """Everything about built tools. They see of each scope's folder what the shell sees, by the same walls."""

    async def forget(tool: str) -> None:
        def work(tx: Transaction) -> None:
            conversations.revoke_everywhere(tx, tool)
            tool_health.forget_tool(tx, tool)

        await store.write(work)

    has_walls = settings.sandbox.backend is not SandboxBackend.OFF
    bench = Bench(sandbox if has_walls else RefusingSandbox(_OFF), find_python(PROGRAM_PATH))
    around = Surroundings(partial(_place_of, settings.workspace), asks_hosts=bool(settings.sandbox.allow_hosts))
    library = ToolLibrary(settings.home / "tools", registry, bench, around, forget, clock)

    async def rebuild(name: str) -> str | None:
        from agent.dynamic.repair import ToolBuilder, notice  # most processes never need it

        result = await ToolBuilder(library, bench, llm, safety.contains_secret).rebuild(name)
        return None if result is None else notice(result)

    tools = (BuildSoftware(library, bench, safety.contains_secret, safety.hide_secrets), ToolSource(library))
    return BuiltTools(tools, library, rebuild)


def _place_of(workspace: Path, scope: Scope) -> Place:
    folder = workspace / scope.folder
    return Place(
        folder,
        hidden=hidden_folders(scope, folder),
        readonly=tuple(workspace / name for name in AGENT_FILES),
        readonly_folders=tuple(workspace / name for name in sorted(GUARDED_FOLDERS))
        if isinstance(scope, OperatorScope)
        else (),
    )
