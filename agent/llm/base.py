"""What the agent asks of a model, and what every provider gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from agent.llm.messages import ChatMessage
from agent.model.tool_call import JsonValue, ToolCall


class FinishReason(StrEnum):
    """Why the model stopped. A stream without a finish reason is a failure, not an answer."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the provider counted them. `input_tokens` includes cache reads and writes."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One model call. `system` and `tools` are the stable prefix; `messages` end with a user text or tool results.

    `model` overrides the provider's own for this call. `messages` should be the same objects from call to call:
    providers keep their encoded form. `account` says what the call is for (a turn's id, "heartbeat"), for the record of
    its cost; `unattended` that nobody waits for it: such calls leave the rest of a tight budget to people. `pictures`
    are those of the messages that go along, in base64 by their digest: a model that sees is shown them, any other is
    told that they are there.
    """

    system: str
    messages: Sequence[ChatMessage]
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int = 4096
    temperature: float = 0.7
    model: str | None = None
    account: str = ""
    unattended: bool = False
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer. `model` is the one that answered, for its price."""

    text: str
    finish: FinishReason
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""


OnText = Callable[[str], None]
"""Called with each piece of text as it arrives. Must not block. A retry starts over: it is called with "" first."""


class LLMProvider(Protocol):
    """A source of completions. Raises `agent.llm.errors.LLMError`."""

    @property
    def name(self) -> str:
        """The provider's registered name, for prices and messages."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def context_limit(self) -> int | None:
        """Tokens the model takes, or None where that is not known."""
        ...

    @property
    def supports_tools(self) -> bool: ...

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`; with `on_text` the answer is streamed as well as returned."""
        ...

    async def list_models(self) -> tuple[str, ...]:
        """Names `/model` may choose from; empty where the provider cannot tell."""
        ...

    async def warm_up(self) -> None:
        """Load what the first call would otherwise wait for. Cheap when done before; raises `LLMError`."""
        ...

    async def close(self) -> None:
        """Let go of connections and models. May be called again: one provider can stand in several places."""
        ...
