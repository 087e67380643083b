"""Which tools there are, and which of them a turn is offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import structlog

from agent.llm.base import ToolDefinition
from agent.model.tool_call import JsonValue
from agent.tools.base import Tool
from agent.tools.schema import json_schema

log = structlog.get_logger(__name__)

AnyTool = Tool[Any]

PROTECTED = frozenset(
    {"echo", "time", "json", "http", "shell", "read_file", "write_file", "list_dir", "apply_patch", "build_software"}
    | {"memory_search", "memory_write", "memory_read", "memory_tree", "message", "web_fetch", "restart"}
    | {"create_job", "list_jobs", "job_status", "job_events", "job_prompt", "cancel_job", "event_emit"}
    | {"tool_search", "tool_install", "tool_auth", "tool_activate", "tool_list", "tool_remove", "tool_upgrade"}
    | {"routine_create", "routine_list", "routine_update", "routine_delete", "routine_fire", "routine_history"}
    | {"skill_list", "skill_search", "skill_install", "skill_remove", "secret_list", "secret_delete"}
    | {"image_generate", "image_edit", "image_analyze", "extension_info"}
)
"""Names that only built-in tools may have, registered or not: an extension must not pass for one of them."""


class LocalToolsFor(StrEnum):
    """Who is offered the tools that touch the machine (`AGENT_LOCAL_TOOLS_FOR`)."""

    OPERATOR = "operator"
    EVERYONE = "everyone"


class ToolRegistry:
    """Tools by name. The built-in ones are given at construction and stay; extensions come and go."""

    def __init__(self, builtin: Iterable[AnyTool]) -> None:
        tools = tuple(builtin)
        self._builtin = frozenset(tool.spec.name for tool in tools)
        if len(self._builtin) != len(tools):
            raise ValueError("two built-in tools share a name")
        self._tools = {tool.spec.name: tool for tool in tools}
        self._schemas = {name: json_schema(tool.spec.arguments) for name, tool in self._tools.items()}
        self._offers: dict[bool, tuple[ToolDefinition, ...]] = {}

    def register(self, tool: AnyTool) -> bool:
        """Add or replace an extension's tool. A built-in's name is refused: False, and a warning in the log."""
        name = tool.spec.name
        if name in PROTECTED or name in self._builtin:
            log.warning("tool_name_protected", tool=name)
            return False
        self._tools[name] = tool
        self._schemas[name] = json_schema(tool.spec.arguments)
        self._offers.clear()
        return True

    def unregister(self, name: str) -> bool:
        """Remove an extension's tool; False if there is none of that name."""
        if name in self._builtin or name not in self._tools:
            return False
        del self._tools[name], self._schemas[name]
        self._offers.clear()
        return True

    def get(self, name: str) -> AnyTool | None:
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tools))

    def schema(self, name: str) -> Mapping[str, JsonValue]:
        """The argument schema of a registered tool, as the model sees it."""
        return MappingProxyType(self._schemas[name])

    def offered_to(self, *, is_operator: bool, local_tools_for: LocalToolsFor) -> tuple[ToolDefinition, ...]:
        """The definitions for one turn, by name. The same objects each time, so that prompts stay the same."""
        local = may_use_local(is_operator=is_operator, local_tools_for=local_tools_for)
        if local not in self._offers:
            offered = (self._tools[name] for name in self.names if local or not self._tools[name].spec.local)
            self._offers[local] = tuple(
                ToolDefinition(tool.spec.name, tool.spec.description, self._schemas[tool.spec.name]) for tool in offered
            )
        return self._offers[local]

    def similar(self, name: str) -> tuple[str, ...]:
        """Registered names that look like `name`, best first."""
        return tuple(get_close_matches(name, self.names, n=3, cutoff=0.5))


def may_use_local(*, is_operator: bool, local_tools_for: LocalToolsFor) -> bool:
    """Whether a turn is offered the tools that touch the machine."""
    return is_operator or local_tools_for is LocalToolsFor.EVERYONE
