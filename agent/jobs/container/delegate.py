"""The loop of a job inside its container: tools one after the other, the model and everybody else behind one door."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Protocol

from agent.jobs.completion import says_done
from agent.jobs.container.limits import PREVIEW, STATUS_EVERY
from agent.jobs.container.protocol import Event, Prompts, Status
from agent.llm.base import Completion, CompletionRequest
from agent.llm.clean import clean
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.loop.agentic_loop import (
    Continue,
    Failed,
    Finish,
    Inject,
    LoopSignal,
    Proceed,
    Responded,
    Step,
    Stop,
)
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall
from agent.tools.base import ToolContext
from agent.tools.execute import Prepared, Refusal, ToolExecutor

_CONTINUE = (
    "[system note] Go on with the job. Use your tools; when all of it is done, say that the job is complete and give "
    "its result."
)
_MOST_SILENCES = 3
NO_WORDS = "The language model gave no answer for it. What it did is kept."


class Orchestrator(Protocol):
    """The program outside, as the container sees it. Raises `DoorClosed` where it does not answer any more."""

    async def prompts(self) -> Prompts: ...

    async def ask_model(self, request: CompletionRequest) -> Completion: ...

    async def tell(self, event: Event) -> None: ...

    async def report(self, status: Status) -> None: ...


class DoorClosed(Exception):
    """The program outside is gone, or does not want this job any more: there is nothing left to work for."""


@dataclass(slots=True)
class ContainerDelegate:
    """What a call, an answer and a signal mean inside a container.

    No memory, no credentials, and nobody to ask: the container is the sandbox, so its tools need no consent.
    """

    outside: Orchestrator
    executor: ToolExecutor
    context: ToolContext
    silences: int = 0
    said: str = ""
    iteration: int = 0

    async def check_signals(self) -> LoopSignal:
        prompts = await self.outside.prompts()
        if prompts.stop:
            return Stop()
        texts = [text for text in prompts.texts if text.strip()]
        return Inject("\n\n".join(texts)) if texts else Proceed()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        self.iteration = iteration
        if iteration % STATUS_EVERY == 1:
            await self.outside.report(Status(iteration=iteration, message=self.said[:PREVIEW]))
        last = context.added[-1] if context.added else None
        if isinstance(last, AssistantTurn):  # some providers refuse a conversation that ends with the model's words
            context = context.with_messages(UserText(_CONTINUE))
        return Continue(context)

    async def call_llm(self, context: ReasoningContext) -> Completion:
        return await self.outside.ask_model(context.request())

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step:
        text = clean(completion.text).strip()
        if not text:
            return self._handle_silence(context)
        self.said, self.silences = text, 0
        if says_done(text):
            return Finish(Responded(text), context)
        await self.outside.tell(Event(kind="message", text=text))
        return Continue(context.with_messages(AssistantTurn(text)))

    def _handle_silence(self, context: ReasoningContext) -> Step:
        if self.said:
            return Finish(Responded(self.said), context)
        self.silences += 1
        if self.silences >= _MOST_SILENCES:
            return Finish(Failed(NO_WORDS), context)
        nudged = context.with_messages(UserText(_CONTINUE))
        return Continue(nudged if self.silences == 1 else nudged.without_tools())

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        last = context.added[-1]
        if isinstance(last, AssistantTurn) and (said := clean(last.text).strip()):
            self.said = said
            await self.outside.tell(Event(kind="message", text=said))
        for call in context.open_calls:
            context = context.with_messages(await self._run(call))
        return Continue(context)

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        return None

    async def _run(self, call: ToolCall) -> ToolResult:
        prepared = await self.executor.prepare(call, self.context)
        shown = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
        await self.outside.tell(Event(kind="tool_use", tool=call.name[:200], text=shown[:PREVIEW]))
        match prepared:
            case Refusal(output=output):
                pass
            case Prepared():
                output = await self.executor.run(prepared, replace(self.context, call_id=call.id))
        result = self.executor.present(call, output)
        event = Event(kind="tool_result", tool=call.name[:200], text=output.text[:PREVIEW], is_error=output.is_error)
        await self.outside.tell(event)
        return result
