"""The conversation as models see it. Values are immutable; a history only ever grows at its end."""

from __future__ import annotations

from dataclasses import dataclass

from agent.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class UserText:
    """What a person said, with the volatile facts of the moment in front."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """What the model said and which calls it asked for. Never both empty."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one call, wrapped and screened. Results stand right after the turn that asked, in its order."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


ChatMessage = UserText | AssistantTurn | ToolResult
