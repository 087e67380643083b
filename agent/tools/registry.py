"""Which tools there are, and which of them a turn is offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import structlog

from agent.llm.base import ToolDefinition
from agent.model.tool_call import JsonValue
from agent.tools.base import Tool, ToolSpec
from agent.tools.schema import json_schema

log = structlog.get_logger(__name__)

AnyTool = Tool[Any]

_MOST_OFFERS = 64

PROTECTED = frozenset(
    {"echo", "time", "json", "http", "shell", "read_file", "write_file", "list_dir", "apply_patch", "build_software"}
    | {"memory_search", "memory_write", "memory_read", "memory_tree", "message", "web_fetch", "restart"}
    | {"create_job", "list_jobs", "job_status", "job_events", "job_prompt", "cancel_job", "event_emit"}
    | {"tool_search", "tool_install", "tool_auth", "tool_activate", "tool_list", "tool_remove", "tool_upgrade"}
    | {"routine_create", "routine_list", "routine_update", "routine_delete", "routine_fire", "routine_history"}
    | {"skill_list", "skill_search", "skill_install", "skill_remove", "secret_list", "secret_delete"}
    | {"image_generate", "image_edit", "image_analyze", "extension_info"}
    | {"task", "tool_source"}
)
"""Names that only built-in tools may have, registered or not: an extension must not pass for one of them."""


class LocalToolsFor(StrEnum):
    """Who is offered the tools that touch the machine (`AGENT_LOCAL_TOOLS_FOR`)."""

    OPERATOR = "operator"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Audience:
    """For whom and where tools are offered."""

    is_operator: bool
    is_shared: bool
    may_use_local: bool

    @classmethod
    def of(cls, *, is_operator: bool, is_shared: bool, local_tools_for: LocalToolsFor) -> Audience:
        return cls(is_operator, is_shared, is_operator or local_tools_for is LocalToolsFor.EVERYONE)

    def refusal(self, spec: ToolSpec) -> str | None:
        """Why a tool is not for them, or None."""
        if spec.local and not self.may_use_local:
            return "it works on the operator's machine and is not available to this person. It was not run."
        if spec.operator_only and not self.is_operator:
            return "it is for the operator of this bot alone. It was not run."
        if spec.private_only and self.is_shared:
            return "it works in private chats alone, and this chat has other readers. It was not run."
        return None


class ToolRegistry:
    """Tools by name. The built-in ones stay; extensions come and go."""

    def __init__(self, builtin: Iterable[AnyTool]) -> None:
        self._builtin: set[str] = set()
        self._tools: dict[str, AnyTool] = {}
        self._definitions: dict[str, ToolDefinition] = {}
        self._offers: dict[tuple[Audience, frozenset[str]], tuple[ToolDefinition, ...]] = {}
        for tool in builtin:
            self.add_builtin(tool)

    def add_builtin(self, tool: AnyTool) -> None:
        """Add a tool that comes with the bot. Raises ValueError if there is one of that name."""
        name = tool.spec.name
        if name in self._tools:
            raise ValueError(f"two built-in tools share the name {name}")
        self._builtin.add(name)
        self._put(tool)

    def register(self, tool: AnyTool) -> bool:
        """Add or replace an extension's tool. A built-in's name is refused: False, and a warning in the log."""
        name = tool.spec.name
        if name in PROTECTED or name in self._builtin:
            log.warning("tool_name_protected", tool=name)
            return False
        self._put(tool)
        return True

    def unregister(self, name: str) -> bool:
        """Remove an extension's tool; False if there is none of that name."""
        if name in self._builtin or name not in self._tools:
            return False
        del self._tools[name], self._definitions[name]
        self._offers.clear()
        return True

    def get(self, name: str) -> AnyTool | None:
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tools))

    def schema(self, name: str) -> Mapping[str, JsonValue]:
        """The argument schema of a registered tool, as the model sees it."""
        return MappingProxyType(dict(self._definitions[name].parameters))

    def offered_to(self, audience: Audience, found: frozenset[str] = frozenset()) -> tuple[ToolDefinition, ...]:
        """The definitions for one turn: by name, then the rare ones among `found`. The same objects each time."""
        wanted = frozenset(name for name in found if name in self._tools and self._tools[name].spec.rare)
        key = (audience, wanted)
        if key not in self._offers:
            if len(self._offers) >= _MOST_OFFERS:
                self._offers.clear()
            usable = [name for name in self.names if audience.refusal(self._tools[name].spec) is None]
            common = [name for name in usable if not self._tools[name].spec.rare]
            self._offers[key] = tuple(
                self._definitions[name] for name in (*common, *(name for name in usable if name in wanted))
            )
        return self._offers[key]

    def rare(self, audience: Audience) -> tuple[ToolDefinition, ...]:
        """The tools that are not in the prompt before they are searched for."""
        tools = (self._tools[name] for name in self.names)
        return tuple(
            self._definitions[tool.spec.name]
            for tool in tools
            if tool.spec.rare and audience.refusal(tool.spec) is None
        )

    def similar(self, name: str) -> tuple[str, ...]:
        """Registered names that look like `name`, best first."""
        return tuple(get_close_matches(name, self.names, n=3, cutoff=0.5))

    def _put(self, tool: AnyTool) -> None:
        spec = tool.spec
        schema = json_schema(spec.arguments) if spec.schema is None else spec.schema
        self._tools[spec.name] = tool
        self._definitions[spec.name] = ToolDefinition(spec.name, spec.description, schema)
        self._offers.clear()
