"""Removes notes that nobody changed for a long time. Blocks: call it in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import structlog

from agent.workspace.files import delete_file, open_folder
from agent.workspace.paths import AGENT_FILES, PRIVATE_FILES, name_key

log = structlog.get_logger(__name__)

_KEPT = frozenset(name_key(name) for name in (*AGENT_FILES, *PRIVATE_FILES))

Parts = tuple[str, ...]


def remove_old(root: Path, changed_before: Mapping[str, datetime]) -> int:
    """Remove the Markdown files of these folders that were last changed before then, and give their number.

    In everybody's folder: the operator's, each person's and each shared chat's. Documents with a fixed name stay,
    wherever they lie, and so does what lies deeper. A file that cannot be removed is logged and left.
    """
    real = Path(os.path.realpath(root))
    removed = 0
    for owner in ((), *_below(real, "users"), *_below(real, "groups")):
        for folder, limit in changed_before.items():
            for name in _old_files(real, (*owner, folder), limit):
                try:
                    delete_file(real, (*owner, folder, name))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    log.warning("old_note_not_removed", folder=folder, error=type(error).__name__)
                else:
                    removed += 1
    return removed


def _below(root: Path, top: str) -> Iterator[Parts]:
    for channel in _names(root, (top,)):
        for who in _names(root, (top, channel)):
            yield top, channel, who


def _old_files(root: Path, parts: Parts, limit: datetime) -> Iterator[str]:
    for name, status in _entries(root, parts):
        is_note = stat.S_ISREG(status.st_mode) and name.lower().endswith(".md") and name_key(name) not in _KEPT
        if is_note and status.st_mtime < limit.timestamp():
            yield name


def _names(root: Path, parts: Parts) -> Iterator[str]:
    return (name for name, status in _entries(root, parts) if stat.S_ISDIR(status.st_mode))


def _entries(root: Path, parts: Parts) -> list[tuple[str, os.stat_result]]:
    """What lies in a folder, links as links; nothing where there is no such folder, or a link in its place."""
    try:
        with open_folder(root, parts) as folder:
            return [(name, os.lstat(name, dir_fd=folder)) for name in os.listdir(folder)]
    except OSError:
        return []
