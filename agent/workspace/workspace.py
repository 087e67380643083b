"""The workspace: a folder of Markdown files that people edit by hand and the agent remembers in."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.workspace.edits import EditLedger
from agent.workspace.errors import DocumentMissing, DocumentUnreadable, PathRefused, WorkspaceUnavailable
from agent.workspace.files import Signature, delete_file, open_folder, read_file, update_file
from agent.workspace.listing import documents_of, entries_below
from agent.workspace.paths import AGENT_FILES
from agent.workspace.places import AGENT_OWNER, Place, base_folder, locate, owners_seen, refuse_guarded
from agent.workspace.scope import GroupScope, Scope
from agent.workspace.watch import FolderWatch

log = structlog.get_logger(__name__)

DOCUMENT_LIMIT_BYTES = 1_000_000
_MOST_INDEXED = 20_000
_MOST_LISTED = 500


class Author(StrEnum):
    """Who changes a document. The bot may not write what says who it is; what it writes is no person's edit."""

    BOT = "bot"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class DocumentState:
    """`version` differs with each change, `edition` with each change by a person. Both are empty where none is."""

    version: str
    edition: str


class DocumentStamp(NamedTuple):
    """What the search index compares: a document, and whether it is the one that was indexed."""

    owner: str
    path: str
    mtime_ns: int
    size: int


class Workspace(Protocol):
    """Documents by scope and path. A path is read as `paths.normalize` says.

    Every operation raises WorkspaceError: PathRefused for what is not the scope's, DocumentMissing, and so on.
    """

    async def read(self, scope: Scope, path: str) -> str: ...

    async def write(self, scope: Scope, path: str, text: str, author: Author = Author.BOT) -> None:
        """Replace the document."""
        ...

    async def append(self, scope: Scope, path: str, text: str, author: Author = Author.BOT) -> None:
        """Add `text` on a new line."""
        ...

    async def append_memory(self, scope: Scope, text: str) -> None:
        """Add a paragraph to MEMORY.md."""
        ...

    async def append_daily(self, scope: Scope, text: str, zone: ZoneInfo) -> str:
        """Add a line to the day's notes and give back their path. Shared chats have none: PathRefused."""
        ...

    async def delete(self, scope: Scope, path: str, author: Author = Author.BOT) -> None: ...

    async def list(self, scope: Scope, path: str = "") -> tuple[str, ...]:
        """The names in a folder, as paths; folders end with `/`."""
        ...

    async def tree(self, scope: Scope, path: str = "", depth: int = 1) -> tuple[str, ...]:
        """The same, `depth` levels deep."""
        ...

    async def exists(self, scope: Scope, path: str) -> bool: ...

    async def states(self, scope: Scope, paths: Sequence[str]) -> tuple[DocumentState, ...]:
        """How each document stands, without reading any."""
        ...

    def corpus(self, scope: Scope) -> Corpus:
        """The scope's documents for the search index."""
        ...


class Corpus(Protocol):
    """All documents that one scope sees."""

    @property
    def owners(self) -> tuple[str, ...]: ...

    async def mark(self) -> Hashable | None:
        """Equal to an earlier one only if no document has changed in between; None where that cannot be told."""
        ...

    async def inventory(self) -> tuple[DocumentStamp, ...]: ...

    async def text(self, path: str) -> str | None:
        """The document, or None where it has gone or is no text."""
        ...


class FolderWorkspace:
    """The workspace as a folder on disk, created when it is first written to. It survives being edited meanwhile."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._edits = EditLedger()
        self._watch: FolderWatch | None = None
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    @property
    def root(self) -> Path:
        return self._root

    async def folder(self, scope: Scope) -> Path:
        """The scope's folder on disk, made if it is missing: where relative paths of its tools start."""

        def make() -> Path:
            real = self._real_root()
            with as_ours(str(scope.folder)), open_folder(real, scope.folder.parts, create=True):
                return base_folder(real, scope)

        return await asyncio.to_thread(make)

    async def read(self, scope: Scope, path: str) -> str:
        return await asyncio.to_thread(self._read, scope, path)

    async def write(self, scope: Scope, path: str, text: str, author: Author = Author.BOT) -> None:
        await self._update(scope, path, text, author)

    async def append(self, scope: Scope, path: str, text: str, author: Author = Author.BOT) -> None:
        await self._update(scope, path, lambda before: _joined(before, text, blank_lines=0), author)

    async def append_memory(self, scope: Scope, text: str) -> None:
        await self._update(scope, "MEMORY.md", lambda before: _joined(before, text, blank_lines=1), Author.BOT)

    async def append_daily(self, scope: Scope, text: str, zone: ZoneInfo) -> str:
        if isinstance(scope, GroupScope):
            raise PathRefused("daily/", "a shared chat keeps no daily notes; use target 'memory'")
        now = self._clock.now().astimezone(zone)
        path = daily_path(now)
        await self.append(scope, path, f"[{now:%H:%M:%S}] {text}")
        return path

    async def delete(self, scope: Scope, path: str, author: Author = Author.BOT) -> None:
        def remove() -> None:
            root = self._real_root()
            place = self._writable(root, scope, path, author)
            with as_ours(str(place.path)):
                if author is Author.BOT:
                    delete_file(root, place.parts, self._edits.own(_key(scope.folder.parts, str(place.path))))
                else:
                    delete_file(root, place.parts)

        async with self._lock(scope, path):
            await asyncio.to_thread(remove)

    async def list(self, scope: Scope, path: str = "") -> tuple[str, ...]:
        return await self.tree(scope, path, depth=1)

    async def tree(self, scope: Scope, path: str = "", depth: int = 1) -> tuple[str, ...]:
        def walk() -> tuple[str, ...]:
            root = self._real_root()
            place = locate(root, scope, path)
            with as_ours(str(place.path)):
                found = entries_below(root, scope, place, depth)
                return tuple(str(entry) for entry in islice(found, _MOST_LISTED))

        return await asyncio.to_thread(walk)

    async def exists(self, scope: Scope, path: str) -> bool:
        def probe() -> bool:
            root = self._real_root()
            place = locate(root, scope, path)
            return os.path.lexists(root.joinpath(*place.parts))

        return await asyncio.to_thread(probe)

    async def states(self, scope: Scope, paths: Sequence[str]) -> tuple[DocumentState, ...]:
        def look() -> tuple[DocumentState, ...]:
            folder = scope.folder.parts
            return tuple(self._state(_key(folder, path)) for path in paths)

        return await asyncio.to_thread(look)

    def corpus(self, scope: Scope) -> Corpus:
        return _FolderCorpus(self, scope)

    def changes(self) -> int | None:
        """A number that grows with each change of any document; None where that cannot be told. Blocks."""
        real = self._real_root()
        if self._watch is None or self._watch.root != real:
            self._watch = FolderWatch(real)
        return self._watch.changes()

    def inventory(self, scope: Scope) -> tuple[DocumentStamp, ...]:
        """A stamp of each document the scope sees. Blocks."""
        root = self._real_root()
        found = documents_of(root, scope, locate(root, scope, ""), DOCUMENT_LIMIT_BYTES)
        with as_ours("the workspace"):
            stamps = tuple(
                DocumentStamp(owner, str(entry.path), entry.signature.mtime_ns, entry.signature.size)
                for owner, entry in islice(found, _MOST_INDEXED)
            )
        if len(stamps) == _MOST_INDEXED:
            log.warning("workspace_too_large_to_index", documents=_MOST_INDEXED)
        return stamps

    def _real_root(self) -> Path:
        return Path(os.path.realpath(self._root))

    def _read(self, scope: Scope, path: str) -> str:
        root = self._real_root()
        place = locate(root, scope, path)
        if not place.path.parts:
            raise PathRefused(path, "it is a folder; memory_tree shows what is in it")
        with as_ours(str(place.path)):
            return read_file(root, place.parts, DOCUMENT_LIMIT_BYTES).data.decode("utf-8-sig")

    async def _update(self, scope: Scope, path: str, change: Callable[[str], str] | str, author: Author) -> None:
        def update() -> None:
            root = self._real_root()
            place = self._writable(root, scope, path, author)
            new = change.encode("utf-8", "replace") if isinstance(change, str) else partial(_changed, change)
            with as_ours(str(place.path)):
                if author is Author.BOT:
                    own = self._edits.own(_key(scope.folder.parts, str(place.path)))
                    update_file(root, place.parts, new, DOCUMENT_LIMIT_BYTES, own)
                else:
                    update_file(root, place.parts, new, DOCUMENT_LIMIT_BYTES)

        async with self._lock(scope, path):
            await asyncio.to_thread(update)

    def _writable(self, root: Path, scope: Scope, path: str, author: Author) -> Place:
        place = locate(root, scope, path)
        if not place.path.parts:
            raise PathRefused(path, "name a document, such as 'projects/plan.md'")
        if author is Author.BOT or (place.owner == AGENT_OWNER and scope.folder.parts):
            refuse_guarded(place, scope)
        return place

    def _lock(self, scope: Scope, path: str) -> asyncio.Lock:
        # Waiters queue here and not in threads. Two spellings of one document meet again at the lock of its folder.
        key = (*scope.folder.parts, path)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def _state(self, document: tuple[str, ...]) -> DocumentState:
        path = os.path.join(self._root, *document)

        def probe() -> Signature | None:
            # Links are followed without a check: it tells versions apart only, and reading the document is checked.
            try:
                return Signature.of(os.stat(path))
            except OSError:
                return None

        version, edition = self._edits.observe(document, probe)
        return DocumentState(_word(version), _word(edition))


@dataclass(frozen=True, slots=True)
class _FolderCorpus:
    workspace: FolderWorkspace
    scope: Scope

    @property
    def owners(self) -> tuple[str, ...]:
        return owners_seen(self.scope)

    async def mark(self) -> Hashable | None:
        return await asyncio.to_thread(self.workspace.changes)

    async def inventory(self) -> tuple[DocumentStamp, ...]:
        return await asyncio.to_thread(self.workspace.inventory, self.scope)

    async def text(self, path: str) -> str | None:
        try:
            return await self.workspace.read(self.scope, path)
        except (DocumentMissing, DocumentUnreadable, PathRefused, WorkspaceUnavailable):
            return None


def daily_path(moment: datetime) -> str:
    """Where the notes of `moment`'s day are; `moment` stands in the user's own zone."""
    return f"daily/{moment:%Y-%m-%d}.md"


def _joined(before: str, text: str, *, blank_lines: int) -> str:
    if not before.strip():
        return f"{text.rstrip()}\n"
    gap = "\n" * (blank_lines + 1)
    return f"{before.rstrip()}{gap}{text.rstrip()}\n"


def _changed(change: Callable[[str], str], before: bytes | None) -> bytes:
    # Half of a surrogate pair, which JSON can carry, cannot be written: it becomes a question mark.
    return change((before or b"").decode("utf-8-sig")).encode("utf-8", "replace")


def _key(folder: tuple[str, ...], path: str) -> tuple[str, ...]:
    """A normalised path from the root on: the agent's documents are the same ones for everybody."""
    return (path,) if path in AGENT_FILES else (*folder, *path.split("/"))


def _word(signature: Signature | None) -> str:
    return "" if signature is None else ":".join(map(str, signature))


@contextmanager
def as_ours(path: str) -> Iterator[None]:
    """Faults of the file system as the workspace's own."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DocumentUnreadable(path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DocumentMissing(path) from error
    except IsADirectoryError as error:
        raise PathRefused(path, "it is a folder") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(path, "it is a link") from error
        raise WorkspaceUnavailable(path, os.strerror(error.errno or errno.EIO)) from error
