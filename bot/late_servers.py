"""MCP servers, loaded once there are some: a bot without them does without the memory that they take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.extensions.view import Extension
from agent.mcp.outcome import Connected, NotConnected, Outcome
from agent.model.ids import UserId
from channels.message import Address

if TYPE_CHECKING:
    from agent.mcp.hub import McpServers


class LateServers:
    """Stands for `McpServers` until `are_there` says that there are servers, or somebody adds one."""

    def __init__(self, are_there: Callable[[], bool], build: Callable[[], McpServers]) -> None:
        self._are_there = are_there
        self._build = build
        self._servers: McpServers | None = None
        self._is_wanted = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled."""
        if await asyncio.to_thread(self._are_there):
            self._loaded()
        await self._is_wanted.wait()
        await self._loaded().run()

    def on_stored(self, user: UserId, name: str, address: Address) -> None:
        if self._servers is not None:
            self._servers.on_stored(user, name, address)

    def extensions(self) -> tuple[Extension, ...]:
        return () if self._servers is None else self._servers.extensions()

    def knows(self, name: str) -> bool:
        return self._servers is not None and self._servers.knows(name)

    def credentials_of(self, name: str) -> tuple[str, ...]:
        return self._loaded().credentials_of(name)

    async def authenticate(self, name: str, address: Address) -> Outcome:
        return await self._loaded().authenticate(name, address)

    async def activate(self, name: str, address: Address) -> Outcome:
        return await self._loaded().activate(name, address)

    async def install(self, name: str, url: str) -> Connected | NotConnected:
        return await self._loaded().install(name, url)

    async def remove(self, name: str) -> bool:
        return await self._loaded().remove(name)

    def _loaded(self) -> McpServers:
        if self._servers is None:
            self._servers = self._build()
            self._is_wanted.set()
        return self._servers
