"""Keeps files that people send in the folder of the one who sends, a day a folder. All functions block."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path, PurePosixPath

from agent.media.errors import NoRoom, NotKept
from agent.media.names import FOLDER, numbered
from agent.workspace.errors import DocumentTooLarge, PathRefused, WorkspaceError
from agent.workspace.files import open_folder, read_file, update_file
from agent.workspace.places import Place, locate
from agent.workspace.scope import Scope

MOST_BYTES_OF_A_SCOPE = 200_000_000
"""What the files sent to one folder may take together."""
_MOST_OF_ONE_NAME = 50


@dataclass(frozen=True, slots=True)
class Kept:
    """A file that was kept: `path` is relative to the folder of the one who asks, `place` to the whole workspace."""

    path: str
    place: str
    digest: str


class _Taken(Exception):
    """Another file has that name."""


def keep(root: Path, scope: Scope, day: date, name: str, data: bytes, most_bytes: int = MOST_BYTES_OF_A_SCOPE) -> Kept:
    """Write a file below the scope's `attachments/`. The same content under the same name is the same file.

    Raises NoRoom and NotKept.
    """
    real = Path(os.path.realpath(root))
    try:
        for number in range(1, _MOST_OF_ONE_NAME + 1):
            path = PurePosixPath(FOLDER, f"{day:%Y-%m-%d}", numbered(name, number))
            place = _place(real, scope, path)
            if place is not None and _put(real, place.parts, data, most_bytes, scope):
                return Kept(str(path), str(PurePosixPath(*place.parts)), sha256(data).hexdigest())
    except OSError as error:
        raise NotKept from error
    raise NotKept


def read_back(root: Path, place: str, digest: str, limit: int) -> bytes | None:
    """The content of a kept file, if it is still the very same; else None."""
    try:
        data = read_file(Path(os.path.realpath(root)), PurePosixPath(place).parts, limit).data
    except (WorkspaceError, OSError):
        return None
    return data if sha256(data).hexdigest() == digest else None


def _place(root: Path, scope: Scope, path: PurePosixPath) -> Place | None:
    """Where the file goes; None where a link lies in the way: what people send goes where it says, or nowhere."""
    try:
        place = locate(root, scope, str(path))
    except PathRefused:
        return None
    return place if place.real == path == place.path else None


def _put(root: Path, parts: tuple[str, ...], data: bytes, most_bytes: int, scope: Scope) -> bool:
    """Write the file if its name is free; True if it holds `data` now."""
    try:
        update_file(root, parts, _if_free(data, lambda: _used(root, scope) + len(data) > most_bytes), len(data))
    except _Taken:
        return False
    except _AlreadyThere:
        return True
    except DocumentTooLarge:
        return False  # what is there is larger, so it is another file
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ELOOP):
            return False  # a folder or a link has that name
        raise
    return True


class _AlreadyThere(Exception):
    """The same content has that name."""


def _if_free(data: bytes, is_full: Callable[[], bool]) -> Callable[[bytes | None], bytes]:
    def change(before: bytes | None) -> bytes:
        if before == data:
            raise _AlreadyThere
        if before is not None:
            raise _Taken
        if is_full():
            raise NoRoom
        return data

    return change


def _used(root: Path, scope: Scope) -> int:
    """Bytes in the scope's `attachments/`; links are not followed."""
    total = 0
    with open_folder(root, (*scope.folder.parts, FOLDER)) as folder:
        for _, _, names, inner in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
            for name in names:
                status = os.stat(name, dir_fd=inner, follow_symlinks=False)
                total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total
