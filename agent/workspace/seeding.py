"""The first documents of a new workspace."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Protocol

from agent.workspace.scope import OperatorScope, Scope
from agent.workspace.workspace import Author

_ALWAYS = ("AGENTS.md", "SOUL.md", "USER.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md", "HEARTBEAT.md", "README.md")
_TOLD = ("AGENTS.md", "SOUL.md", "USER.md")


class Seedable(Protocol):
    """What seeding needs of the workspace."""

    async def exists(self, scope: Scope, path: str) -> bool: ...

    async def write(self, scope: Scope, path: str, text: str, author: Author = Author.BOT) -> None: ...


async def seed(workspace: Seedable) -> tuple[str, ...]:
    """Write each template whose document is missing, and give back their names. What exists is never touched.

    BOOTSTRAP.md, the first conversation's script, comes only to a workspace where nobody has said anything yet.
    """
    scope = OperatorScope()
    is_new = not [name for name in _TOLD if await workspace.exists(scope, name)]
    names: Sequence[str] = (*_ALWAYS, "BOOTSTRAP.md") if is_new else _ALWAYS
    missing = [name for name in names if not await workspace.exists(scope, name)]
    for name in missing:
        await workspace.write(scope, name, _template(name), Author.PERSON)
    return tuple(missing)


def _template(name: str) -> str:
    return resources.files("agent.workspace").joinpath("templates", name).read_text(encoding="utf-8")
