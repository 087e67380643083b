"""What a history has already told the model: read once from its messages, then carried along as it grows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agent.conversation.prompt import ActiveSkill, notes_of, skills_of
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText

_SEARCH = "tool_search"
_NAME = re.compile(r'"name":\s*"([A-Za-z0-9_-]{1,64})"')


@dataclass(frozen=True, slots=True)
class Told:
    """The notes of the day told last (as a digest), the skills that stand in it, and the tools it knows.

    `tools` are names that were called or found: what is rare is offered from then on.
    """

    notes_digest: str = ""
    skills: tuple[ActiveSkill, ...] = ()
    tools: frozenset[str] = frozenset()

    def then(self, later: Told) -> Told:
        """What has been told after more was."""
        skills = tuple(dict.fromkeys((*self.skills, *later.skills)))
        return Told(later.notes_digest or self.notes_digest, skills, self.tools | later.tools)


NOTHING_TOLD = Told()


def told(messages: Iterable[ChatMessage]) -> Told:
    """What these messages tell."""
    digest, skills, tools = "", dict[ActiveSkill, None](), set[str]()
    for message in messages:
        match message:
            case UserText(text=text):
                digest = notes_of(text) or digest
                skills.update(dict.fromkeys(skills_of(text)))
            case AssistantTurn(calls=calls):
                tools.update(call.name for call in calls)
            case ToolResult(name=name, text=text) if name == _SEARCH:
                tools.update(_NAME.findall(text))
            case ToolResult():
                pass
    return Told(digest, tuple(skills), frozenset(tools))
