"""Everything that can be connected, as one small view, whatever kind it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ExtensionKind(StrEnum):
    """What an extension is."""

    MCP = "mcp"
    SERVICE = "service"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Extension:
    """One that is known. `is_on`: in use. `detail`: why not, or what it brings. `for_everyone`: others see it too."""

    kind: ExtensionKind
    name: str
    description: str
    is_on: bool
    state: str
    detail: str = ""
    for_everyone: bool = False
