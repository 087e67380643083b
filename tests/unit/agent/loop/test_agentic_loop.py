"""The engine that chats and jobs share, driven by a small scripted delegate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent.llm.base import Completion, FinishReason, ToolDefinition
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.loop import guards
from agent.loop.agentic_loop import (
    Continue,
    Exhausted,
    Finish,
    Inject,
    LoopSignal,
    NeedApproval,
    Proceed,
    Responded,
    Step,
    Stop,
    Stopped,
    run_agentic_loop,
)
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall
from tests.support.scripted_llm import call, calls, say

TOOLS = (ToolDefinition("echo", "Say it again.", {"type": "object"}),)
ASKED = UserText("please")
CALL = ToolCall("call_1", "echo", {})


def start(*added: ChatMessage) -> ReasoningContext:
    return ReasoningContext("system", TOOLS, (), (ASKED, *added))


@dataclass
class Scripted:
    """Plays answers in order. `fails` are the calls whose results are errors; `asks` is a call that needs consent."""

    answers: Sequence[Completion]
    signals: list[LoopSignal] = field(default_factory=list)
    fails: bool = False
    asks: str | None = None
    seen: list[ReasoningContext] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.answers)

    async def check_signals(self) -> LoopSignal:
        return self.signals.pop(0) if self.signals else Proceed()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        self.iterations.append(iteration)
        return Continue(context)

    async def call_llm(self, context: ReasoningContext) -> Completion:
        self.seen.append(context)
        return self._left.pop(0)

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step:
        return Finish(Responded(completion.text), context)

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        for one in context.open_calls:
            if one.id == self.asks:
                return Finish(NeedApproval(one, "Say it again.", one.arguments, may_be_always=True), context)
            self.ran.append(one.id)
            context = context.with_messages(ToolResult(one.id, one.name, "done", self.fails))
        return Continue(context)

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None: ...


def cut(text: str = "", *ids: str) -> Completion:
    return Completion(text, FinishReason.LENGTH, tuple(replace(CALL, id=id) for id in ids or ("cut",)))


async def run(delegate: Scripted, context: ReasoningContext | None = None, limit: int = 50) -> Finish:
    return await run_agentic_loop(delegate, context or start(), max_iterations=limit)


async def test_answer_ends_the_loop_with_what_was_done() -> None:
    delegate = Scripted([call("echo"), say("all done")])

    finish = await run(delegate)

    assert finish.outcome == Responded("all done")
    assert [type(message) for message in finish.context.added] == [UserText, AssistantTurn, ToolResult]


async def test_promise_without_a_call_is_nudged_twice_and_no_more() -> None:
    delegate = Scripted([say("I'll check the weather.")] * 3)

    finish = await run(delegate)

    assert finish.outcome == Responded("I'll check the weather.")
    nudges = [m for m in finish.context.added if isinstance(m, UserText) and m.text == guards.NUDGE]
    assert len(nudges) == 2


async def test_tool_call_allows_two_more_nudges() -> None:
    promise = say("I'll check the weather.")
    delegate = Scripted([promise, promise, call("echo"), promise, promise, promise])

    await run(delegate)

    assert len(delegate.seen) == 6


@pytest.mark.parametrize("context", [replace(start(), tools=()), start().without_tools()])
async def test_promise_is_an_answer_where_no_tool_can_be_called(context: ReasoningContext) -> None:
    finish = await run(Scripted([say("I'll check the weather.")]), context)

    assert finish.outcome == Responded("I'll check the weather.")


async def test_thinking_aloud_is_no_promise() -> None:
    thought = "<think>I'll search the web. No, I know it.</think>It is Paris."

    finish = await run(Scripted([say(thought)]))

    assert isinstance(finish.outcome, Responded)


async def test_calls_cut_off_by_the_length_limit_never_run() -> None:
    delegate = Scripted([cut("I begin", "a", "b"), say("smaller")])

    finish = await run(delegate)

    assert delegate.ran == []
    assert finish.context.added == (ASKED, AssistantTurn("I begin"), UserText(guards.CUT_OFF))


async def test_third_cut_off_answer_in_a_row_takes_the_tools_away() -> None:
    delegate = Scripted([cut(), cut(), cut(), say("in words")])

    await run(delegate)

    assert [context.force_text for context in delegate.seen] == [False, False, False, True]


async def test_good_batch_forgives_cut_off_answers() -> None:
    delegate = Scripted([cut(), cut(), call("echo"), cut(), cut(), say("in words")])

    await run(delegate)

    assert not any(context.force_text for context in delegate.seen)


async def test_same_failure_warns_at_three_and_takes_the_tools_away_at_five() -> None:
    delegate = Scripted([call("echo", id=f"c{n}") for n in range(5)] + [say("I give up")], fails=True)

    finish = await run(delegate)

    warnings = [
        index
        for index, message in enumerate(m for m in finish.context.added if not isinstance(m, AssistantTurn))
        if isinstance(message, UserText) and "failed" in message.text
    ]
    assert warnings == [4, 7]  # after the third and the fifth result
    assert [context.force_text for context in delegate.seen] == [False] * 5 + [True]


async def test_limit_without_an_answer_is_told_apart() -> None:
    delegate = Scripted([call("echo", id=f"c{n}") for n in range(3)])

    finish = await run(delegate, limit=3)

    assert finish.outcome == Exhausted(3)
    assert not finish.context.open_calls


async def test_resumed_turn_goes_on_with_its_open_calls_and_asks_no_model_before() -> None:
    both = AssistantTurn("", (replace(CALL, id="a"), replace(CALL, id="b")))
    delegate = Scripted([say("done")])

    await run(delegate, start(both, ToolResult("a", "echo", "done before")))

    assert delegate.ran == ["b"]
    assert len(delegate.seen) == 1
    assert not delegate.seen[0].open_calls


async def test_rounds_of_an_earlier_run_count_towards_the_limit() -> None:
    earlier = (AssistantTurn("", (CALL,)), ToolResult("call_1", "echo", "done"))
    delegate = Scripted([call("echo", id="c2")])

    finish = await run(delegate, start(*earlier), limit=2)

    assert delegate.iterations == [2]
    assert finish.outcome == Exhausted(2)


async def test_call_that_needs_consent_ends_the_loop_with_the_call_open() -> None:
    wanted = calls(replace(CALL, id="a"), replace(CALL, id="b"), replace(CALL, id="c"))
    delegate = Scripted([wanted], asks="b")

    finish = await run(delegate)

    assert isinstance(finish.outcome, NeedApproval)
    assert finish.outcome.call.id == "b"


async def test_stop_ends_the_loop_before_the_next_call() -> None:
    delegate = Scripted([call("echo"), say("never")], signals=[Proceed(), Stop()])

    finish = await run(delegate)

    assert finish.outcome == Stopped()
    assert len(delegate.seen) == 1


async def test_message_from_outside_is_seen_by_the_next_call() -> None:
    delegate = Scripted([say("hello you")], signals=[Inject("by the way")])

    await run(delegate)

    assert delegate.seen[0].added == (ASKED, UserText("by the way"))


async def test_message_from_outside_waits_for_the_results_of_open_calls() -> None:
    """Between a call and its result nothing may stand: providers refuse such a history for good."""
    delegate = Scripted([say("done")], signals=[Inject("by the way")])

    await run(delegate, start(AssistantTurn("", (CALL,))))

    assert delegate.ran == ["call_1"]
    assert [type(m) for m in delegate.seen[0].added] == [UserText, AssistantTurn, ToolResult, UserText]
