"""The engine that chat, jobs, containers and subagents share: ask the model, run its calls, ask again.

It holds no state between turns and knows no delegate; delegates differ in what a call, an answer and a signal mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, assert_never

from agent.llm.base import Completion, FinishReason
from agent.llm.clean import clean
from agent.llm.messages import AssistantTurn, UserText
from agent.loop import guards as rules
from agent.loop.context import ReasoningContext
from agent.loop.guards import Guards
from agent.model.tool_call import JsonValue, ToolCall


@dataclass(frozen=True, slots=True)
class Proceed:
    """Nothing happened from outside."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop now."""


@dataclass(frozen=True, slots=True)
class Inject:
    """A user message mid-flight."""

    text: str


LoopSignal = Proceed | Stop | Inject


@dataclass(frozen=True, slots=True)
class Responded:
    """The model answered in words."""

    text: str


@dataclass(frozen=True, slots=True)
class NeedApproval:
    """A call waits for a person's consent. `description` and `display` say what will run, secrets redacted."""

    call: ToolCall
    description: str
    display: Mapping[str, JsonValue]
    may_be_always: bool


@dataclass(frozen=True, slots=True)
class AwaitsSecret:
    """The person's next message is to be the credential `name`; `instructions` tell them."""

    name: str
    instructions: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A signal ended the loop."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The iteration limit is used up without an answer."""

    iterations: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The loop cannot go on; `text` says why, to a user."""

    text: str


LoopOutcome = Responded | NeedApproval | AwaitsSecret | Stopped | Exhausted | Failed


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with this context."""

    context: ReasoningContext


@dataclass(frozen=True, slots=True)
class Finish:
    """End with this outcome; `context` is what the turn holds by then."""

    outcome: LoopOutcome
    context: ReasoningContext


Step = Continue | Finish


class LoopDelegate(Protocol):
    """What differs between a chat, a job, a container and a subagent."""

    async def check_signals(self) -> LoopSignal: ...

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step: ...

    async def call_llm(self, context: ReasoningContext) -> Completion: ...

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step: ...

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        """Run the open calls of the context's last assistant message and add their results."""
        ...

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None: ...


async def run_agentic_loop(delegate: LoopDelegate, context: ReasoningContext, *, max_iterations: int) -> Finish:
    """Iterate until the model answers, a call needs consent, or the limit is reached.

    A context with open calls, as a resumed turn has, goes on with those calls; the rounds it already holds count.
    """
    guards = Guards()
    injected: tuple[UserText, ...] = ()
    for iteration in range(context.rounds + (0 if context.open_calls else 1), max_iterations + 1):
        match await delegate.check_signals():
            case Stop():
                return Finish(Stopped(), context)
            case Inject(text=text):
                injected = (*injected, UserText(text))
            case Proceed():
                pass
            case unreachable:
                assert_never(unreachable)
        if not context.open_calls:  # nothing may stand between a call and its result
            context, injected = context.with_messages(*injected), ()
        step, guards = await _iterate(delegate, context, iteration, guards)
        match step:
            case Finish():
                return step
            case Continue(context=context):
                await delegate.after_iteration(context, iteration)
            case unreachable_step:
                assert_never(unreachable_step)
    return Finish(Exhausted(max_iterations), context)


async def _iterate(
    delegate: LoopDelegate, context: ReasoningContext, iteration: int, guards: Guards
) -> tuple[Step, Guards]:
    if context.open_calls:
        return await _run_calls(delegate, context, guards)
    match await delegate.before_llm_call(context, iteration):
        case Finish() as finish:
            return finish, guards
        case Continue(context=context):
            pass
    completion = await delegate.call_llm(context)
    if context.force_text or not completion.calls:  # calls of a model that was offered no tools count for nothing
        return await _read_text(delegate, completion, context, guards)
    if completion.finish is FinishReason.LENGTH:
        return Continue(_cut_off(completion, context, guards)), guards.cut_off()
    return await _run_calls(delegate, context.with_messages(AssistantTurn(completion.text, completion.calls)), guards)


async def _read_text(
    delegate: LoopDelegate, completion: Completion, context: ReasoningContext, guards: Guards
) -> tuple[Step, Guards]:
    may_nudge = context.tools and not context.force_text and guards.nudges < rules.MAX_NUDGES
    if may_nudge and rules.announces_action(clean(completion.text)):  # a thought is no promise
        nudge = (AssistantTurn(completion.text), UserText(rules.NUDGE))
        return Continue(context.with_messages(*nudge)), guards.nudged()
    return await delegate.handle_text_response(completion, context), guards


async def _run_calls(delegate: LoopDelegate, context: ReasoningContext, guards: Guards) -> tuple[Step, Guards]:
    calls = context.open_calls
    step = await delegate.execute_tool_calls(context)
    if isinstance(step, Finish):
        return step, guards
    guards = guards.after_batch(calls, step.context.last_results)
    if guards.failures >= rules.STOP_AFTER_FAILURES:
        warned = step.context.with_messages(UserText(rules.REPEATED.format(count=guards.failures)))
        return Continue(warned.without_tools()), guards
    if guards.failures == rules.WARN_AFTER_FAILURES:
        warning = UserText(rules.REPEATED.format(count=guards.failures))
        return Continue(step.context.with_messages(warning)), guards
    return step, guards


def _cut_off(completion: Completion, context: ReasoningContext, guards: Guards) -> ReasoningContext:
    """Calls cut off by the length limit have incomplete arguments: they are dropped, the text is kept."""
    kept = (AssistantTurn(completion.text),) if completion.text.strip() else ()
    context = context.with_messages(*kept, UserText(rules.CUT_OFF))
    return context.without_tools() if guards.truncations + 1 >= rules.MAX_TRUNCATIONS else context
