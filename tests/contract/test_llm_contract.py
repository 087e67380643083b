"""What every model provider promises, tried on each: the real SDKs against a fake server, and the scripted double."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from pydantic import SecretStr

from agent.llm.anthropic import AnthropicProvider
from agent.llm.base import Completion, CompletionRequest, FinishReason, LLMProvider, ToolDefinition, Usage
from agent.llm.errors import AuthenticationFailed, LLMError, TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.openai import OpenAIProvider
from agent.llm.settings import AnthropicSettings, OpenAISettings
from agent.model.tool_call import ToolCall
from tests.support.fake_llm_api import Call, Fail, Reply, Say, fake_llm_api
from tests.support.scripted_llm import Held, ScriptedLLM

TIMEOUT = timedelta(seconds=20)
TOOL = ToolDefinition("get_time", "Tells the time.", {"type": "object", "properties": {"zone": {"type": "string"}}})
CALL = Call("get_time", '{"zone":"UTC"}', "call_1")


@dataclass
class Subject:
    """A provider and the way to tell it what to answer next."""

    provider: LLMProvider
    expect: Callable[[Reply], None]


@asynccontextmanager
async def openai_subject() -> AsyncIterator[Subject]:
    async with fake_llm_api() as api:
        settings = OpenAISettings(api_key=SecretStr("sk-test"), base_url=f"{api.url}/v1")
        provider = OpenAIProvider(settings, model="fake-model-1", timeout=TIMEOUT)
        yield Subject(provider, api.play)
        await provider.close()


@asynccontextmanager
async def anthropic_subject() -> AsyncIterator[Subject]:
    async with fake_llm_api() as api:
        settings = AnthropicSettings(api_key=SecretStr("sk-ant-test"), base_url=api.url)
        provider = AnthropicProvider(settings, model="fake-model-1", timeout=TIMEOUT)
        yield Subject(provider, api.play)
        await provider.close()


@asynccontextmanager
async def scripted_subject() -> AsyncIterator[Subject]:
    provider = ScriptedLLM(model="fake-model-1")

    def expect(reply: Reply) -> None:
        match reply:
            case Say():
                provider.add(_completion(reply))
            case Fail(status=401):
                provider.add(AuthenticationFailed("401"))
            case _:
                provider.add(TransientError("broken"))

    yield Subject(provider, expect)


SUBJECTS = {"openai": openai_subject, "anthropic": anthropic_subject, "scripted": scripted_subject}


@pytest.fixture(params=list(SUBJECTS))
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with SUBJECTS[request.param]() as made:
        yield made


def ask(*messages: ChatMessage, tools: tuple[ToolDefinition, ...] = ()) -> CompletionRequest:
    return CompletionRequest(system="Be brief.", messages=messages or (UserText("hi"),), tools=tools)


async def test_text_answer_has_text_reason_usage_and_model(subject: Subject) -> None:
    subject.expect(Say("Good morning.", usage={"input": 20, "output": 4, "cached": 8, "written": 0}))

    completion = await subject.provider.complete(ask())

    assert completion.text == "Good morning."
    assert completion.finish is FinishReason.STOP
    assert completion.usage == Usage(input_tokens=20, output_tokens=4, cache_read_tokens=8)
    assert completion.model == "fake-model-1"
    assert completion.calls == ()


async def test_streamed_pieces_join_to_the_returned_text(subject: Subject) -> None:
    subject.expect(Say(pieces=("Good ", "mörn", "ing 🌞.")))
    pieces: list[str] = []

    completion = await subject.provider.complete(ask(), pieces.append)

    assert completion.text == "Good mörning 🌞."
    assert "".join(pieces) == completion.text
    assert len(pieces) > 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_parallel_calls_come_parsed_and_in_order(subject: Subject, streamed: bool) -> None:
    second = Call("get_time", '{"zone":"CET","deep":{"list":[1,2]}}', "call_2")
    subject.expect(Say("Looking.", calls=(CALL, second)))

    completion = await subject.provider.complete(ask(tools=(TOOL,)), (lambda _: None) if streamed else None)

    assert completion.finish is FinishReason.TOOL_CALLS
    assert completion.text == "Looking."
    assert completion.calls == (
        ToolCall("call_1", "get_time", {"zone": "UTC"}),
        ToolCall("call_2", "get_time", {"zone": "CET", "deep": {"list": [1, 2]}}),
    )


async def test_answer_cut_at_the_limit_is_handed_on_as_length(subject: Subject) -> None:
    subject.expect(Say("And then", finish="length"))

    completion = await subject.provider.complete(ask())

    assert completion.finish is FinishReason.LENGTH


async def test_empty_answer_is_an_empty_completion(subject: Subject) -> None:
    subject.expect(Say(""))
    seen: list[str] = []

    completion = await subject.provider.complete(ask(), seen.append)

    assert (completion.text, completion.calls, completion.finish) == ("", (), FinishReason.STOP)
    assert seen == []


async def test_refused_key_is_told_apart_from_trouble(subject: Subject) -> None:
    subject.expect(Fail(401, {"error": {"type": "authentication_error", "message": "bad key sk-test"}}))

    with pytest.raises(AuthenticationFailed) as caught:
        await subject.provider.complete(ask())

    assert "sk-test" not in caught.value.detail


async def test_server_error_is_transient(subject: Subject) -> None:
    subject.expect(Fail(503, {"error": {"message": "down"}}))

    with pytest.raises(TransientError):
        await subject.provider.complete(ask())


async def test_provider_works_after_a_fault(subject: Subject) -> None:
    subject.expect(Fail(500, {"error": {"message": "down"}}))
    subject.expect(Say("Back."))
    with pytest.raises(LLMError):
        await subject.provider.complete(ask())

    completion = await subject.provider.complete(ask())

    assert completion.text == "Back."


async def test_a_whole_tool_conversation_is_taken(subject: Subject) -> None:
    subject.expect(Say("It is noon."))
    history = (
        UserText("time?"),
        AssistantTurn("", (ToolCall("call_1", "get_time", {"zone": "UTC"}), ToolCall("call_2", "get_time"))),
        ToolResult("call_1", "get_time", "12:00"),
        ToolResult("call_2", "get_time", "", is_error=True),
        UserText("well?"),
    )

    completion = await subject.provider.complete(ask(*history, tools=(TOOL,)))

    assert completion.text == "It is noon."


async def test_calls_side_by_side_keep_their_answers_apart(subject: Subject) -> None:
    for _ in range(5):
        subject.expect(Say("same"))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(subject.provider.complete(ask(UserText(str(n))))) for n in range(5)]

    assert [task.result().text for task in tasks] == ["same"] * 5


async def test_models_can_be_listed(subject: Subject) -> None:
    assert await subject.provider.list_models()


async def test_provider_says_what_it_is(subject: Subject) -> None:
    assert subject.provider.name
    assert subject.provider.model == "fake-model-1"
    assert subject.provider.supports_tools


async def test_cancelling_a_call_of_a_held_model_ends_it() -> None:
    held = Held(Completion("late", FinishReason.STOP))
    provider = ScriptedLLM([held])

    async with asyncio.TaskGroup() as group:
        task = group.create_task(provider.complete(ask()))
        await held.reached.wait()
        task.cancel()

    assert task.cancelled()


def _completion(say: Say) -> Completion:
    calls = tuple(ToolCall(call.id, call.name, json.loads(call.arguments)) for call in say.calls)
    finish = FinishReason.LENGTH if say.finish == "length" else FinishReason.STOP
    usage = Usage(say.usage["input"], say.usage["output"], say.usage["cached"], say.usage["written"])
    return Completion(say.whole, FinishReason.TOOL_CALLS if calls else finish, calls, usage)
