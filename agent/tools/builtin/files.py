"""Files in the folder of the one who asks: what memory tools are too coarse for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.sandbox_bubblewrap import WORKSPACE
from agent.tools.schema import Arguments
from agent.workspace.errors import PathRefused, WorkspaceError
from agent.workspace.files import read_file, update_file
from agent.workspace.listing import Entry, entries_below
from agent.workspace.paths import is_document
from agent.workspace.places import Place, base_folder, locate, refuse_guarded
from agent.workspace.scope import Scope
from agent.workspace.workspace import as_ours

_READ_LIMIT_BYTES = 1_000_000
_WRITE_LIMIT_BYTES = 5_000_000
_MOST_ENTRIES = 500
_WRITE_RATE = RateLimit(per_minute=20, per_hour=200)
_PATH = "relative to your folder"


class ReadFileArguments(Arguments):
    """Arguments of `read_file`."""

    path: str = Field(description=_PATH)
    offset: int = Field(default=1, ge=1, description="first line, from 1")
    limit: int | None = Field(default=None, ge=1, description="lines")


class ReadFile:
    """Reads a text file or some of its lines."""

    spec: ClassVar = ToolSpec(
        "read_file", "Read a text file.", ReadFileArguments, Effect.READ, Approval.UNLESS_ALWAYS, local=True
    )

    def __init__(self, root: Path) -> None:
        self._root = root

    def scope(self, arguments: ReadFileArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolOutput:
        def read() -> str:
            root, place = file_place(self._root, context.scope, arguments.path)
            with as_ours(str(place.path)):
                data = read_file(root, place.parts, _READ_LIMIT_BYTES).data
                if b"\0" in data:
                    raise PathRefused(str(place.path), "it is a binary file")
                return data.decode("utf-8")

        return await _answer(lambda: shown_lines(read(), arguments.offset, arguments.limit))


class WriteFileArguments(Arguments):
    """Arguments of `write_file`."""

    path: str = Field(description=_PATH)
    content: str


class WriteFile:
    """Makes or replaces a text file."""

    spec: ClassVar = ToolSpec(
        "write_file", "Create or replace a text file.", WriteFileArguments, Effect.WRITE, Approval.UNLESS_ALWAYS,
        rate=_WRITE_RATE, local=True,
    )  # fmt: skip

    def __init__(self, root: Path) -> None:
        self._root = root

    def scope(self, arguments: WriteFileArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolOutput:
        def write() -> str:
            root, place = _writable(self._root, context.scope, arguments.path)
            with as_ours(str(place.path)):
                size = update_file(root, place.parts, arguments.content.encode("utf-8", "replace"), _WRITE_LIMIT_BYTES)
            return f"Wrote {size:,} bytes to {place.path}."

        return await _answer(write)


class ListDirArguments(Arguments):
    """Arguments of `list_dir`."""

    path: str = Field(default="", description=_PATH)
    recursive: bool = False
    max_depth: int = Field(default=3, ge=1, le=10)


class ListDir:
    """Lists a folder."""

    spec: ClassVar = ToolSpec("list_dir", "List files and folders.", ListDirArguments, Effect.READ, local=True)

    def __init__(self, root: Path) -> None:
        self._root = root

    def scope(self, arguments: ListDirArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: ListDirArguments, context: ToolContext) -> ToolOutput:
        def walk() -> str:
            root = _real(self._root)
            place = locate(root, context.scope, _inside(root, context.scope, arguments.path))
            depth = arguments.max_depth if arguments.recursive else 1
            with as_ours(str(place.path)):
                found = list(islice(entries_below(root, context.scope, place, depth), _MOST_ENTRIES + 1))
            lines = [_line(entry) for entry in found[:_MOST_ENTRIES]]
            if len(found) > _MOST_ENTRIES:
                lines.append(f"[cut at {_MOST_ENTRIES} entries; list a folder inside]")
            return "\n".join(lines) or "(The folder is empty.)"

        return await _answer(walk)


class ApplyPatchArguments(Arguments):
    """Arguments of `apply_patch`."""

    path: str = Field(description=_PATH)
    old_string: str = Field(min_length=1, description="exact text, found once")
    new_string: str
    replace_all: bool = False


class ApplyPatch:
    """Replaces a passage of a text file."""

    spec: ClassVar = ToolSpec(
        "apply_patch", "Replace a passage of a text file.", ApplyPatchArguments, Effect.WRITE, Approval.UNLESS_ALWAYS,
        rate=_WRITE_RATE, local=True,
    )  # fmt: skip

    def __init__(self, root: Path) -> None:
        self._root = root

    def scope(self, arguments: ApplyPatchArguments) -> PathScope:
        return PathScope.of(arguments.path)

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolOutput:
        def patch() -> str:
            root, place = _writable(self._root, context.scope, arguments.path)
            with as_ours(str(place.path)):
                update_file(root, place.parts, lambda before: _patched(place, before, arguments), _WRITE_LIMIT_BYTES)
            return f"Patched {place.path}."

        return await _answer(patch)


def shown_lines(text: str, offset: int, limit: int | None) -> str:
    """Lines `offset` (from 1) and following of `text`, with a note where they are not all."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if offset > max(len(lines), 1):
        return f"[nothing: the file has {len(lines)} lines, line {offset} is past its end]"
    end = len(lines) if limit is None else min(len(lines), offset - 1 + limit)
    shown = "\n".join(lines[offset - 1 : end])
    if offset == 1 and end == len(lines):
        return shown or "(The file is empty.)"
    more = f"; continue at offset {end + 1}" if end < len(lines) else ""
    return f"{shown}\n[lines {offset} to {end} of {len(lines)}{more}]"


def read_bytes(root: Path, scope: Scope, path: str, limit_bytes: int) -> bytes:
    """The content of a file that `read_file` could reach. Blocks. Raises WorkspaceError."""
    real, place = file_place(root, scope, path)
    with as_ours(str(place.path)):
        return read_file(real, place.parts, limit_bytes).data


def save_file(root: Path, scope: Scope, path: str, data: bytes, limit_bytes: int) -> str:
    """Write `data` where `write_file` could, and give the path in the asker's folder. Blocks. Raises WorkspaceError."""
    real, place = _writable(root, scope, path)
    with as_ours(str(place.path)):
        update_file(real, place.parts, data, limit_bytes)
    return str(place.path)


def _patched(place: Place, before: bytes | None, arguments: ApplyPatchArguments) -> bytes:
    if before is None:
        raise FileNotFoundError(place.path)
    text = before.decode("utf-8")
    count = text.count(arguments.old_string)
    if count == 0:
        raise PatchFailed(f"old_string is not in {place.path}; read the file and copy the passage exactly.")
    if count > 1 and not arguments.replace_all:
        raise PatchFailed(f"old_string is {count} times in {place.path}; add lines around it, or set replace_all.")
    return text.replace(arguments.old_string, arguments.new_string).encode("utf-8", "replace")


class PatchFailed(WorkspaceError):
    """The passage is not there, or not once."""


def file_place(root: Path, scope: Scope, path: str) -> tuple[Path, Place]:
    """The real root and the file in it, refused if it is a matter for the memory tools or no file."""
    real = _real(root)
    place = locate(real, scope, _inside(real, scope, path))
    if not place.path.parts:
        raise PathRefused(path, "name a file in your folder")
    if is_document(place.path) or is_document(place.real):
        raise PathRefused(str(place.path), "it is a memory document; use memory_read and memory_write")
    return real, place


def _writable(root: Path, scope: Scope, path: str) -> tuple[Path, Place]:
    """The same for a file that is to be changed: the bot does not write its own skills and hooks."""
    real, place = file_place(root, scope, path)
    refuse_guarded(place, scope)
    return real, place


def _inside(root: Path, scope: Scope, path: str) -> str:
    """`path` made relative if it is an absolute one in the asker's own folder, named as in the sandbox or on disk."""
    pure = PurePosixPath(path.strip())
    for base in (WORKSPACE, PurePosixPath(base_folder(root, scope))):
        if pure.is_relative_to(base):
            return str(pure.relative_to(base))
    return path


def _real(root: Path) -> Path:
    return root.resolve()


def _line(entry: Entry) -> str:
    if entry.is_directory:
        return str(entry)
    return f"{entry} (link)" if entry.is_link else f"{entry} ({entry.signature.size:,} bytes)"


async def _answer(work: Callable[[], str]) -> ToolOutput:
    try:
        return ToolOutput(await asyncio.to_thread(work))
    except WorkspaceError as error:
        return ToolOutput(str(error), is_error=True)
