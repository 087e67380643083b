"""Remembering: the workspace's documents, as far as the one who asks may see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Protocol

from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.safety.sanitizer import sanitize
from agent.store.errors import StoreError
from agent.store.search import Corpus, Hit
from agent.tools.base import Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.schema import Arguments
from agent.workspace.errors import DocumentMissing, PathRefused, WorkspaceError
from agent.workspace.paths import normalize
from agent.workspace.scope import GroupScope
from agent.workspace.workspace import Workspace

IsSecret = Callable[[str], bool]
"""Whether a text holds a key, token or password."""

_SECRET = (
    "the content holds what looks like a key, token or password; nothing was saved. Save it without that part: "
    "credentials are asked for with tool_auth and kept encrypted."
)


class Search(Protocol):
    """What finds passages."""

    async def search(self, corpus: Corpus, query: str, limit: int = 10) -> tuple[Hit, ...]: ...


class MemorySearchArguments(Arguments):
    """Arguments of `memory_search`."""

    query: str
    limit: int = Field(default=5, ge=1, le=20)


class MemorySearch:
    """Finds passages in the documents by their words."""

    spec: ClassVar = ToolSpec(
        "memory_search",
        "Search memory, notes and documents by words. Do so before saying you don't know something about the person.",
        MemorySearchArguments,
        Effect.READ,
    )

    def __init__(self, workspace: Workspace, search: Search) -> None:
        self._workspace = workspace
        self._search = search

    def scope(self, arguments: MemorySearchArguments) -> PathScope:
        return PathScope.of("")

    async def run(self, arguments: MemorySearchArguments, context: ToolContext) -> ToolOutput:
        try:
            hits = await self._search.search(self._workspace.corpus(context.scope), arguments.query, arguments.limit)
        except (StoreError, WorkspaceError):
            return ToolOutput("memory cannot be searched at the moment; memory_tree and memory_read still work.", True)
        if not hits:
            return ToolOutput("Nothing found.")
        return ToolOutput(json.dumps([_shown(hit) for hit in hits], ensure_ascii=False, indent=1))


class MemoryWriteArguments(Arguments):
    """Arguments of `memory_write`."""

    content: str
    target: str = Field(
        default="daily_log",
        description="memory (lasting facts), daily_log (events), heartbeat, bootstrap (clears it), or a path",
    )
    append: bool = True


class MemoryWrite:
    """Adds to a document or replaces it."""

    spec: ClassVar = ToolSpec(
        "memory_write",
        "Remember something beyond this conversation.",
        MemoryWriteArguments,
        Effect.WRITE,
        rate=RateLimit(per_minute=20, per_hour=200),
    )

    def __init__(self, workspace: Workspace, is_secret: IsSecret) -> None:
        self._workspace = workspace
        self._is_secret = is_secret

    def scope(self, arguments: MemoryWriteArguments) -> PathScope:
        return PathScope.of("")

    async def run(self, arguments: MemoryWriteArguments, context: ToolContext) -> ToolOutput:
        try:
            if arguments.target.strip().lower() == "bootstrap":
                return await self._clear_bootstrap(context)
            if not arguments.content.strip():
                return _error("'content' is empty; nothing was written.")
            if self._is_secret(arguments.content):
                return _error(_SECRET)
            if (reason := _screened(arguments.content)) is not None:
                return _error(reason)
            return ToolOutput(f"Saved to {await self._write(arguments, context)}.")
        except WorkspaceError as error:
            return _error(f"{error} It was not saved.")

    async def _write(self, arguments: MemoryWriteArguments, context: ToolContext) -> str:
        scope, text, target = context.scope, arguments.content, arguments.target.strip()
        match target.lower():
            case "memory" if arguments.append:
                await self._workspace.append_memory(scope, text)
                return "MEMORY.md"
            case "daily_log" | "":
                return await self._workspace.append_daily(scope, text, context.zone)
            case "heartbeat" if isinstance(scope, GroupScope):
                raise PathRefused("HEARTBEAT.md", "a shared chat has no heartbeat; use target 'memory'")
            case "memory" | "heartbeat" as word:
                path = f"{word.upper()}.md"
            case _:
                path = str(normalize(target))
        if isinstance(scope, GroupScope) and path.split("/")[0].casefold() == "daily":
            raise PathRefused(path, "a shared chat keeps no daily notes; use target 'memory'")
        await (self._workspace.append if arguments.append else self._workspace.write)(scope, path, text)
        return path

    async def _clear_bootstrap(self, context: ToolContext) -> ToolOutput:
        with suppress(DocumentMissing):
            await self._workspace.delete(context.scope, "BOOTSTRAP.md")
        return ToolOutput("BOOTSTRAP.md is cleared.")


class MemoryReadArguments(Arguments):
    """Arguments of `memory_read`."""

    path: str = Field(description="such as MEMORY.md or daily/2026-01-31.md")


class MemoryRead:
    """Reads one document."""

    spec: ClassVar = ToolSpec("memory_read", "Read a memory document.", MemoryReadArguments, Effect.READ)

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def scope(self, arguments: MemoryReadArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: MemoryReadArguments, context: ToolContext) -> ToolOutput:
        try:
            text = await self._workspace.read(context.scope, arguments.path)
        except WorkspaceError as error:
            return _error(str(error))
        return ToolOutput(text if text.strip() else "(The document is empty.)")


class MemoryTreeArguments(Arguments):
    """Arguments of `memory_tree`."""

    path: str = ""
    depth: int = Field(default=1, ge=1, le=10)


class MemoryTree:
    """Lists documents."""

    spec: ClassVar = ToolSpec(
        "memory_tree", "List memory documents; folders end with /.", MemoryTreeArguments, Effect.READ
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def scope(self, arguments: MemoryTreeArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: MemoryTreeArguments, context: ToolContext) -> ToolOutput:
        try:
            lines = await self._workspace.tree(context.scope, arguments.path, arguments.depth)
        except WorkspaceError as error:
            return _error(str(error))
        return ToolOutput("\n".join(lines) or "(Nothing is here.)")


def _shown(hit: Hit) -> dict[str, str | float]:
    shown: dict[str, str | float] = {"path": hit.path, "score": hit.score, "document_id": f"{hit.path}#{hit.chunk}"}
    if hit.vector_rank is not None:
        shown["found_by"] = "meaning" if hit.word_rank is None else "words and meaning"
    return shown | {"content": hit.text}


def _screened(text: str) -> str | None:
    # What is remembered stands in later prompts: words that pose as somebody else's must not get there.
    result = sanitize(text)
    if result.changed or "ignore all previous" in result.warnings:
        return "the content holds text that poses as instructions or as another speaker; save it in other words."
    return None


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
