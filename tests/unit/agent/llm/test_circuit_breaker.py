from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import CompletionRequest
from agent.llm.circuit_breaker import (
    FAILURES_TO_OPEN,
    OPEN_FOR,
    Circuit,
    CircuitBreakerProvider,
    Closed,
    HalfOpen,
    Open,
    after_failure,
    after_success,
    at,
)
from agent.llm.errors import AuthenticationFailed, BudgetExceeded, LLMError, TransientError
from agent.llm.messages import UserText
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

ASK = CompletionRequest("", (UserText("hi"),))
DOWN = TransientError("down")
FIVE_TIMES = (DOWN,) * FAILURES_TO_OPEN


def build(*steps: ScriptStep) -> tuple[CircuitBreakerProvider, ScriptedLLM, FakeClock]:
    inner, clock = ScriptedLLM(steps), FakeClock()
    return CircuitBreakerProvider(inner, clock), inner, clock


async def fail(provider: CircuitBreakerProvider, times: int) -> None:
    for _ in range(times):
        with pytest.raises(LLMError):
            await provider.complete(ASK)


async def test_after_the_fifth_failure_calls_are_refused_with_the_time_that_is_left() -> None:
    provider, inner, clock = build(*FIVE_TIMES, say("Hello"))
    await fail(provider, FAILURES_TO_OPEN)

    clock.advance(timedelta(seconds=12))
    with pytest.raises(TransientError) as caught:
        await provider.complete(ASK)

    assert caught.value.retry_after == timedelta(seconds=18)
    assert inner.left == 1


async def test_a_success_in_between_begins_the_count_anew() -> None:
    provider, _, _ = build(DOWN, DOWN, DOWN, DOWN, say("a"), DOWN, DOWN, DOWN, DOWN, say("b"))
    await fail(provider, 4)
    await provider.complete(ASK)
    await fail(provider, 4)

    assert (await provider.complete(ASK)).text == "b"


@pytest.mark.parametrize("fault", [AuthenticationFailed("no"), BudgetExceeded("used up")])
async def test_faults_that_are_not_transient_do_not_count(fault: LLMError) -> None:
    provider, _, _ = build(*[fault] * 10, say("Hello"))
    await fail(provider, 10)

    assert (await provider.complete(ASK)).text == "Hello"


async def test_two_answers_on_trial_close_it() -> None:
    provider, _, clock = build(*FIVE_TIMES, say("a"), say("b"), *[DOWN] * 4, say("c"))
    await fail(provider, FAILURES_TO_OPEN)
    clock.advance(OPEN_FOR)

    await provider.complete(ASK)
    await provider.complete(ASK)
    await fail(provider, 4)

    assert (await provider.complete(ASK)).text == "c"


async def test_one_failure_on_trial_opens_it_for_the_whole_time() -> None:
    provider, inner, clock = build(*FIVE_TIMES, say("a"), DOWN, say("b"))
    await fail(provider, FAILURES_TO_OPEN)
    clock.advance(OPEN_FOR)
    await provider.complete(ASK)
    await fail(provider, 1)

    clock.advance(OPEN_FOR - timedelta(seconds=1))
    await fail(provider, 1)
    assert inner.left == 1
    clock.advance(timedelta(seconds=1))

    assert (await provider.complete(ASK)).text == "b"


async def test_pieces_pass_through() -> None:
    provider, _, _ = build(say("Hello there"))
    heard: list[str] = []

    await provider.complete(ASK, heard.append)

    assert "".join(heard) == "Hello there"


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


def test_calls_made_before_it_opened_change_nothing_any_more() -> None:
    opened = Open(NOON)

    assert after_success(opened) == opened
    assert after_failure(opened, NOON + timedelta(seconds=5)) == opened


def test_a_clock_that_is_set_back_does_not_keep_it_open() -> None:
    assert at(Open(NOON), NOON - timedelta(hours=1)) == HalfOpen()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=60))
def test_whatever_happens_it_opens_after_five_failures_in_a_row_at_the_latest(events: list[tuple[bool, int]]) -> None:
    circuit: Circuit = Closed()
    now, in_a_row = NOON, 0
    for is_success, pause in events:
        now += timedelta(seconds=pause)
        circuit = at(circuit, now)
        if isinstance(circuit, Open):
            assert timedelta(0) < circuit.rest(now) <= OPEN_FOR
            continue
        circuit = after_success(circuit) if is_success else after_failure(circuit, now)
        in_a_row = 0 if is_success else in_a_row + 1
        if in_a_row >= FAILURES_TO_OPEN:
            assert isinstance(circuit, Open)
        if is_success:
            assert not isinstance(circuit, Open)
