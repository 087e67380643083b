"""The skills of the bot: loaded from their folders, and anew when something in there has changed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shutil import which

import structlog

from agent.skills.describe import matches
from agent.skills.folders import Fault, Found, Means, SkillFolder, State, load, state_of
from agent.skills.select import MAX_ACTIVE, MAX_TOKENS, named_skill, select_skills
from agent.skills.skill import Skill

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SkillLimits:
    """How much of a prompt skills may take (`SKILLS_MAX_ACTIVE`, `SKILLS_MAX_CONTEXT_TOKENS`)."""

    max_active: int = MAX_ACTIVE
    max_tokens: int = MAX_TOKENS


class SkillShelf:
    """Holds the skills. Each question looks whether a file has changed, in a thread; a file edited by hand counts."""

    def __init__(self, folders: Sequence[SkillFolder], means: Means, limits: SkillLimits | None = None) -> None:
        self.folders = tuple(folders)
        self._means = means
        self._limits = limits or SkillLimits()
        self._states: tuple[State | None, ...] | None = None
        self._found = Found()
        self._loading = threading.Lock()

    async def prepare(self) -> None:
        """Make the folders that are missing, so that nobody else can put one in their place. Loads the skills."""
        await asyncio.to_thread(self._prepare)

    async def list(self) -> tuple[Skill, ...]:
        """All usable skills, in load order."""
        return (await asyncio.to_thread(self.look)).skills

    async def select(self, text: str) -> tuple[Skill, ...]:
        """The skills for a message as it was typed; one that it begins with by `/name` comes first."""
        return await asyncio.to_thread(self._select, text)

    async def search(self, query: str) -> tuple[Skill | Fault, ...]:
        """Skills, usable or not, that have words of a query, best first."""
        found = await asyncio.to_thread(self.look)
        return matches((*found.skills, *found.faults), query)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What was passed over when the skills were last loaded, and why."""
        return self._found.faults

    def look(self) -> Found:
        """What the folders hold now. Blocks."""
        with self._loading:
            states = tuple(state_of(folder) for folder in self.folders)
            if states != self._states:
                before = self._found
                self._found = load(tuple(zip(self.folders, states, strict=True)), self._means)
                self._states = states
                _report(before, self._found)
            return self._found

    def _select(self, text: str) -> tuple[Skill, ...]:
        skills = self.look().skills
        if not skills:
            return ()
        named = named_skill(text, skills)
        explicit = () if named is None else (named,)
        limits = self._limits
        return select_skills(skills, text, explicit, max_active=limits.max_active, max_tokens=limits.max_tokens)

    def _prepare(self) -> None:
        for folder in self.folders:
            try:
                folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                log.warning("skills_folder_not_made", folder=folder.label, error=type(error).__name__)
        self.look()


def means_of_this_machine(has_setting: Callable[[str], bool]) -> Means:
    """Programs on the path, and the environment of this process."""
    return Means(lambda name: which(name) is not None, lambda name: bool(os.environ.get(name)), has_setting)


def _report(before: Found, now: Found) -> None:
    """Log each fault once: when it is new."""
    known = frozenset(before.faults)
    for fault in now.faults:
        if fault not in known:
            log.warning("skill_skipped", where=fault.where, reason=fault.reason)
    warned = {(skill.name, warning) for skill in before.skills for warning in skill.warnings}
    for skill in now.skills:
        for warning in skill.warnings:
            if (skill.name, warning) not in warned:
                log.warning("skill_part_left_out", skill=skill.name, reason=warning)
    log.info("skills_loaded", skills=len(now.skills), skipped=len(now.faults))
