"""Short ways to make skills and shelves of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.skills.folders import Means, skill_folders
from agent.skills.parse import parse_skill
from agent.skills.shelf import SkillLimits, SkillShelf
from agent.skills.skill import Skill, Trust


def skill_text(
    name: str = "git-help",
    *,
    body: str = "Use short commits.",
    activation: Sequence[str] = (),
    more: Sequence[str] = (),
) -> str:
    """A skill file. `activation` and `more` are lines of YAML."""
    lines = [f"name: {name}", *more]
    if activation:
        lines += ["activation:", *(f"  {line}" for line in activation)]
    return "\n".join(["---", *lines, "---", body, ""])


def make_skill(
    name: str = "git-help", *activation: str, body: str = "Use short commits.", trust: Trust = Trust.TRUSTED
) -> Skill:
    """A skill with these lines of activation."""
    return parse_skill(skill_text(name, body=body, activation=activation), trust)


class Home:
    """A home folder with skills in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace/skills"
        self.own = root / "skills"
        self.installed = root / "installed-skills"

    def put(self, folder: Path, name: str, text: str | None = None) -> Path:
        """Write a skill into a folder of its own, and give the path of its file."""
        path = folder / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(skill_text(name) if text is None else text, "utf-8")
        return path

    def shelf(self, *has: str, limits: SkillLimits | None = None) -> SkillShelf:
        """A shelf over this home. `has`: the programs, variables and settings there are."""
        there = Means(*(3 * (lambda name: name in has,)))
        return SkillShelf(skill_folders(self.root / "workspace", self.root), there, limits)
