"""A server's tool as one of ours: named after the server, described in its words, checked and run like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from agent.mcp.config import OfferedTo, ServerConfig
from agent.mcp.errors import ServerError
from agent.mcp.results import call_output
from agent.mcp.schema import SchemaUnusable, argument_check, usable_schema
from agent.mcp.words import tool_description, tool_names
from agent.model.tool_call import JsonValue, ToolOutput
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec

log = structlog.get_logger(__name__)

RATE = RateLimit(per_minute=60, per_hour=600)
_MARGIN = timedelta(seconds=10)
"""The executor waits longer than the connection, which says better what happened."""

Call = Callable[[str, Mapping[str, JsonValue]], Awaitable[Mapping[str, object]]]
Hide = Callable[[str], str]


class AnyArguments(RootModel[dict[str, Any]]):
    """Arguments as they came: the server's schema says what they must be."""

    model_config = ConfigDict(frozen=True)


class _Annotations(BaseModel):
    """The server's hints. What is no boolean hints at nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    read_only: bool | None = Field(default=None, alias="readOnlyHint")
    destructive: bool | None = Field(default=None, alias="destructiveHint")


class _Record(BaseModel):
    """What is read of a server's record of a tool."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    schema_: Any = Field(alias="inputSchema")
    annotations: Any = None


class McpTool:
    """One tool of one server."""

    def __init__(self, spec: ToolSpec, remote_name: str, call: Call, hide: Hide) -> None:
        self.spec = spec
        self._remote_name = remote_name
        self._call = call
        self._hide = hide

    def made_rare(self, *, is_rare: bool) -> McpTool:
        """The same tool, in the prompt from the start or only once it was searched for."""
        return McpTool(replace(self.spec, rare=is_rare), self._remote_name, self._call, self._hide)

    def scope(self, arguments: AnyArguments) -> PathScope | None:
        return PathScope.nothing() if self.spec.effect is Effect.READ else None

    async def run(self, arguments: AnyArguments, context: ToolContext) -> ToolOutput:
        try:
            raw = await self._call(self._remote_name, arguments.root)
        except ServerError as error:
            return ToolOutput(self._hide(str(error)), is_error=True)
        return await asyncio.to_thread(call_output, raw, self._hide)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server has to offer: the tools that can be used, and how many cannot."""

    tools: tuple[McpTool, ...] = ()
    unusable: int = 0


def read_offer(config: ServerConfig, records: Iterable[object], call: Call, hide: Hide, call_limit: timedelta) -> Offer:
    """The tools of a listing. May take a moment: a listing can be large. A bad tool costs itself."""
    known: dict[str, _Record] = {}
    unusable = 0
    for raw in records:
        try:
            record = _Record.model_validate(raw)
        except ValidationError:
            unusable += 1
            continue
        known.setdefault(record.name, record)
    tools: list[McpTool] = []
    for remote, name in tool_names(config.name, known).items():
        try:
            schema = usable_schema(known[remote].schema_)
        except SchemaUnusable as reason:
            log.warning("mcp_tool_unusable", tool=name, reason=str(reason))
            unusable += 1
            continue
        tools.append(McpTool(_spec(config, name, known[remote], schema, call_limit), remote, call, hide))
    return Offer(tuple(tools), unusable)


def _spec(
    config: ServerConfig, name: str, record: _Record, schema: dict[str, JsonValue], call_limit: timedelta
) -> ToolSpec:
    check = argument_check(schema)
    only_reads = config.is_trusted and _only_reads(record.annotations)
    is_operators = config.offered_to is OfferedTo.OPERATOR
    return ToolSpec(
        name,
        tool_description(config.name, record.description or ""),
        AnyArguments,
        Effect.READ if only_reads else Effect.OUTSIDE,
        Approval.NEVER if only_reads else Approval.UNLESS_ALWAYS,
        check=lambda arguments: check(arguments.root),
        timeout=call_limit + _MARGIN,
        rate=RATE,
        operator_only=is_operators,
        private_only=is_operators,
        schema=schema,
    )


def _only_reads(annotations: object) -> bool:
    """Whether the server says that a tool only reads, and does not say in the same breath that it destroys."""
    try:
        hints = _Annotations.model_validate(annotations)
    except ValidationError:
        return False
    return hints.read_only is True and hints.destructive is not True
