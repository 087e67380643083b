"""What the model is about to see: a stable prefix, the history, and what this turn has added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.llm.base import CompletionRequest, ToolDefinition
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.repair import repair_history
from agent.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class ReasoningContext:
    """A turn's view of the conversation. `history` is shared and never changes; `added` is this turn's own."""

    system: str
    tools: tuple[ToolDefinition, ...]
    history: tuple[ChatMessage, ...]
    added: tuple[ChatMessage, ...] = ()
    force_text: bool = False

    def with_messages(self, *messages: ChatMessage) -> ReasoningContext:
        """The context with messages at its end."""
        return replace(self, added=(*self.added, *messages))

    def without_tools(self) -> ReasoningContext:
        """The context for a last answer: the model must reply in words."""
        return replace(self, force_text=True)

    def without_history(self, note: str) -> ReasoningContext:
        """The context of this turn alone, with a word on what is missing."""
        return replace(self, history=(UserText(note),))

    def request(self, *, max_tokens: int = 4096, temperature: float = 0.7) -> CompletionRequest:
        """The model call for this context. Its messages are sound, whatever an interruption left of them."""
        return CompletionRequest(
            system=self.system,
            messages=repair_history((*self.history, *self.added)),
            tools=() if self.force_text else self.tools,
            max_tokens=max_tokens,
            temperature=temperature,
        )

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last assistant message that have no result yet, in order."""
        answered: set[str] = set()
        for message in reversed(self.added):
            match message:
                case ToolResult(call_id=call_id):
                    answered.add(call_id)
                case AssistantTurn(calls=calls):
                    return tuple(call for call in calls if call.id not in answered)
                case _:
                    return ()
        return ()

    @property
    def last_results(self) -> Sequence[ToolResult]:
        """The tool results at the end of the context, in order."""
        found: list[ToolResult] = []
        for message in reversed(self.added):
            if not isinstance(message, ToolResult):
                break
            found.insert(0, message)
        return found

    @property
    def rounds(self) -> int:
        """How many model answers this turn already holds."""
        return sum(isinstance(message, AssistantTurn) for message in self.added)
