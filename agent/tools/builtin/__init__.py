"""The tools that come with the bot."""

from __future__ import annotations

from pathlib import Path

from agent.clock import Clock
from agent.tools.builtin.echo import Echo
from agent.tools.builtin.files import ApplyPatch, ListDir, ReadFile, WriteFile
from agent.tools.builtin.json import JsonTool, Stash
from agent.tools.builtin.memory import IsSecret, MemoryRead, MemorySearch, MemoryTree, MemoryWrite, Search
from agent.tools.builtin.time import TimeTool
from agent.tools.registry import AnyTool
from agent.workspace.workspace import Workspace


def basic_tools(
    workspace: Workspace, search: Search, stash: Stash, clock: Clock, is_secret: IsSecret
) -> tuple[AnyTool, ...]:
    """The tools that everybody is offered: echo, time, json and memory."""
    return (
        Echo(),
        TimeTool(clock),
        JsonTool(stash),
        MemorySearch(workspace, search),
        MemoryWrite(workspace, is_secret),
        MemoryRead(workspace),
        MemoryTree(workspace),
    )


def file_tools(root: Path) -> tuple[AnyTool, ...]:
    """The tools on files below `root`, the workspace's folder. They are local."""
    return (ReadFile(root), WriteFile(root), ListDir(root), ApplyPatch(root))
