"""MCP servers with everything real around them but the chats: a store in a folder, a registry and an executor."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.clock import SystemClock
from agent.credentials.store import CredentialStore
from agent.credentials.vault import MasterKey
from agent.extensions.services import ServiceBook
from agent.mcp.connection import Limits
from agent.mcp.file import McpFile
from agent.mcp.hub import McpServers
from agent.mcp.server import Surroundings
from agent.model.ids import OPERATOR
from agent.model.tool_call import JsonValue, ToolCall, ToolOutput
from agent.safety.layer import SafetyLayer
from agent.store.open import open_store
from agent.tools.execute import Prepared, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from channels.message import Address
from tests.support.tool_context import make_context

PATIENCE_SECONDS = 20
HERE = Address(channel="telegram", chat_id="1")
PROGRAM = {"command": sys.executable, "args": [str(Path(__file__).with_name("fake_mcp.py"))]}
LIMITS = Limits(timedelta(seconds=10), timedelta(seconds=5), timedelta(seconds=5), timedelta(seconds=1))


def hostile(folder: Path, tools: Sequence[object], answer: object = None) -> dict[str, object]:
    """The entry of a program that lists these tools and gives this answer to each call."""
    file = folder / "hostile.json"
    file.write_text(json.dumps(list(tools)))
    file.with_name("hostile.json.answer").write_text(json.dumps(answer or {"content": []}))
    return {"command": sys.executable, "args": [str(Path(__file__).with_name("hostile_mcp.py")), str(file)]}


class McpBench:
    """Enter it to start the servers of `entries`, leave it to stop them."""

    def __init__(self, home: Path, *, limits: Limits = LIMITS, **entries: object) -> None:
        self.home = home
        if entries:
            self.write(**entries)
        self.said: list[str] = []
        self._changed = asyncio.Event()
        self.clock = SystemClock()
        self.registry = ToolRegistry([])
        self.safety = SafetyLayer()
        self._limits = limits

    def write(self, **entries: object) -> None:
        """Put `mcp.json` in place; `_` in a name stands for `-`."""
        named = {name.replace("_", "-"): entry for name, entry in entries.items()}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": named, "other": "kept"}))
        (self.home / "mcp.json").chmod(0o600)

    async def __aenter__(self) -> Self:
        self.store = open_store(self.home)
        self.book = ServiceBook(self.home)
        self.vault = CredentialStore(self.store, self.clock, lambda: MasterKey(b"k" * 32), self.book.terms_for)
        around = Surroundings(
            self.clock,
            self.vault,
            self._tell,
            self.safety.hide_secrets,
            "http://127.0.0.1:1/oauth/callback",
            self._limits,
        )
        self.servers = McpServers(McpFile(self.home), self.registry, self.book, around)
        self.executor = ToolExecutor(
            self.registry, self.safety, RateWindows(self.clock), None, LocalToolsFor.OPERATOR, 100_000
        )
        self._task = asyncio.ensure_future(self.servers.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.store.close()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                await asyncio.sleep(0.01)

    async def up(self, tool: str) -> None:
        """Return when a tool is there."""
        await self.until(lambda: tool in self.registry.names)

    async def told(self, part: str) -> str:
        """What was said in a chat, as soon as it was."""
        await self.until(lambda: any(part in text for text in self.said))
        return next(text for text in self.said if part in text)

    def state(self, name: str) -> str:
        return next((each.state for each in self.servers.extensions() if each.name == name), "not known")

    def detail(self, name: str) -> str:
        return next((each.detail for each in self.servers.extensions() if each.name == name), "not known")

    async def prepare(self, tool: str, **arguments: JsonValue) -> Prepared:
        """A call as it is before it runs."""
        prepared = await self.executor.prepare(ToolCall("call_1", tool, arguments), make_context())
        assert isinstance(prepared, Prepared), prepared.output.text
        return prepared

    async def refused(self, tool: str, **arguments: JsonValue) -> str:
        """Why a call is not made."""
        prepared = await self.executor.prepare(ToolCall("call_1", tool, arguments), make_context())
        assert not isinstance(prepared, Prepared)
        return prepared.output.text

    async def call(self, tool: str, **arguments: JsonValue) -> ToolOutput:
        """What a call gives."""
        return await self.executor.run(await self.prepare(tool, **arguments), make_context())

    async def hand_over(self, name: str, secret: str) -> None:
        """What the door does with a credential that was awaited."""
        from pydantic import SecretStr

        await self.vault.put(OPERATOR, name, SecretStr(secret))
        self.servers.on_stored(OPERATOR, name, HERE)

    async def _tell(self, address: Address, text: str) -> None:
        assert address == HERE
        self.said.append(text)
