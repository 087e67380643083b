"""Builds what connects the bot to other people's programs and services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.clock import Clock
from agent.credentials.store import CredentialStore
from agent.dynamic.library import ToolLibrary
from agent.extensions.services import ServiceBook
from agent.extensions.view import Extension, ExtensionKind
from agent.safety.layer import SafetyLayer
from agent.store.base import Store
from agent.tools.builtin.auth import SecretDelete, SecretList, ToolAuth
from agent.tools.builtin.extensions import Overview, ToolActivate, ToolInstall, ToolList, ToolRemove, ToolSearch
from agent.tools.registry import AnyTool, LocalToolsFor, ToolRegistry
from bot.gateway import Gateway
from bot.late_servers import LateServers
from bot.plugins import Plugins
from bot.telling import Teller
from config.settings import Settings

if TYPE_CHECKING:
    from agent.mcp.hub import McpServers


@dataclass(frozen=True, slots=True)
class Extended:
    """The servers to run, and the tools about them."""

    servers: LateServers
    tools: Sequence[AnyTool]


def build_extensions(
    settings: Settings,
    store: Store,
    clock: Clock,
    gateway: Gateway,
    safety: SafetyLayer,
    registry: ToolRegistry,
    vault: CredentialStore,
    book: ServiceBook,
    plugins: Plugins,
    built: ToolLibrary,
) -> Extended:
    """Everything about extensions. `book` is what the vault seals by."""

    def build() -> McpServers:
        from agent.mcp.file import McpFile
        from agent.mcp.hub import McpServers
        from agent.mcp.server import Surroundings

        around = Surroundings(
            clock,
            vault,
            Teller(gateway, store, clock).tell,
            safety.hide_secrets,
            # Nothing has to listen there: the person pastes the address that the browser ends on.
            redirect=f"http://127.0.0.1:{settings.web.port}/oauth/callback",
        )
        return McpServers(McpFile(settings.home), registry, book, around)

    servers = LateServers((settings.home / "mcp.json").exists, build)
    overview = Overview(book, vault, (servers.extensions, lambda: tuple(map(_plugin, plugins.names))))
    local_for = LocalToolsFor(settings.agent.local_tools_for.value)
    tools: list[AnyTool] = [
        ToolAuth(vault, book, servers),
        SecretList(vault),
        SecretDelete(vault),
        ToolSearch(registry, overview, local_for),
        ToolList(overview),
        ToolActivate(servers),
        ToolInstall(servers, book),
        ToolRemove(servers, vault, built.remove),
    ]
    return Extended(servers, tools)


def _plugin(name: str) -> Extension:
    return Extension(ExtensionKind.PLUGIN, name, "an installed package", is_on=True, state="connected")


def service_book(settings: Settings) -> ServiceBook:
    """The services of the catalogue and of the operator's file."""
    book = ServiceBook(settings.home)
    book.reload()
    return book
