"""The hooks of a process: the audit, those of plug-ins and those of the workspace's files."""

from __future__ import annotations

from pathlib import Path

from agent.clock import Clock
from agent.hooks.audit import audit_hook
from agent.hooks.bundles import HookBundles
from agent.hooks.runner import HookRunner
from agent.hooks.webhooks import post_to_the_web
from bot.plugins import Plugins


def build_hooks(plugins: Plugins, workspace: Path, clock: Clock) -> HookRunner:
    """The runner with all hooks; those of files come with its first `refresh`."""
    hooks = HookRunner()
    for hook in (audit_hook(), *plugins.hooks):
        hooks.register(hook)
    for around_tools in plugins.tool_hooks:
        hooks.register_tool_hooks(around_tools)
    hooks.follow(HookBundles(workspace, hooks, post_to_the_web, clock).refresh)
    return hooks
