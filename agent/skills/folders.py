"""The folders that skills lie in, as they are on disk. All functions block: call them in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.skills.errors import SkillInvalid
from agent.skills.parse import LARGEST_FILE, parse_skill
from agent.skills.skill import Requires, Skill, Trust, name_key
from agent.workspace.errors import DocumentTooLarge
from agent.workspace.files import Signature, read_file

SKILL_FILE = "SKILL.md"
MOST_SKILLS = 100
"""In one folder."""
_MOST_ENTRIES = 1000  # names that are looked at in a folder


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of skills. `label` is how people know it."""

    root: Path
    trust: Trust
    label: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A skill that was passed over. `name` is its own, or that of its folder where it has none."""

    name: str
    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in the folders: the skills in load order, no two of one name, and what was passed over."""

    skills: tuple[Skill, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the skills and of what was passed over."""
        return (*(skill.name for skill in self.skills), *(fault.name for fault in self.faults))


@dataclass(frozen=True, slots=True)
class Means:
    """What skills can require, and whether it is there: a program, a variable of the environment, a setting."""

    has_program: Callable[[str], bool]
    has_variable: Callable[[str], bool]
    has_setting: Callable[[str], bool]


State = tuple[tuple[str, bool, Signature | None], ...]
"""Of a folder: each entry, whether it is a folder, and the signature of its file."""


def skill_folders(workspace: Path, home: Path) -> tuple[SkillFolder, ...]:
    """Where skills are looked for. Of two with one name the first counts."""
    return (
        SkillFolder(workspace / "skills", Trust.TRUSTED, "workspace/skills"),
        SkillFolder(home / "skills", Trust.TRUSTED, "skills"),
        SkillFolder(home / "installed-skills", Trust.INSTALLED, "installed-skills"),
    )


def state_of(folder: SkillFolder) -> State | None:
    """Differs when a skill was added, changed or removed. None: there is no such folder, or a link in its place."""
    try:
        if not stat.S_ISDIR(os.lstat(folder.root).st_mode):
            return None
        with os.scandir(folder.root) as entries:
            found = [_state(entry) for entry in islice(entries, _MOST_ENTRIES) if may_be_skill(entry)]
    except OSError:
        return None
    return tuple(sorted(found, key=lambda entry: entry[0]))


def load(folders: tuple[tuple[SkillFolder, State | None], ...], means: Means) -> Found:
    """All skills of these folders, as their states list them."""
    skills: list[Skill] = []
    faults: list[Fault] = []
    names: set[str] = set()
    for folder, state in folders:
        for loaded in _load_folder(folder, state or ()):
            if isinstance(loaded, Fault):
                faults.append(loaded)
            elif name_key(loaded.name) in names:
                faults.append(_fault(folder, loaded, "another skill of this name comes first"))
            elif missing := _missing(loaded.requires, means):
                faults.append(_fault(folder, loaded, f"it needs {missing}"))
            else:
                names.add(name_key(loaded.name))
                skills.append(loaded)
    return Found(tuple(skills), tuple(faults))


def may_be_skill(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is to be looked at: hidden ones and files of other names are not."""
    if entry.name.startswith("."):
        return False
    return entry.name == SKILL_FILE or entry.is_symlink() or entry.is_dir(follow_symlinks=False)


def _state(entry: os.DirEntry[str]) -> tuple[str, bool, Signature | None]:
    is_folder = entry.is_dir(follow_symlinks=False)
    try:
        status = os.lstat(os.path.join(entry.path, SKILL_FILE) if is_folder else entry.path)
    except OSError:
        return entry.name, is_folder, None
    return entry.name, is_folder, Signature.of(status)


def _load_folder(folder: SkillFolder, state: State) -> Iterator[Skill | Fault]:
    for name, is_folder, _ in state[:MOST_SKILLS]:
        try:
            parts = (name, SKILL_FILE) if is_folder else (name,)
            data = read_file(folder.root, parts, LARGEST_FILE).data
            yield parse_skill(data, folder.trust, name if is_folder else "")
        except SkillInvalid as error:
            yield Fault(name, _where(folder, name), str(error))
        except DocumentTooLarge as error:
            yield Fault(name, _where(folder, name), f"the file is {error.size:,} bytes; {error.limit:,} is the limit")
        except FileNotFoundError:
            yield Fault(name, _where(folder, name), f"there is no {SKILL_FILE} in it")
        except OSError:
            yield Fault(name, _where(folder, name), "it is a link or cannot be read")
    if len(state) > MOST_SKILLS:
        yield Fault("", folder.label, f"only the first {MOST_SKILLS} skills of a folder are loaded")


def _missing(requires: Requires, means: Means) -> str:
    """What a skill requires and lacks; empty if nothing."""
    lacks = [
        *(f"the program {name}" for name in requires.bins if not means.has_program(name)),
        *(f"the environment variable {name}" for name in requires.env if not means.has_variable(name)),
        *(f"the setting {name}" for name in requires.config if not means.has_setting(name)),
    ]
    return ", ".join(lacks)


def _fault(folder: SkillFolder, skill: Skill, reason: str) -> Fault:
    return Fault(skill.name, _where(folder, skill.folder or SKILL_FILE), reason)


def _where(folder: SkillFolder, name: str) -> str:
    return f"{folder.label}/{name[:80]}"
