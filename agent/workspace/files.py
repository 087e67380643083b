"""Files below a root, opened step by step without following links, and replaced whole or not at all.

A path that was checked can be swapped for a link before it is opened. Here each folder is opened from its parent with
`O_NOFOLLOW`, so what was checked is what is used. All functions block: call them in a thread. They raise OSError.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import NamedTuple

from agent.workspace.errors import DocumentTooLarge
from agent.workspace.paths import TEMPORARY_PREFIX

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # non-blocking: a pipe must not hold the thread
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Signature(NamedTuple):
    """Differs between two versions of a file."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class Contents(NamedTuple):
    """A file as it was read."""

    data: bytes
    signature: Signature


class Swap(NamedTuple):
    """The moment a new version takes the place of the old one: `before` is the signature of the old one, if any."""

    before: Signature | None
    after: Signature | None


Watch = Callable[[Swap], AbstractContextManager[None]]
"""Entered around the replacement itself, for whoever must know which versions are the program's own."""


def _unwatched(_swap: Swap) -> AbstractContextManager[None]:
    return nullcontext()


def resolve(base: Path, relative: PurePosixPath) -> PurePosixPath | None:
    """Where `relative` leads with all links followed, below the real folder `base`; None if it leads out of it.

    What does not exist yet is resolved through its nearest existing parent.
    """
    real = Path(os.path.realpath(base / relative))
    return PurePosixPath(real.relative_to(base)) if real.is_relative_to(base) else None


@contextmanager
def open_folder(root: Path, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `parts` below `root`, none of them a link."""
    if create:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(root, _FOLDER)
    try:
        for part in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def read_file(root: Path, parts: Sequence[str], limit: int) -> Contents:
    """The whole file. Raises DocumentTooLarge above `limit` bytes."""
    with open_folder(root, parts[:-1]) as folder:
        return _read_in(folder, parts[-1], limit)


def update_file(
    root: Path,
    parts: Sequence[str],
    change: Callable[[bytes | None], bytes] | bytes,
    limit: int,
    watch: Watch = _unwatched,
) -> int:
    """Replace the file, by `change` or by what it makes of the present content, and give back the new size.

    The file is the old one or the new one at any moment, also through a crash; its mode stays; folders are created.
    Writers of one folder, in other processes too, take turns, so no change is made from a stale version.
    """
    name = parts[-1]
    with open_folder(root, parts[:-1], create=True) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        data = change if isinstance(change, bytes) else change(_present_in(folder, name, limit))
        if len(data) > limit:
            raise DocumentTooLarge(name, len(data), limit)
        temporary = f"{TEMPORARY_PREFIX}{token_hex(8)}.tmp"
        try:
            after = _write_new(folder, temporary, data, like=_status(folder, name))
            with watch(Swap(_signature(folder, name), after)):
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)
        return len(data)


def delete_file(root: Path, parts: Sequence[str], watch: Watch = _unwatched) -> None:
    """Remove the file."""
    with open_folder(root, parts[:-1]) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with watch(Swap(_signature(folder, parts[-1]), None)):
            os.unlink(parts[-1], dir_fd=folder)
        os.fsync(folder)


def _read_in(folder: int, name: str, limit: int) -> Contents:
    descriptor = os.open(name, _READ, dir_fd=folder)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError(21, "Not a file", name)
        if status.st_size > limit:
            raise DocumentTooLarge(name, status.st_size, limit)
        data = file.read(limit + 1)
        if len(data) > limit:
            raise DocumentTooLarge(name, len(data), limit)
        return Contents(data, Signature.of(status))


def _present_in(folder: int, name: str, limit: int) -> bytes | None:
    try:
        return _read_in(folder, name, limit).data
    except FileNotFoundError:
        return None


def _write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> Signature:
    descriptor = os.open(name, _CREATE, 0o666, dir_fd=folder)
    with open(descriptor, "wb") as file:
        if like is not None:
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        if os.geteuid() == 0:
            # A sandboxed shell may own the folder under an id of its own: it must be able to change its files again.
            owner = like or os.fstat(folder)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
        return Signature.of(os.fstat(descriptor))


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _signature(folder: int, name: str) -> Signature | None:
    status = _status(folder, name)
    return None if status is None else Signature.of(status)
