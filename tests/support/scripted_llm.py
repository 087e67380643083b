"""A model that answers from a script: whole conversations without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from agent.llm.base import Completion, CompletionRequest, FinishReason, OnText, Usage
from agent.model.tool_call import JsonValue, ToolCall


@dataclass(frozen=True)
class Held:
    """An answer that waits in mid-call: `await held.reached.wait()`, look around, then `held.release.set()`."""

    completion: Completion
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


ScriptStep = Completion | BaseException | Held | Callable[[CompletionRequest], Completion]
"""An answer, a fault to raise, an answer held back, or a function that answers the request it is given."""

_PIECE = 7  # characters of a streamed piece: small enough to cut tags and words


def say(text: str, *, usage: Usage = Usage(input_tokens=10, output_tokens=5)) -> Completion:  # noqa: B008 - frozen
    """A finished text answer."""
    return Completion(text=text, finish=FinishReason.STOP, usage=usage)


def call(name: str, *, id: str = "call_1", text: str = "", **arguments: JsonValue) -> Completion:
    """An answer that asks for one tool call."""
    asked = (ToolCall(id=id, name=name, arguments=arguments),)
    return Completion(text=text, finish=FinishReason.TOOL_CALLS, calls=asked, usage=Usage(10, 5))


def calls(*wanted: ToolCall, text: str = "") -> Completion:
    """An answer that asks for several tool calls at once."""
    return Completion(text=text, finish=FinishReason.TOOL_CALLS, calls=wanted, usage=Usage(10, 5))


class ScriptExhausted(AssertionError):
    """The code under test made more model calls than the script holds."""


@dataclass
class ScriptedLLM:
    """Plays its steps in order, one a call, and keeps every request it was sent in `requests`.

    With `on_text` the answer's text arrives in small pieces. When the steps are used up `default` answers; without it
    a further call fails the test.
    """

    steps: Iterable[ScriptStep] = ()
    model: str = "scripted-1"
    name: str = "scripted"
    context_limit: int | None = 100_000
    supports_tools: bool = True
    models: tuple[str, ...] = ()
    default: ScriptStep | None = None

    def __post_init__(self) -> None:
        self._left = list(self.steps)
        self.requests: list[CompletionRequest] = []
        self.closed = False
        self.warm = False

    @property
    def left(self) -> int:
        """How many steps have not been played."""
        return len(self._left)

    def add(self, *steps: ScriptStep) -> None:
        """Append steps to the script."""
        self._left.extend(steps)

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Play the next step."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        completion = await self._answer(self._next(), request)
        if on_text is not None:
            for start in range(0, len(completion.text), _PIECE):
                on_text(completion.text[start : start + _PIECE])
        return completion if completion.model else replace(completion, model=request.model or self.model)

    async def warm_up(self) -> None:
        """A script is always ready; remembers that it was asked."""
        self.warm = True

    async def list_models(self) -> tuple[str, ...]:
        return self.models or (self.model,)

    async def close(self) -> None:
        self.closed = True

    def _next(self) -> ScriptStep:
        if self._left:
            return self._left.pop(0)
        if self.default is None:
            raise ScriptExhausted(f"model call {len(self.requests)} was not expected")
        return self.default

    @staticmethod
    async def _answer(step: ScriptStep, request: CompletionRequest) -> Completion:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, Held):
            step.reached.set()
            await step.release.wait()
            return step.completion
        return step if isinstance(step, Completion) else step(request)
