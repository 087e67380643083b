from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import Completion, CompletionRequest, FinishReason, ToolDefinition, Usage
from agent.llm.errors import TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.response_cache import KEEP_FOR, MAX_ENTRIES, ResponseCacheProvider, key_of
from agent.model.tool_call import ToolCall
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

ASK = CompletionRequest("Be brief.", (UserText("hi"),))
TOOL = ToolDefinition("get_time", "Tells the time.", {"type": "object"})


def build(*steps: ScriptStep) -> tuple[ResponseCacheProvider, ScriptedLLM, FakeClock]:
    inner, clock = ScriptedLLM(steps), FakeClock()
    return ResponseCacheProvider(inner, clock), inner, clock


async def test_the_same_question_is_answered_again_without_a_call_and_without_cost() -> None:
    provider, inner, _ = build(say("Hello"))
    first = await provider.complete(ASK)

    second = await provider.complete(replace(ASK, messages=(UserText("hi"),)))

    assert second == replace(first, usage=Usage())
    assert len(inner.requests) == 1


async def test_a_kept_answer_is_streamed_in_one_piece() -> None:
    provider, _, _ = build(say("Hello there"))
    await provider.complete(ASK)
    heard: list[str] = []

    await provider.complete(ASK, heard.append)

    assert heard == ["Hello there"]


async def test_an_answer_is_kept_for_an_hour() -> None:
    provider, _, clock = build(say("old"), say("new"))
    await provider.complete(ASK)

    clock.advance(KEEP_FOR - timedelta(seconds=1))
    within = await provider.complete(ASK)
    clock.advance(timedelta(seconds=1))
    after = await provider.complete(ASK)

    assert (within.text, after.text) == ("old", "new")


async def test_requests_with_tools_are_always_asked() -> None:
    provider, _, _ = build(say("one"), say("two"))
    request = replace(ASK, tools=(TOOL,))

    assert [(await provider.complete(request)).text for _ in range(2)] == ["one", "two"]


async def test_faults_are_not_kept() -> None:
    provider, _, _ = build(TransientError("down"), say("Hello"))
    with pytest.raises(TransientError):
        await provider.complete(ASK)

    assert (await provider.complete(ASK)).text == "Hello"


@pytest.mark.parametrize(
    "unfinished", [Completion("And", FinishReason.LENGTH), Completion("", FinishReason.CONTENT_FILTER), say("  ")]
)
async def test_answers_that_are_no_whole_answers_are_not_kept(unfinished: Completion) -> None:
    provider, _, _ = build(unfinished, say("Hello"))
    await provider.complete(ASK)

    assert (await provider.complete(ASK)).text == "Hello"


async def test_of_too_many_answers_the_one_used_longest_ago_goes() -> None:
    provider, inner, _ = build(*[say(str(n)) for n in range(MAX_ENTRIES + 2)])
    questions = [replace(ASK, messages=(UserText(str(n)),)) for n in range(MAX_ENTRIES + 1)]
    for question in questions[:-1]:
        await provider.complete(question)
    await provider.complete(questions[0])  # used again: the next one is now the oldest

    await provider.complete(questions[-1])
    await provider.complete(questions[0])
    assert len(inner.requests) == MAX_ENTRIES + 1
    await provider.complete(questions[1])

    assert len(inner.requests) == MAX_ENTRIES + 2


async def test_forwards_what_the_inner_provider_is() -> None:
    provider, inner, _ = build()

    await provider.warm_up()
    await provider.close()

    assert (provider.name, provider.model, provider.context_limit, provider.supports_tools) == (
        inner.name,
        inner.model,
        inner.context_limit,
        inner.supports_tools,
    )
    assert await provider.list_models() == await inner.list_models()
    assert inner.warm
    assert inner.closed


@pytest.mark.parametrize(
    "other",
    [
        replace(ASK, system="Be long."),
        replace(ASK, messages=(UserText("ho"),)),
        replace(ASK, messages=(AssistantTurn("hi"),)),
        replace(ASK, messages=(UserText("hi"), UserText(""))),
        replace(ASK, max_tokens=1),
        replace(ASK, temperature=0.1),
        replace(ASK, model="model-2"),
    ],
)
def test_requests_that_differ_in_anything_do_not_share_an_answer(other: CompletionRequest) -> None:
    assert key_of(other, "openai", "model-1") != key_of(ASK, "openai", "model-1")


def test_another_model_or_provider_has_answers_of_its_own_but_naming_the_usual_model_changes_nothing() -> None:
    usual = key_of(ASK, "openai", "model-1")

    assert key_of(ASK, "openai", "model-2") != usual
    assert key_of(ASK, "anthropic", "model-1") != usual
    assert key_of(replace(ASK, model="model-1"), "openai", "model-1") == usual


CALLS = st.builds(
    ToolCall, st.text(max_size=2), st.text(max_size=2), st.dictionaries(st.text(max_size=2), st.booleans())
)
MESSAGES: st.SearchStrategy[ChatMessage] = st.one_of(
    st.builds(UserText, st.text(max_size=3)),
    st.builds(AssistantTurn, st.text(max_size=3), st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(ToolResult, st.text(max_size=2), st.text(max_size=2), st.text(max_size=2), st.booleans()),
)
HISTORIES = st.lists(MESSAGES, max_size=3)


@given(HISTORIES, HISTORIES)
def test_keys_are_equal_exactly_where_the_histories_are(one: list[ChatMessage], other: list[ChatMessage]) -> None:
    keys = [key_of(replace(ASK, messages=tuple(messages)), "p", "m") for messages in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)
