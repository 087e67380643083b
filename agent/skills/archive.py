"""The skill in a ZIP archive. Nothing is unpacked: of all that is in there one file is read, and only its text kept."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from pathlib import PurePosixPath

from agent.skills.errors import SkillInvalid
from agent.skills.folders import SKILL_FILE
from agent.skills.parse import LARGEST_FILE

LARGEST_ARCHIVE = 1024 * 1024
"""Bytes."""
MOST_ENTRIES = 100

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".xz", ".bz2")
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


def is_archive(data: bytes) -> bool:
    """Whether these bytes begin as a ZIP archive does."""
    return data.startswith(b"PK\x03\x04")


def skill_file_in(data: bytes) -> bytes:
    """The SKILL.md of an archive, at its top or in its only folder. Raises SkillInvalid.

    An archive with a link, an absolute path, a path upwards or another archive in it is refused whole.
    """
    if len(data) > LARGEST_ARCHIVE:
        raise SkillInvalid(f"the archive is {len(data):,} bytes; {LARGEST_ARCHIVE:,} is the limit")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES:
                raise SkillInvalid(f"the archive has {len(entries)} entries; {MOST_ENTRIES} is the limit")
            for entry in entries:
                _check(entry)
            with archive.open(_skill_file(entries)) as file:
                text = file.read(LARGEST_FILE + 1)  # counted as it is unpacked, whatever the archive says of its size
    except _FAULTS:
        raise SkillInvalid("the archive cannot be read") from None
    if len(text) > LARGEST_FILE:
        raise SkillInvalid(f"{SKILL_FILE} in the archive is larger than {LARGEST_FILE:,} bytes")
    return text


def _check(entry: zipfile.ZipInfo) -> None:
    path = entry.filename
    if path.startswith("/") or "\\" in path or ":" in path or ".." in PurePosixPath(path).parts:
        raise SkillInvalid("the archive holds a path that leads out of it")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise SkillInvalid("the archive holds a link")
    if path.lower().endswith(_ARCHIVES):
        raise SkillInvalid("the archive holds another archive")
    if entry.flag_bits & 0x1 or entry.compress_type not in _METHODS:
        raise SkillInvalid("the archive is encrypted or packed in an uncommon way")


def _skill_file(entries: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    found = [entry for entry in entries if _is_skill_file(entry)]
    if len(found) != 1:
        raise SkillInvalid(
            f"the archive holds {len(found) or 'no'} {SKILL_FILE}; one is needed, at its top or one folder down"
        )
    return found[0]


def _is_skill_file(entry: zipfile.ZipInfo) -> bool:
    path = PurePosixPath(entry.filename)
    return path.name == SKILL_FILE and len(path.parts) <= 2 and not entry.is_dir()
