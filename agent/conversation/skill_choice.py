"""Which skills a message brings into a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from agent.conversation.ports import ChosenSkill
from agent.conversation.prompt import ActiveSkill


class NoSkills:
    """Stands in where there are none."""

    async def for_message(self, text: str) -> Sequence[ChosenSkill]:
        return ()

    def narrowed(self, active: Sequence[ActiveSkill]) -> frozenset[str] | None:
        return None
