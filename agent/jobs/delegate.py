"""One run of a job, as the loop drives it: a chat's turn with an end, limits and signs of life of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent.jobs import planning, wording
from agent.jobs.completion import says_done
from agent.llm.base import Completion
from agent.llm.clean import clean
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.loop.agentic_loop import (
    Continue,
    Failed,
    Finish,
    Inject,
    LoopDelegate,
    LoopSignal,
    NeedApproval,
    Proceed,
    Responded,
    Step,
    Stop,
)
from agent.loop.context import ReasoningContext
from agent.model.job import Job, JobState

MOST_MESSAGES = 100
"""Messages of a run that a model call sees (the number is that of the behaviour we implement)."""
_DROPPED_AT_ONCE = 40
_CONTINUE = (
    "[system note] Go on with the job. Use your tools; when all of it is done, say that the job is complete and give "
    "its result."
)
_EMPTY = "[system note] Your answer was empty. Go on with the job, or say that it is complete and give its result."
_LEFT_OUT = "[system note] Earlier steps of this job were left out here, since they did not fit."
_MOST_EMPTY = 3


class Vitals(Protocol):
    """A job's row while it runs."""

    async def pulse(self, tools: Sequence[str] = ()) -> Job:
        """Give a sign of life that counts for as long as calls of these tools may take; the job as it stands."""
        ...

    async def halt(self, reason: str) -> None:
        """The job is stuck."""
        ...

    def is_over_time(self, job: Job) -> bool: ...


class Inner(LoopDelegate, Protocol):
    """What a job shares with a chat: the model call, the calls of tools with their questions, the journal."""

    latest: ReasoningContext | None


class Screen(Protocol):
    """Masks secrets in what a model wrote."""

    def hide_secrets(self, text: str) -> str: ...


@dataclass(slots=True)
class JobDelegate:
    """A job's run. `inner` does what is the same in a chat; `record` makes what the run has added durable."""

    inner: Inner
    job: Job
    vitals: Vitals
    screen: Screen
    record: Callable[[Sequence[ChatMessage]], Awaitable[None]]
    empty_answers: int = 0
    said: str = ""

    async def check_signals(self) -> LoopSignal:
        """Whether the job is still to run, and what its person says meanwhile: all of it joins."""
        self.job = await self.vitals.pulse()
        if self.job.state is not JobState.IN_PROGRESS:
            return Stop()
        if self.vitals.is_over_time(self.job):
            await self.vitals.halt(wording.OUT_OF_TIME)
            return Stop()
        return await self.inner.check_signals()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        if 0 < self.job.limits.max_tokens <= self.job.tokens:
            text = wording.OUT_OF_TOKENS.format(limit=self.job.limits.max_tokens, used=self.job.tokens)
            return Finish(Failed(text), context)
        return await self.inner.before_llm_call(context, iteration)

    async def call_llm(self, context: ReasoningContext) -> Completion:
        """Ask the model, which sees the newest part of a long run."""
        completion = await self.inner.call_llm(replace(context, added=recent(context.added)))
        self.inner.latest = context
        return completion

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step:
        text = self.screen.hide_secrets(clean(completion.text)).strip()
        if not text:
            return self._handle_silence(context)
        self.said, self.empty_answers = text, 0
        if says_done(text) or not context.tools:  # a model without tools can do no more than answer
            return Finish(Responded(text), context)
        return Continue(context.with_messages(AssistantTurn(text), UserText(_CONTINUE)))

    def _handle_silence(self, context: ReasoningContext) -> Step:
        """No words: what was said before them is the result; else a nudge, then words alone, then the end."""
        if self.said:
            return Finish(Responded(self.said), context)
        self.empty_answers += 1
        if self.empty_answers >= _MOST_EMPTY:
            return Finish(Failed(wording.NO_WORDS), context)
        nudged = context.with_messages(UserText(_EMPTY))
        return Continue(nudged if self.empty_answers == 1 else nudged.without_tools())

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        self.job = await self.vitals.pulse([call.name for call in context.open_calls])
        step = await self.inner.execute_tool_calls(context)
        if isinstance(step, Finish) and isinstance(step.outcome, NeedApproval):
            asked = wording.asks(self.job, step.outcome.description)
            return replace(step, outcome=replace(step.outcome, description=asked))
        return step

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        await self.inner.after_iteration(context, iteration)
        await self.record(context.added)


async def follow_plan(delegate: JobDelegate, context: ReasoningContext) -> Step:
    """Make the calls of the plan that the context holds, as far as they are not made; the context they leave.

    Faults of tools do not stop it; a word of the job's person, a question and the end of the job do.
    """
    while True:
        if context.open_calls:
            step = await delegate.execute_tool_calls(context)
            if isinstance(step, Finish):
                return step
            context = step.context
            await delegate.after_iteration(context, context.rounds)
        if (upcoming := planning.next_action(context.added)) is None:
            return Continue(context)
        match await delegate.check_signals():
            case Inject(text=text):
                return Continue(context.with_messages(UserText(text)))
            case Stop():
                return Continue(context)  # the loop finds the same sign and ends
            case Proceed():
                context = context.with_messages(upcoming)


def recent(added: tuple[ChatMessage, ...], most: int = MOST_MESSAGES) -> tuple[ChatMessage, ...]:
    """A run's messages without what is too long ago: the job itself and the newest, a call never without its results.

    They are left out some at a time, so that most requests are the one before plus an end.
    """
    excess = len(added) - most
    if excess <= 0:
        return added
    start = 1 + -(-excess // _DROPPED_AT_ONCE) * _DROPPED_AT_ONCE
    while start < len(added) and isinstance(added[start], ToolResult):
        start += 1
    return (added[0], UserText(_LEFT_OUT), *added[start:])
