"""Where a document of a scope lies on disk: the one function that checks containment."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from agent.workspace.errors import PathRefused
from agent.workspace.files import resolve
from agent.workspace.paths import is_agent_file, is_guarded, is_hidden, is_sensitive, normalize
from agent.workspace.scope import GroupScope, OperatorScope, Scope

AGENT_OWNER = "@agent"
"""The owner of the agent's own documents; any other owner is a scope's folder, or one member's file in it."""
_OPERATOR_OWNER = "@operator"


class Place(NamedTuple):
    """A document that the asker may see.

    `path` is what was asked for below the asker's folder, `real` the same with links followed; `parts` lead to it from
    the root.
    """

    path: PurePosixPath
    real: PurePosixPath
    parts: tuple[str, ...]
    owner: str


def base_folder(root: Path, scope: Scope) -> Path:
    """The folder of the one who asks, links above it resolved. It need not exist."""
    return Path(os.path.realpath(root)) / scope.folder


def locate(root: Path, scope: Scope, path: str) -> Place:
    """The document that `path` means for `scope`.

    Links are followed first, then the place they lead to is judged. Raises PathRefused for anything that is not the
    scope's own or the agent's. `root` may be missing.
    """
    relative = normalize(path)
    if is_agent_file(relative) and not isinstance(scope, OperatorScope):
        return Place(relative, relative, (relative.name,), AGENT_OWNER)
    # Hidden and not existing read the same: who asks learns nothing of others.
    if is_hidden(relative, scope):
        raise PathRefused(str(relative), "it is outside your folder")
    real = resolve(base_folder(root, scope), relative)
    if real is None or is_hidden(real, scope):
        raise PathRefused(str(relative), "it leads outside your folder")
    if is_sensitive(relative) or is_sensitive(real):
        raise PathRefused(str(relative), "files with credentials and version control are out of reach")
    return Place(relative, real, (*scope.folder.parts, *real.parts), owner_of(real, scope))


def refuse_guarded(place: Place, scope: Scope) -> None:
    """Raise PathRefused where the bot may not write by itself."""
    of_the_agent = place.owner == AGENT_OWNER and not isinstance(scope, OperatorScope)
    if of_the_agent or is_guarded(place.real, scope) or is_guarded(place.path, scope):
        raise PathRefused(
            str(place.path), "it says what the agent is, does and whom it serves; only the operator edits it, by hand"
        )


def owner_of(path: PurePosixPath, scope: Scope) -> str:
    """Under which owner a document below the scope's folder is indexed."""
    if isinstance(scope, OperatorScope):
        return AGENT_OWNER if is_agent_file(path) else _OPERATOR_OWNER
    folder = str(scope.folder)
    return f"{folder}/{path}" if path == _member_file(scope) else folder


def owners_seen(scope: Scope) -> tuple[str, ...]:
    """All owners whose documents `scope` sees."""
    if isinstance(scope, OperatorScope):
        return (AGENT_OWNER, _OPERATOR_OWNER)
    folder, member = str(scope.folder), _member_file(scope)
    return (AGENT_OWNER, folder) if member is None else (AGENT_OWNER, folder, f"{folder}/{member}")


def _member_file(scope: Scope) -> PurePosixPath | None:
    return scope.member_file if isinstance(scope, GroupScope) else None
