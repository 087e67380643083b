from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import Completion, CompletionRequest, FinishReason, OnText, Usage
from agent.llm.errors import BudgetExceeded, TransientError
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.llm.metered import MeteredProvider
from agent.llm.pricing import FREE, UNKNOWN, cost_of, price_of
from agent.llm.tokens import MESSAGE_OVERHEAD, TokenEstimator, estimate_message, estimate_tokens
from agent.model.tool_call import ToolCall
from tests.support.scripted_llm import Held, ScriptedLLM, say

ASK = CompletionRequest("", (UserText("hi"),))


class Book:
    """A guard that notes what it is told, and may refuse."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.events: list[str] = []
        self.entries: list[tuple[str, str, Usage, Decimal]] = []

    async def check(self, *, unattended: bool) -> None:
        self.events.append("check")
        if self.refuses:
            raise BudgetExceeded("used up")

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str) -> None:
        self.events.append("record")
        self.entries.append((provider, model, usage, cost))


async def test_call_is_checked_before_and_recorded_after_with_its_cost() -> None:
    """Invariant 6."""
    book = Book()
    usage = Usage(1_000_000, 100_000)
    inner = ScriptedLLM([Completion("Hi", FinishReason.STOP, usage=usage, model="claude-haiku-4-5")])

    await MeteredProvider(inner, book).complete(ASK)

    assert book.events == ["check", "record"]
    assert book.entries == [("scripted", "claude-haiku-4-5", usage, Decimal("1.5"))]


async def test_refused_call_is_not_made() -> None:
    """Invariant 6."""
    inner = ScriptedLLM([say("Hi")])

    with pytest.raises(BudgetExceeded):
        await MeteredProvider(inner, Book(refuses=True)).complete(ASK)

    assert inner.requests == []


async def test_failed_call_is_not_charged() -> None:
    book = Book()

    with pytest.raises(TransientError):
        await MeteredProvider(ScriptedLLM([TransientError("x")]), book).complete(ASK)

    assert book.entries == []


async def test_cancelled_call_is_charged_by_estimate() -> None:
    book = Book()
    held = Held(say("never"))
    provider = MeteredProvider(ScriptedLLM([held]), book)
    request = CompletionRequest("", (UserText("word " * 100),))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(provider.complete(request, lambda _: None))
        await held.reached.wait()
        task.cancel()

    assert task.cancelled()
    assert book.entries[0][2].input_tokens == 130 + MESSAGE_OVERHEAD


class BreaksOff(ScriptedLLM):
    """A model whose connection breaks after it has said some words."""

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        await super().complete(request, on_text)
        raise TransientError("the stream broke off")


async def test_call_that_broke_off_after_some_words_is_charged_by_estimate() -> None:
    book = Book()
    provider = MeteredProvider(BreaksOff([say("word " * 100)]), book)

    with pytest.raises(TransientError):
        await provider.complete(ASK, lambda _: None)

    assert [usage.output_tokens for _, _, usage, _ in book.entries] == [130]


async def test_pieces_pass_through() -> None:
    heard: list[str] = []

    await MeteredProvider(ScriptedLLM([say("Hello there")]), Book()).complete(ASK, heard.append)

    assert "".join(heard) == "Hello there"


@pytest.mark.parametrize(
    ("provider", "model", "dollars_in", "dollars_out"),
    [
        ("openai", "gpt-6.1-sol", "2", "10"),
        ("openai", "gpt-5-mini-2025-08-07", "0.25", "2"),
        ("openai", "openai/gpt-5.4", "2.50", "15"),
        ("anthropic", "claude-sonnet-5-5", "2", "10"),
        ("anthropic", "claude-haiku-4-5-20251001", "1", "5"),
        ("anthropic", "claude-opus-4-1", "15", "75"),
        ("anthropic", "claude-opus-4-6", "5", "25"),
        ("anthropic", "claude-sonnet-4-6", "3", "15"),
        ("anthropic", "claude-fable-5-2", "8", "40"),
    ],
)
def test_known_models_have_their_price(provider: str, model: str, dollars_in: str, dollars_out: str) -> None:
    price = price_of(provider, model)

    assert (price.input, price.output) == (Decimal(dollars_in), Decimal(dollars_out))


@pytest.mark.parametrize(
    "model", ["qwen3", "deepseek-chat", "mistral-large", "llama3:latest", "gpt-5.4-nova", "x:free"]
)
def test_hosted_models_without_a_known_price_are_not_free(model: str) -> None:
    assert price_of("openai", model) == UNKNOWN


def test_only_the_model_in_this_process_is_free() -> None:
    assert price_of("local", "anything") == FREE


def test_cached_tokens_cost_their_own_price() -> None:
    usage = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=600, cache_write_tokens=300)

    assert cost_of(usage, price_of("anthropic", "claude-haiku-4-5")) == Decimal("0.001035")


def test_more_cached_than_input_tokens_cost_nothing_below_zero() -> None:
    assert cost_of(Usage(input_tokens=1, cache_read_tokens=10), UNKNOWN) == Decimal("0.000025")


@given(st.text(max_size=400))
def test_estimate_is_the_larger_of_words_and_characters(text: str) -> None:
    assert estimate_tokens(text) == max(int(len(text.split()) * 1.3 + 1e-9), len(text) // 4)


def test_languages_without_spaces_are_not_underestimated() -> None:
    assert estimate_tokens("漢字" * 200) == 100


def test_tool_arguments_and_results_count() -> None:
    call = ToolCall("c", "write", {"text": "word " * 100})

    assert estimate_message(AssistantTurn("", (call,))) > 120
    assert estimate_message(ToolResult("c", "write", "word " * 100)) == 130 + MESSAGE_OVERHEAD


def test_estimator_adds_messages_and_system_text() -> None:
    messages = (UserText("one two"), UserText("one two"))

    assert TokenEstimator().estimate(messages, "one two") == 3 * (2 + MESSAGE_OVERHEAD)
