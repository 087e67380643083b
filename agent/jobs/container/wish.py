"""That a job is to run in a container, and in which folder: kept with the job's own facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.model.job import Job
from agent.model.tool_call import JsonValue
from agent.workspace.errors import PathRefused
from agent.workspace.paths import name_key, normalize

PROJECTS = "projects"
"""The folder of the one who asks, in which each container has the one folder that it may change."""
_KEY = "container"
_FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class ContainerWish:
    """`folder` is relative to the folder of the one who asks."""

    folder: PurePosixPath


def facts_of(wish: ContainerWish) -> dict[str, JsonValue]:
    """The wish as part of a job's metadata."""
    return {_KEY: {_FOLDER: str(wish.folder)}}


def wish_of(job: Job) -> ContainerWish | None:
    """The wish of a job; None for those that run inside the program itself."""
    kept = job.metadata.get(_KEY)
    folder = kept.get(_FOLDER) if isinstance(kept, Mapping) else None
    return ContainerWish(PurePosixPath(folder)) if isinstance(folder, str) else None


def folder_named(given: str | None, otherwise: str) -> PurePosixPath:
    """The project folder that was asked for, or one named `otherwise`. Raises PathRefused."""
    path = normalize(given or f"{PROJECTS}/{otherwise}")
    if len(path.parts) < 2 or name_key(path.parts[0]) != PROJECTS:
        raise PathRefused(str(path), f"a container works in a folder below {PROJECTS}, such as '{PROJECTS}/site'")
    return path
