"""Installing and removing skills. What is installed stays somebody else's words: it never becomes trusted."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.safety.sanitizer import sanitize
from agent.skills.archive import is_archive, skill_file_in
from agent.skills.errors import SkillRefused, SkillsUnavailable
from agent.skills.folders import MOST_SKILLS, SKILL_FILE, SkillFolder, may_be_skill
from agent.skills.parse import parse_skill
from agent.skills.shelf import SkillShelf
from agent.skills.skill import NAME, Skill, Trust, name_key
from agent.workspace.paths import TEMPORARY_PREFIX

_CRITICAL = "ignore all previous"


class SkillInstaller:
    """Writes to the folder of installed skills, whole skills or nothing."""

    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf
        self._folder = next(folder for folder in shelf.folders if folder.trust is Trust.INSTALLED)
        self._writing = threading.Lock()

    async def install(self, data: bytes, expected_name: str) -> Skill:
        """Install the skill in a text or in a ZIP archive. Raises SkillError; then nothing was changed."""
        return await asyncio.to_thread(self._install, data, expected_name)

    async def remove(self, name: str) -> None:
        """Remove an installed skill, a faulty one too. Raises SkillError; then nothing was changed."""
        await asyncio.to_thread(self._remove, name)

    def _install(self, data: bytes, expected_name: str) -> Skill:
        text = skill_file_in(data) if is_archive(data) else data
        skill = parse_skill(text, Trust.INSTALLED)
        if skill.name != expected_name.strip():
            raise SkillRefused(f"The file calls itself {skill.name!r}, not {expected_name.strip()[:64]!r}.")
        if (reason := screened(skill)) is not None:
            raise SkillRefused(reason)
        with self._writing, _as_ours():
            self._refuse_taken(skill.name)
            _write(self._folder.root, skill.name, text)
        return skill

    def _refuse_taken(self, name: str) -> None:
        found = self._shelf.look()
        taken = {name_key(name) for name in found.names}
        on_disk = {name_key(entry) for folder in self._shelf.folders for entry in _entries(folder)}
        if name_key(name) in taken | on_disk:
            raise SkillRefused(f"There is a skill {name!r} already. Remove it first, or use another name.")
        if len(_entries(self._folder)) >= MOST_SKILLS:
            raise SkillRefused(f"{MOST_SKILLS} skills are installed, which is the limit. Remove one first.")

    def _remove(self, name: str) -> None:
        name = name.strip()
        if not NAME.fullmatch(name):
            raise SkillRefused("This is no name of a skill.")
        with self._writing, _as_ours():
            target = self._installed(name)
            if target is not None:
                _delete(self._folder.root, target)
            elif self._is_trusted(name):
                raise SkillRefused(f"{name!r} is the operator's own skill. Only they remove it, by deleting its file.")
            else:
                raise SkillRefused(f"No skill {name!r} is installed.")

    def _installed(self, name: str) -> str | None:
        """The entry of the installed skill of this name, or the folder of this name if what is in it is faulty."""
        found = self._shelf.look()
        for skill in found.skills:
            if skill.trust is Trust.INSTALLED and name_key(skill.name) == name_key(name):
                return skill.folder or SKILL_FILE
        return next((entry for entry in _entries(self._folder) if name_key(entry) == name_key(name)), None)

    def _is_trusted(self, name: str) -> bool:
        found = self._shelf.look()
        of_skills = {name_key(skill.name) for skill in found.skills if skill.trust is Trust.TRUSTED}
        trusted = (folder for folder in self._shelf.folders if folder.trust is Trust.TRUSTED)
        return name_key(name) in of_skills | {name_key(entry) for folder in trusted for entry in _entries(folder)}


def screened(skill: Skill) -> str | None:
    """Why the words of a skill may not stand in a prompt; None if they may."""
    result = sanitize("\n".join((skill.description, skill.body)))
    if result.changed or _CRITICAL in result.warnings:
        return "The skill holds text that poses as instructions of the program or as another speaker."
    return None


def _entries(folder: SkillFolder) -> tuple[str, ...]:
    try:
        with os.scandir(folder.root) as entries:
            return tuple(sorted(entry.name for entry in entries if may_be_skill(entry)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _write(root: Path, name: str, data: bytes) -> None:
    """A folder of this name with the file in it: there whole, or not at all, also after a crash."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_link(root)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=root))  # readable for the owner alone
    try:
        descriptor = os.open(temporary / SKILL_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, root / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # nothing is left of it where all went well
    _sync(root)


def _delete(root: Path, entry: str) -> None:
    _refuse_link(root)
    target = root / entry
    if not stat.S_ISDIR(os.lstat(target).st_mode):
        target.unlink()  # a file by itself, or a link: what it leads to stays
    else:
        gone = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=root))
        os.rename(target, gone)
        shutil.rmtree(gone)
    _sync(root)


def _refuse_link(root: Path) -> None:
    if root.is_symlink():
        raise SkillRefused("The folder of installed skills is a link. Put a folder in its place.")


def _sync(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SkillsUnavailable(os.strerror(error.errno) if error.errno else "an unknown fault") from error
