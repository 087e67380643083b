"""What lies in a scope's folder. All functions block: call them in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.workspace.files import Signature, open_folder
from agent.workspace.paths import AGENT_FILES, SKIPPED_FOLDERS, TEMPORARY_PREFIX, is_hidden, is_sensitive, name_key
from agent.workspace.places import Place, owner_of
from agent.workspace.scope import OperatorScope, Scope

# What memory search reads; anything else is a matter for the file tools.
_TEXT_SUFFIXES = frozenset({"", ".md", ".markdown", ".txt", ".rst", ".org"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder, by its path below the asker's folder. Links are told, never followed."""

    path: PurePosixPath
    is_directory: bool
    is_link: bool
    signature: Signature

    def __str__(self) -> str:
        return f"{self.path}/" if self.is_directory else str(self.path)


def entries_below(root: Path, scope: Scope, place: Place, depth: int) -> Iterator[Entry]:
    """The entries below a folder, each folder right before its contents, names in order, `depth` levels deep.

    What belongs to others, what no tool may open and folders of generated files are left out. Raises OSError where
    `place` is no folder, but the asker's own may be missing; one that cannot be opened on the way is skipped.
    """
    if not place.path.parts and not isinstance(scope, OperatorScope):
        yield from _agent_entries(root)
    try:
        yield from _walk(root, scope, place.path, place.parts, depth)
    except FileNotFoundError:
        if place.path.parts:
            raise


def documents_of(root: Path, scope: Scope, place: Place, limit_bytes: int) -> Iterator[tuple[str, Entry]]:
    """Owner and entry of each text document below the scope's own folder, as far as memory search reads it."""
    for entry in entries_below(root, scope, place, depth=12):
        readable = not entry.is_directory and not entry.is_link and entry.signature.size <= limit_bytes
        if readable and entry.path.suffix.lower() in _TEXT_SUFFIXES:
            shared = not isinstance(scope, OperatorScope) and str(entry.path) in AGENT_FILES
            yield owner_of(entry.path, OperatorScope() if shared else scope), entry


def _walk(root: Path, scope: Scope, path: PurePosixPath, parts: tuple[str, ...], depth: int) -> Iterator[Entry]:
    for entry in _scan(root, scope, path, parts):
        yield entry
        if entry.is_directory and depth > 1:
            try:
                yield from _walk(root, scope, entry.path, (*parts, entry.path.name), depth - 1)
            except OSError:
                continue


def _scan(root: Path, scope: Scope, path: PurePosixPath, parts: tuple[str, ...]) -> list[Entry]:
    shadowed = set() if path.parts or isinstance(scope, OperatorScope) else {name_key(n) for n in AGENT_FILES}
    left_out = SKIPPED_FOLDERS | shadowed
    found: list[Entry] = []
    with open_folder(root, parts) as folder, os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(TEMPORARY_PREFIX) or name_key(item.name) in left_out:
                continue
            below = path / item.name
            if is_hidden(below, scope) or is_sensitive(below):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except OSError:
                continue
            is_link = stat.S_ISLNK(status.st_mode)
            found.append(Entry(below, stat.S_ISDIR(status.st_mode), is_link, Signature.of(status)))
    return sorted(found, key=lambda entry: entry.path.name)


def _agent_entries(root: Path) -> Iterator[Entry]:
    for name in sorted(AGENT_FILES):
        try:
            status = os.lstat(root / name)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield Entry(PurePosixPath(name), is_directory=False, is_link=False, signature=Signature.of(status))
