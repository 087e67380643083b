"""Which skills a message brings into a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from agent.conversation.ports import ChosenSkill
from agent.conversation.prompt import ActiveSkill
from agent.skills.attenuation import allowed_tools
from agent.skills.block import skill_block
from agent.skills.select import named_skill
from agent.skills.shelf import SkillShelf
from agent.skills.skill import Trust


class ShelfSkills:
    """Chooses from a shelf."""

    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf

    async def for_message(self, text: str) -> Sequence[ChosenSkill]:
        return [
            ChosenSkill(ActiveSkill(skill.name, skill.trust is Trust.INSTALLED, skill.sha256[:8]), skill_block(skill))
            for skill in await self._shelf.select(text)
        ]

    async def is_named(self, text: str) -> bool:
        """Whether a message begins with `/` and the name of a skill."""
        return text.startswith("/") and named_skill(text, await self._shelf.list()) is not None

    def narrowed(self, active: Sequence[ActiveSkill]) -> frozenset[str] | None:
        return allowed_tools(Trust.INSTALLED if skill.is_installed else Trust.TRUSTED for skill in active)
