"""Tells whether anything below a folder has changed, without looking at the files: Linux's inotify.

A watch costs a kilobyte of the kernel's memory for each folder; asking costs some microseconds. On other systems, on
file systems that another machine may write to, and where the kernel gives no watch, the answer is that it cannot be
told.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import structlog

from agent.workspace.paths import SKIPPED_FOLDERS

log = structlog.get_logger(__name__)

# <sys/inotify.h>
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ONLY_FOLDERS = 0x0100_0000
_EVENTS = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_MOST_FOLDERS = 8_192  # the least any kernel allows one user
_READ_BYTES = 65_536
# Whatever changes on these is done through this kernel. Not so on network file systems and on the folders that virtual
# machines are given by their host (9p, virtiofs, fuse, fakeowner).
_LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"})
_MOUNTS = Path("/proc/self/mountinfo")


class FolderWatch:
    """Counts changes below one folder. Safe to use from several threads; every operation may block for a moment."""

    def __init__(self, root: Path, mounts: Path = _MOUNTS) -> None:
        self._root = root
        self._mounts = mounts
        self._lock = threading.Lock()
        self._queue: _Queue | None = None
        self._is_refused = sys.platform != "linux"
        self._changes = 0

    @property
    def root(self) -> Path:
        """The folder that is watched."""
        return self._root

    def changes(self) -> int | None:
        """A number that grows with each change below the folder; None where it cannot be told.

        A change made before the call is in it, whoever made it on this machine.
        """
        with self._lock:
            if self._is_refused:
                return None
            if self._queue is None or self._queue.has_events():
                # Folders may have come or gone: all are watched anew, before anybody looks at what is in them.
                self._changes += 1
                self._queue = self._watch()
                self._is_refused = self._queue is None and self._root.is_dir()
            return self._changes if self._queue is not None else None

    def _watch(self) -> _Queue | None:
        if self._queue is None and self._is_local():
            self._queue = _Queue.opened()
        if self._queue is None or not self._root.is_dir():
            return None
        waiting, watched = [os.fspath(self._root)], 0
        while waiting:
            folder = waiting.pop()
            watched += 1
            if watched > _MOST_FOLDERS or not self._queue.add(folder):
                log.info("folder_watch_refused", folders=watched)
                return None
            waiting += _folders_in(folder)  # after it is watched: a folder made meanwhile is told
        return self._queue

    def _is_local(self) -> bool:
        try:
            mounts = self._mounts.read_text("utf-8", "surrogateescape")
        except OSError:
            return False
        return file_system_of(os.path.realpath(self._root), mounts) in _LOCAL


def file_system_of(folder: str, mounts: str) -> str | None:
    """The kind of file system a folder lies on, from what the kernel tells in `/proc/self/mountinfo`."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        # Of several at one place the last one lies on top.
        if (point == "/" or f"{folder}/".startswith(f"{point}/")) and (found is None or len(point) >= found[0]):
            found = len(point), kind
    return None if found is None else found[1]


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [e.path for e in entries if e.name not in SKIPPED_FOLDERS and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # gone meanwhile


class _Queue:
    """The kernel's queue of events. Its descriptor is closed when nobody holds the queue any more."""

    def __init__(self, descriptor: int, add_watch: Callable[[int, bytes, int], int]) -> None:
        self._descriptor = descriptor
        self._add_watch = add_watch
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def opened(cls) -> _Queue | None:
        import ctypes  # at the first search: until then it is memory for nothing

        try:
            library = ctypes.CDLL(None)
            descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            return cls(descriptor, library.inotify_add_watch) if descriptor >= 0 else None
        except (OSError, AttributeError):  # a C library without it
            return None

    def add(self, folder: str) -> bool:
        """Watch a folder. One that has gone is no failure."""
        if self._add_watch(self._descriptor, os.fsencode(folder), _EVENTS) >= 0:
            return True
        return not os.path.isdir(folder)

    def has_events(self) -> bool:
        """Whether anything happened since the last call; all of it is taken out. An overflow is an event, too."""
        found = False
        while True:
            try:
                found = bool(os.read(self._descriptor, _READ_BYTES)) or found
            except BlockingIOError:
                return found
