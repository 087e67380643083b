"""Extensions from the model's side: find tools that are not in the prompt, list, connect, add and remove servers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Literal, Protocol

from pydantic import Field

from agent.dynamic.errors import BuildError
from agent.extensions.catalogue import Service
from agent.extensions.view import Extension, ExtensionKind
from agent.llm.base import ToolDefinition
from agent.mcp.errors import ConfigUnusable
from agent.mcp.names import SERVER_NAME
from agent.mcp.outcome import Connected, NotConnected, Outcome
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.net.address import Unreachable, check_url, holds_credential
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, ToolContext, ToolSpec
from agent.tools.builtin.auth import PRIVATE_ONLY, UNREACHABLE, error, told
from agent.tools.registry import Audience, LocalToolsFor
from agent.tools.schema import Arguments
from channels.message import Address

_MOST_TOOLS = 8
_MOST_EXTENSIONS = 20
_LARGEST_ANSWER = 40_000
_PATIENCE = timedelta(seconds=150)


class RareTools(Protocol):
    """Where the tools are that are not in the prompt."""

    def rare(self, audience: Audience) -> tuple[ToolDefinition, ...]: ...


class Names(Protocol):
    """The names of stored credentials."""

    async def names(self, user: UserId) -> tuple[str, ...]: ...


class Services(Protocol):
    """The services that credentials are for."""

    @property
    def faults(self) -> tuple[tuple[str, str], ...]: ...

    def reload(self) -> None: ...

    def find(self, name: str) -> Service | None: ...

    def extensions(self, stored: Iterable[str]) -> tuple[Extension, ...]: ...


class Servers(Protocol):
    """The MCP servers."""

    async def activate(self, name: str, address: Address) -> Outcome: ...

    async def install(self, name: str, url: str) -> Connected | NotConnected: ...

    async def remove(self, name: str) -> bool: ...

    def credentials_of(self, name: str) -> tuple[str, ...]: ...


class Overview:
    """Everything that can be connected, as one person may see it. `sources`: extensions that are no services."""

    def __init__(
        self, services: Services, credentials: Names, sources: Sequence[Callable[[], tuple[Extension, ...]]]
    ) -> None:
        self._services = services
        self._credentials = credentials
        self._sources = sources

    async def of(self, context: ToolContext) -> tuple[Extension, ...]:
        """By kind and name. What is connected for the operator alone, others are not told. Raises StoreError."""
        await asyncio.to_thread(self._services.reload)
        stored = () if context.is_shared else await self._credentials.names(context.user)
        own = (extension for source in self._sources for extension in source())
        faulty = (
            Extension(
                ExtensionKind.SERVICE, name, "an entry of services.json", is_on=False, state="unusable", detail=why
            )
            for name, why in self._services.faults
        )
        known = [*own, *self._services.extensions(stored), *faulty]
        is_private = context.is_operator and not context.is_shared
        return tuple(
            sorted((each for each in known if is_private or each.for_everyone), key=lambda each: (each.kind, each.name))
        )


class SearchArguments(Arguments):
    """Arguments of `tool_search`."""

    query: str = Field(description="what the tool should do, in a few words", min_length=1, max_length=500)
    discover: bool = Field(default=False, description="also what is not connected yet")


class ToolSearch:
    """Finds tools that are not in the prompt, with all that is needed to call them."""

    spec: ClassVar = ToolSpec(
        "tool_search",
        "Find more tools: for pictures, skills, stored credentials, services to connect, MCP servers and what they "
        "offer. Tools found can be called at once.",
        SearchArguments,
        Effect.READ,
    )

    def __init__(self, registry: RareTools, overview: Overview, local_tools_for: LocalToolsFor) -> None:
        self._registry = registry
        self._overview = overview
        self._local_tools_for = local_tools_for

    def scope(self, arguments: SearchArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SearchArguments, context: ToolContext) -> ToolOutput:
        audience = Audience.of(
            is_operator=context.is_operator, is_shared=context.is_shared, local_tools_for=self._local_tools_for
        )
        words = frozenset(re.findall(r"\w+", arguments.query.lower()))
        tools = _best(words, self._registry.rare(audience))
        try:
            known = await self._overview.of(context)
        except StoreError:
            known = ()
        fitting = [
            each
            for each in known
            if (each.is_on or arguments.discover or each.kind is not ExtensionKind.SERVICE)
            and _score(words, each.name, each.description)
        ]
        answer: dict[str, object] = {
            "tools": [_shown_tool(tool) for tool in tools],
            "extensions": [_shown(each) for each in fitting[:_MOST_EXTENSIONS]],
        }
        if not tools and not fitting:
            answer["hint"] = "Nothing fits. Try other words, or discover: true for what is not connected yet."
        return ToolOutput(json.dumps(answer, ensure_ascii=False))


class ListArguments(Arguments):
    """Arguments of `tool_list`."""

    kind: ExtensionKind | None = Field(default=None, description="mcp, service or plugin; all if left out")
    include_available: bool = Field(default=False, description="also services that are not connected")


class ToolList:
    """Lists what is connected."""

    spec: ClassVar = ToolSpec(
        "tool_list",
        "List MCP servers, services and plug-ins: what is connected, and what is wrong.",
        ListArguments,
        Effect.READ,
        rare=True,
    )

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def scope(self, arguments: ListArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: ListArguments, context: ToolContext) -> ToolOutput:
        try:
            known = await self._overview.of(context)
        except StoreError:
            return error(UNREACHABLE)
        shown = [
            _shown(each)
            for each in known
            if (arguments.kind is None or each.kind is arguments.kind)
            and (arguments.include_available or each.state != "available")
        ]
        return ToolOutput(json.dumps(shown, ensure_ascii=False) if shown else "Nothing is connected.")


class ServerArguments(Arguments):
    """Arguments of `tool_activate`."""

    name: str = Field(description="the server's name", min_length=1, max_length=64)


class ToolActivate:
    """Switches a server on, or connects it anew."""

    spec: ClassVar = ToolSpec(
        "tool_activate",
        "Switch on an MCP server that is configured, or connect it again.",
        ServerArguments,
        Effect.WRITE,
        timeout=_PATIENCE,
        operator_only=True,
        rare=True,
    )

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def scope(self, arguments: ServerArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: ServerArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return error(PRIVATE_ONLY)
        try:
            return told(await self._servers.activate(arguments.name, context.address))
        except ConfigUnusable as fault:
            return error(str(fault))


class InstallArguments(Arguments):
    """Arguments of `tool_install`."""

    name: str = Field(description="a name for it: a-z, 0-9 and -", min_length=1, max_length=32)
    url: str = Field(description="its public https address")
    kind: Literal["mcp"] = Field(default="mcp")


class ToolInstall:
    """Adds a server over HTTP."""

    spec: ClassVar = ToolSpec(
        "tool_install",
        "Add an MCP server by its address. Its tools ask before they run.",
        InstallArguments,
        Effect.OUTSIDE,
        Approval.UNLESS_ALWAYS,
        timeout=_PATIENCE,
        operator_only=True,
        rare=True,
    )

    def __init__(self, servers: Servers, services: Services) -> None:
        self._servers = servers
        self._services = services

    def scope(self, arguments: InstallArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: InstallArguments, context: ToolContext) -> ToolOutput:
        name = arguments.name
        if not SERVER_NAME.fullmatch(name):
            return error("the name may have 1 to 32 of a-z, 0-9 and -. Nothing was added.")
        if self._services.find(name) is not None:
            return error(f"{name} is the name of a service, whose key must not go elsewhere. Choose another name.")
        try:
            url = str(check_url(arguments.url))
            if holds_credential(url):
                return error("the address holds a credential. Add the address without it, then use tool_auth.")
            outcome = await self._servers.install(name, url)
        except (Unreachable, ConfigUnusable) as fault:
            return error(f"{fault} Nothing was added.")
        if isinstance(outcome, Connected):
            return ToolOutput(f"Added and connected: {outcome.detail}.")
        return ToolOutput(f"Added, but not connected: {outcome.reason} If it wants a credential, use tool_auth.")


class RemoveArguments(Arguments):
    """Arguments of `tool_remove`."""

    name: str = Field(description="of the server or of the built tool", min_length=1, max_length=64)


class ToolRemove:
    """Takes a server out, or a tool that was built here."""

    spec: ClassVar = ToolSpec(
        "tool_remove",
        "Remove for good: an MCP server and its tools, or a tool that build_software made.",
        RemoveArguments,
        Effect.WRITE,
        Approval.ALWAYS,
        operator_only=True,
        rare=True,
    )

    def __init__(self, servers: Servers, credentials: Names, remove_built: Callable[[str], Awaitable[bool]]) -> None:
        self._servers = servers
        self._credentials = credentials
        self._remove_built = remove_built

    def scope(self, arguments: RemoveArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: RemoveArguments, context: ToolContext) -> ToolOutput:
        try:
            if await self._remove_built(arguments.name):
                return ToolOutput("Removed, with its earlier version.")
        except BuildError as fault:
            return error(str(fault))
        own = self._servers.credentials_of(arguments.name)
        try:
            if not await self._servers.remove(arguments.name):
                return error("no server of this name is in mcp.json, and no tool was built under it.")
            stored = await self._credentials.names(context.user)
        except ConfigUnusable as fault:
            return error(str(fault))
        except StoreError:
            return ToolOutput("Removed.")
        left = [name for name in own if name in stored]
        note = f" Still stored: {', '.join(left)}; secret_delete forgets them." if left else ""
        return ToolOutput(f"Removed.{note}")


def _best(words: Iterable[str], tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """The tools that fit best, as many as an answer may hold."""
    scored = sorted(
        ((score, tool) for tool in tools if (score := _score(words, tool.name, tool.description))),
        key=lambda pair: (-pair[0], pair[1].name),
    )
    found: list[ToolDefinition] = []
    room = _LARGEST_ANSWER
    for _, tool in scored[:_MOST_TOOLS]:
        room -= len(json.dumps(_shown_tool(tool), ensure_ascii=False))
        if found and room < 0:
            break
        found.append(tool)
    return found


def _score(words: Iterable[str], name: str, description: str) -> int:
    """How well something fits: a word in its name counts thrice."""
    name, description = name.lower(), description.lower()
    return sum(3 * (word in name) + (word in description) for word in words)


def _shown_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def _shown(extension: Extension) -> dict[str, str]:
    shown = {
        "kind": extension.kind.value,
        "name": extension.name,
        "state": extension.state,
        "about": extension.description,
    }
    return shown | {"detail": extension.detail} if extension.detail else shown
