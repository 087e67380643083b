"""All MCP servers of a process: each a task of its own, their tools in the registry, switched on and off by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog

from agent.credentials.errors import CredentialError
from agent.credentials.names import CredentialName, credential_name, sign_in_name, signed_in_server
from agent.credentials.wording import instructions, sign_in_instructions
from agent.extensions.view import Extension, ExtensionKind
from agent.mcp.config import Configured, Endpoint, OfferedTo, Program, ServerConfig, named_credentials
from agent.mcp.errors import ConfigUnusable
from agent.mcp.file import McpFile
from agent.mcp.names import kept_names
from agent.mcp.oauth import PROVIDER, SignIn
from agent.mcp.outcome import AsksFor, Connected, NotConnected, Outcome
from agent.mcp.server import Server, State, Surroundings
from agent.mcp.tool import McpTool, Offer
from agent.model.ids import OPERATOR, UserId
from agent.store.credentials import Terms
from agent.store.errors import StoreError
from channels.message import Address

log = structlog.get_logger(__name__)

PROMPT_BUDGET = 4_096
"""Bytes that the tools of all servers may take of each prompt. Beyond it, they are found with tool_search."""

LINK_TIMEOUT = timedelta(seconds=45)
START_TIMEOUT = timedelta(seconds=5)
_MOST_STORED = 64


class Registry(Protocol):
    """Where tools are found."""

    def register(self, tool: McpTool) -> bool: ...

    def unregister(self, name: str) -> bool: ...


class Claims(Protocol):
    """Where is said which hosts the servers' own credentials are for."""

    def claim(self, claims: Mapping[str, Terms]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Stored:
    user: UserId
    name: str
    address: Address


class McpServers:
    """The servers of `mcp.json`. Nothing is loaded and nothing runs where there are none."""

    def __init__(self, file: McpFile, registry: Registry, claims: Claims, around: Surroundings) -> None:
        self._file = file
        self._registry = registry
        self._claims = claims
        self._around = around
        self._configured = Configured()
        self._servers: dict[str, Server] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._offers: dict[str, tuple[McpTool, ...]] = {}
        self._registered: frozenset[str] = frozenset()
        self._group: asyncio.TaskGroup | None = None
        self._stored: asyncio.Queue[_Stored] = asyncio.Queue(_MOST_STORED)
        self._changing = asyncio.Lock()
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled. No server is waited for."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._read_file(is_start=True)
                for config in self._configured.servers:
                    if config.is_enabled:
                        self._start(config)
                self._started.set()
                while True:
                    await self._take_stored(await self._stored.get())
        finally:
            self._group = None
            self._started.clear()
            self._servers.clear()
            self._tasks.clear()
            self._offers.clear()
            self._register()

    def on_stored(self, user: UserId, name: str, address: Address) -> None:
        """A person has handed over a credential; `address` is where they did. Called after the commit."""
        if user != OPERATOR:
            return
        try:
            self._stored.put_nowait(_Stored(user, name, address))
        except asyncio.QueueFull:
            log.error("mcp_credential_not_noticed")

    def extensions(self) -> tuple[Extension, ...]:
        """All servers that are configured, those that cannot be used too."""
        known = tuple(self._extension(config) for config in self._configured.servers)
        faulty = tuple(
            Extension(ExtensionKind.MCP, name, "an entry of mcp.json", is_on=False, state="unusable", detail=fault)
            for name, fault in self._configured.faults
        )
        return (*known, *faulty)

    def knows(self, name: str) -> bool:
        """Whether a server of this name is configured."""
        return self._configured.find(name) is not None

    async def activate(self, name: str, address: Address) -> Outcome:
        """Switch a server on for good, or connect it anew. Raises ConfigUnusable."""
        await self._started_up()
        await self._read_file()
        config = self._found(name)
        running = self._servers.get(name)
        if running is not None and running.state is State.READY and running.config == config:
            return Connected(running.detail)
        if not config.is_enabled:
            async with self._changing:
                await asyncio.to_thread(self._file.set_enabled, name, is_enabled=True)
            await self._read_file()
            config = self._found(name)
        await self._restart(config)
        return await self._outcome(self._servers[name], address)

    async def install(self, name: str, url: str) -> Connected | NotConnected:
        """Add a server over HTTP that was named in a chat, and connect it. Raises ConfigUnusable."""
        await self._started_up()
        async with self._changing:
            await asyncio.to_thread(self._file.add_installed, name, url)
        log.info("mcp_server_installed", server=name)
        await self._read_file()
        await self._restart(self._found(name))
        server = self._servers[name]
        await server.settled()
        return _standing(server)

    async def remove(self, name: str) -> bool:
        """Take a server out for good; False if there is none. Its credentials stay. Raises ConfigUnusable."""
        async with self._changing:
            is_gone = await asyncio.to_thread(self._file.remove, name)
            await self._stop(name)
        await self._read_file()
        if is_gone:
            log.info("mcp_server_removed", server=name)
        return is_gone

    async def authenticate(self, name: str, address: Address) -> Outcome:
        """What a person has to do so that a server lets us in. Raises ConfigUnusable."""
        await self._started_up()
        await self._read_file()
        config = self._found(name)
        if (wanted := _named(config)) is not None:
            return _asks_for(wanted, config)
        if isinstance(config.place, Program):
            return NotConnected("its entry names no credential. Use tool_activate to connect it.")
        running = self._servers.get(name)
        if running is None or running.config != config:
            if not config.is_enabled:
                return NotConnected("it is switched off. Use tool_activate.")
            await self._restart(config)
        server, sign_in = self._servers[name], SignIn(address)
        server.nudge(sign_in=sign_in)
        try:
            async with asyncio.timeout(LINK_TIMEOUT.total_seconds()):
                link = await sign_in.link()
        except TimeoutError:
            server.nudge()
            return NotConnected("it did not answer in time.")
        if link is not None:
            return AsksFor(sign_in_name(name), sign_in_instructions(name, link))
        await server.settled()
        if server.state is State.NEEDS_CREDENTIAL:  # it knows no OAuth: a token will do
            return _asks_for(config.token_name, config)
        return _standing(server)

    def credentials_of(self, name: str) -> tuple[str, ...]:
        """The names under which credentials of a server may be stored."""
        config = self._configured.find(name)
        return (*kept_names(name), config.token_name) if config is not None else kept_names(name)

    # -- servers ------------------------------------------------------------------------------------------------
    async def _started_up(self) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT.total_seconds()):
                await self._started.wait()
        except TimeoutError:
            raise ConfigUnusable("servers are not running at the moment.") from None

    def _start(self, config: ServerConfig) -> None:
        if self._group is None:
            raise ConfigUnusable("servers are not running at the moment.")
        server = Server(config, self._around, self._take_offer)
        self._servers[config.name] = server
        self._tasks[config.name] = self._group.create_task(server.run())

    async def _stop(self, name: str) -> None:
        self._servers.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._take_offer(name, Offer())

    async def _restart(self, config: ServerConfig) -> None:
        async with self._changing:
            await self._stop(config.name)
            self._start(config)

    async def _outcome(self, server: Server, address: Address) -> Outcome:
        await server.settled()
        if server.state is State.NEEDS_CREDENTIAL:
            return await self.authenticate(server.config.name, address)
        return _standing(server)

    def _found(self, name: str) -> ServerConfig:
        config = self._configured.find(name)
        if config is None:
            fault = dict(self._configured.faults).get(name)
            raise ConfigUnusable(f"mcp.json has no usable server {name!r}" + (f": {fault}" if fault else "."))
        return config

    async def _read_file(self, *, is_start: bool = False) -> None:
        try:
            self._configured = await asyncio.to_thread(self._file.read)
        except ConfigUnusable as error:
            if not is_start:
                raise
            self._configured = Configured(faults=(("mcp.json", str(error)),))
        if is_start:
            for name, fault in self._configured.faults:
                log.warning("mcp_server_unusable", server=name, reason=fault)
        claims: dict[str, Terms] = {
            credential_name(config.token_name): Terms(PROVIDER, config.place.host)
            for config in self._configured.servers
            if isinstance(config.place, Endpoint)
        }
        self._claims.claim(claims)

    def _extension(self, config: ServerConfig) -> Extension:
        server = self._servers.get(config.name)
        match config.place:
            case Program():
                place = "a program of this machine"
            case Endpoint(is_installed=is_installed):
                place = f"a server at {config.place.host}" + (", added in a chat" if is_installed else "")
        state = server.state.value if server is not None else "switched off"
        return Extension(
            ExtensionKind.MCP,
            config.name,
            f"{place}, for {'everyone' if config.offered_to is OfferedTo.EVERYONE else 'the operator'}",
            server is not None and server.state is State.READY,
            state,
            server.detail if server is not None else "",
            for_everyone=config.offered_to is OfferedTo.EVERYONE,
        )

    # -- their tools --------------------------------------------------------------------------------------------
    def _take_offer(self, name: str, offer: Offer) -> None:
        if offer.tools:
            self._offers[name] = offer.tools
        elif self._offers.pop(name, None) is None:
            return
        self._register()

    def _register(self) -> None:
        """Bring the registry up to date. All tools are rare, or none is: half a server would be a riddle."""
        tools = [tool for name in sorted(self._offers) for tool in self._offers[name]]
        is_rare = sum(map(_weight, tools)) > PROMPT_BUDGET
        names = frozenset(tool.spec.name for tool in tools)
        for gone in self._registered - names:
            self._registry.unregister(gone)
        self._registered = frozenset(
            tool.spec.name for tool in tools if self._registry.register(tool.made_rare(is_rare=is_rare))
        )

    # -- credentials --------------------------------------------------------------------------------------------
    async def _take_stored(self, stored: _Stored) -> None:
        """Use what was handed over: the end of a sign-in at once, a credential by connecting anew."""
        try:
            if (name := signed_in_server(stored.name)) is not None:
                await self._finish_sign_in(name, stored)
                return
        except (CredentialError, StoreError) as error:
            log.error("mcp_sign_in_not_finished", error=type(error).__name__)
            return
        for server in self._servers.values():
            if stored.name in _credentials_used(server.config):
                server.nudge(tell=stored.address)

    async def _finish_sign_in(self, name: str, stored: _Stored) -> None:
        pasted = await self._around.vault.get(stored.user, stored.name)
        await self._around.vault.delete(stored.user, stored.name)
        server = self._servers.get(name)
        if server is None or not server.paste(pasted.secret.get_secret_value()):
            await self._around.tell(
                stored.address,
                f"The sign-in to {name} cannot be finished: it was begun before my last restart, or took too long. "
                f"Nothing was kept. Ask me to connect {name} again.",
            )


def _standing(server: Server) -> Connected | NotConnected:
    if server.state is State.READY:
        return Connected(server.detail)
    return NotConnected(server.detail or "it did not answer in time.")


def _named(config: ServerConfig) -> str | None:
    """The first credential that an entry names itself."""
    return config.credential or next(iter(sorted(_credentials_named(config))), None)


def _credentials_named(config: ServerConfig) -> frozenset[str]:
    pairs = config.place.environment if isinstance(config.place, Program) else config.place.headers
    return frozenset(name for _, value in pairs for name in named_credentials(value))


def _credentials_used(config: ServerConfig) -> frozenset[CredentialName]:
    """Under which names of the store a server's credentials are looked for."""
    named = _credentials_named(config)
    used = named | {config.token_name} if isinstance(config.place, Endpoint) else named
    return frozenset(map(credential_name, used))


def _asks_for(wanted: str, config: ServerConfig) -> AsksFor:
    name = credential_name(wanted)
    goes_to = config.place.host if isinstance(config.place, Endpoint) else f"the program {config.name}"
    return AsksFor(name, instructions(name, goes_to=goes_to))


def _weight(tool: McpTool) -> int:
    spec = tool.spec
    return len(spec.name) + len(spec.description.encode()) + len(json.dumps(spec.schema, ensure_ascii=False).encode())
