from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from agent.llm.base import Completion, CompletionRequest
from agent.llm.errors import AuthenticationFailed, RateLimitedError, TransientError
from agent.llm.messages import UserText
from agent.llm.retry import RetryingProvider
from tests.support.builders import NOON
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

ASK = CompletionRequest("", (UserText("hi"),))


class InstantClock:
    """Notes how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOON

    async def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration.total_seconds())


class Middle:
    """Always the mean."""

    def uniform(self, a: float, b: float, /) -> float:
        return (a + b) / 2


def build(*steps: ScriptStep, retries: int = 3) -> tuple[RetryingProvider, ScriptedLLM, InstantClock]:
    inner, clock = ScriptedLLM(steps), InstantClock()
    return RetryingProvider(inner, clock, Middle(), retries), inner, clock


async def test_trouble_that_passes_is_not_seen() -> None:
    provider, _, clock = build(TransientError("x"), TransientError("x"), say("Hello"))

    completion = await provider.complete(ASK)

    assert completion.text == "Hello"
    assert clock.slept == [1, 2]


async def test_gives_up_after_the_last_retry_with_the_fault_itself() -> None:
    provider, inner, clock = build(*[TransientError(str(n)) for n in range(4)])

    with pytest.raises(TransientError, match="3"):
        await provider.complete(ASK)

    assert inner.left == 0
    assert clock.slept == [1, 2, 4]


async def test_waits_as_long_as_the_provider_asks() -> None:
    provider, _, clock = build(RateLimitedError("x", timedelta(seconds=17)), say("Hello"))

    await provider.complete(ASK)

    assert clock.slept == [17]


async def test_a_wait_of_an_hour_is_not_sat_out() -> None:
    provider, _, clock = build(RateLimitedError("x", timedelta(hours=1)), say("Hello"))

    with pytest.raises(RateLimitedError):
        await provider.complete(ASK)

    assert clock.slept == []


async def test_other_faults_are_not_repeated() -> None:
    provider, inner, _ = build(AuthenticationFailed("x"), say("Hello"))

    with pytest.raises(AuthenticationFailed):
        await provider.complete(ASK)

    assert inner.left == 1


async def test_no_retries_means_one_call() -> None:
    provider, inner, _ = build(TransientError("x"), say("Hello"), retries=0)

    with pytest.raises(TransientError):
        await provider.complete(ASK)

    assert inner.left == 1


async def test_repetition_starts_the_streamed_text_over() -> None:
    heard: list[str] = []

    def half(request: CompletionRequest) -> Completion:
        heard.append("Hel")
        raise TransientError("broke off")

    provider, _, _ = build(half, say("Hello"))

    await provider.complete(ASK, heard.append)

    assert heard == ["Hel", "", "Hello"]


def waits(asked: Sequence[float | None], factor: float) -> list[float]:
    class Fixed:
        def uniform(self, a: float, b: float, /) -> float:
            assert (a, b) == (0.75, 1.25)
            return factor

    provider = RetryingProvider(ScriptedLLM(), InstantClock(), Fixed(), 3)
    return [
        provider.wait_before(n, None if seconds is None else timedelta(seconds=seconds)).total_seconds()
        for n, seconds in enumerate(asked)
    ]


def test_backoff_doubles_give_or_take_a_quarter_and_never_hurries() -> None:
    assert waits([None, None, None], 0.75) == [0.75, 1.5, 3.0]
    assert waits([None, None, None], 1.25) == [1.25, 2.5, 5.0]
    assert waits([0.0], 1.0) == [0.1]


async def test_cancelling_ends_the_wait() -> None:
    class Forever(InstantClock):
        def __init__(self) -> None:
            super().__init__()
            self.asleep = asyncio.Event()

        async def sleep(self, duration: timedelta) -> None:
            self.asleep.set()
            await asyncio.Event().wait()

    clock = Forever()
    provider = RetryingProvider(ScriptedLLM([TransientError("x")]), clock, Middle(), 3)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(provider.complete(ASK))
        await clock.asleep.wait()
        task.cancel()

    assert task.cancelled()


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
