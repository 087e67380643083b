"""The conversation as models see it. Values are immutable; a history only ever grows at its end."""

from __future__ import annotations

from dataclasses import dataclass

from agent.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A picture that a person sent, told apart by its SHA-256. The bytes stay in the workspace.

    `path` is relative to the folder of the one who sent it, as models name it; `place` to the whole workspace.
    """

    digest: str
    media_type: str
    path: str
    place: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UserText:
    """What a person said, with the volatile facts of the moment in front, and the pictures that came with it."""

    text: str
    images: tuple[ImageRef, ...] = ()


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
