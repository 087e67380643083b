from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import Completion, CompletionRequest
from agent.llm.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ContextTooLong,
    LLMError,
    ModelUnavailable,
    RateLimitedError,
    RequestRefused,
    TransientError,
)
from agent.llm.failover import COOLDOWN, FAILURES_TO_COOL, FailoverProvider, Health, order_of
from agent.llm.messages import UserText
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

ASK = CompletionRequest("", (UserText("hi"),))
DOWN = TransientError("down")


class Trio:
    """A primary and two fallbacks, and the clock they live by."""

    def __init__(self, *scripts: tuple[ScriptStep, ...]) -> None:
        names = ("primary", "second", "third")
        self.clock = FakeClock()
        self.models = [
            ScriptedLLM(steps, model=f"{name}-1", name=name) for name, steps in zip(names, scripts, strict=False)
        ]
        self.provider = FailoverProvider(self.models, self.clock)

    async def ask(self) -> str:
        return (await self.provider.complete(ASK)).model

    async def asked(self) -> list[int]:
        """How many calls each of the models was sent."""
        return [len(model.requests) for model in self.models]


async def test_primary_answers_while_it_is_well() -> None:
    trio = Trio((say("Hello"),), ())

    assert await trio.ask() == "primary-1"


async def test_fallback_answers_within_the_same_call() -> None:
    trio = Trio((DOWN,), (RateLimitedError("slow"),), (say("Hello"),))

    assert await trio.ask() == "third-1"


@pytest.mark.parametrize("fault", [AuthenticationFailed, ModelUnavailable, ContextTooLong, RequestRefused])
async def test_what_the_primary_refuses_for_good_goes_no_further(fault: type[LLMError]) -> None:
    trio = Trio((fault("no"),), (say("Hello"),))

    with pytest.raises(fault):
        await trio.ask()

    assert await trio.asked() == [1, 0]


async def test_a_used_up_budget_goes_no_further_whoever_meets_it() -> None:
    trio = Trio((DOWN,), (BudgetExceeded("used up"),), (say("Hello"),))

    with pytest.raises(BudgetExceeded):
        await trio.ask()

    assert await trio.asked() == [1, 1, 0]


@pytest.mark.parametrize("fault", [AuthenticationFailed, ModelUnavailable, ContextTooLong, RequestRefused])
async def test_a_fallback_that_cannot_stand_in_is_passed_over(fault: type[LLMError]) -> None:
    trio = Trio((DOWN,), (fault("no"),), (say("Hello"),))

    assert await trio.ask() == "third-1"


async def test_when_nobody_answers_the_fault_is_the_primarys() -> None:
    trio = Trio((TransientError("first"),), (AuthenticationFailed("second"),), (TransientError("third"),))

    with pytest.raises(TransientError, match="first"):
        await trio.ask()


async def test_a_conversation_too_long_for_the_fallbacks_is_said_so_that_it_gets_shortened() -> None:
    trio = Trio((DOWN,), (ContextTooLong("2000 tokens"),))

    with pytest.raises(ContextTooLong):
        await trio.ask()


async def test_the_third_failure_in_a_row_sends_a_provider_off_for_a_pause() -> None:
    trio = Trio((DOWN, DOWN, DOWN), tuple(say("Hello") for _ in range(4)))

    for _ in range(4):
        await trio.ask()

    assert await trio.asked() == [3, 4]


async def test_the_primary_is_used_again_after_its_pause() -> None:
    trio = Trio((DOWN, DOWN, DOWN, say("Back")), tuple(say("Hello") for _ in range(4)))
    for _ in range(3):
        await trio.ask()

    trio.clock.advance(COOLDOWN - timedelta(seconds=1))
    during = await trio.ask()
    trio.clock.advance(timedelta(seconds=1))
    after = await trio.ask()

    assert (during, after) == ("second-1", "primary-1")


async def test_a_success_forgives_earlier_failures() -> None:
    trio = Trio((DOWN, DOWN, say("Fine"), DOWN, DOWN, say("Fine")), tuple(say("Hello") for _ in range(4)))

    answered = [await trio.ask() for _ in range(6)]

    assert answered[2] == answered[5] == "primary-1"


async def test_one_failure_of_the_fallback_does_not_switch_it_off() -> None:
    trio = Trio((DOWN, DOWN), (DOWN, say("Hello")))
    with pytest.raises(TransientError):
        await trio.ask()

    assert await trio.ask() == "second-1"


async def test_with_all_in_their_pause_the_longest_cooled_is_tried() -> None:
    trio = Trio((DOWN, DOWN, DOWN, say("Back")), (DOWN, DOWN, DOWN))
    for _ in range(FAILURES_TO_COOL):
        with pytest.raises(TransientError):
            await trio.ask()

    assert await trio.ask() == "primary-1"
    assert await trio.asked() == [4, 3]


async def test_a_cooling_primary_is_the_last_resort_when_the_fallback_fails() -> None:
    trio = Trio((DOWN, DOWN, DOWN, say("Back")), (say("a"), say("b"), say("c"), DOWN))
    for _ in range(3):
        await trio.ask()

    assert await trio.ask() == "primary-1"


async def test_conversations_that_do_not_suit_a_fallback_do_not_send_it_off() -> None:
    trio = Trio((DOWN,) * 4, (*[ContextTooLong("long")] * 3, say("Hello")))
    for _ in range(3):
        with pytest.raises(ContextTooLong):
            await trio.ask()

    assert await trio.ask() == "second-1"


async def test_a_fallback_answers_with_its_own_model() -> None:
    trio = Trio((DOWN,), (say("Hello"),))

    completion = await trio.provider.complete(CompletionRequest("", (UserText("hi"),), model="primary-2"))

    assert trio.models[0].requests[0].model == "primary-2"
    assert completion.model == "second-1"


async def test_streamed_text_starts_over_with_another_provider() -> None:
    heard: list[str] = []

    def half(request: CompletionRequest) -> Completion:
        heard.append("Hel")
        raise TransientError("broke off")

    await Trio((half,), (say("Hello"),)).provider.complete(ASK, heard.append)

    assert heard == ["Hel", "", "Hello"]


async def test_is_what_the_primary_is_and_closes_all() -> None:
    trio = Trio((), ())
    trio.models[1].supports_tools = False

    await trio.provider.warm_up()
    await trio.provider.close()

    assert (trio.provider.name, trio.provider.model) == ("primary", "primary-1")
    assert (trio.provider.context_limit, trio.provider.supports_tools) == (100_000, True)
    assert await trio.provider.list_models() == ("primary-1",)
    assert [model.warm for model in trio.models] == [True, False]
    assert [model.closed for model in trio.models] == [True, True]


async def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    class Stuck(ScriptedLLM):
        async def close(self) -> None:
            raise OSError("stuck")

    first, third = ScriptedLLM(), ScriptedLLM()

    with pytest.raises(OSError, match="stuck"):
        await FailoverProvider((first, Stuck(), third), FakeClock()).close()

    assert (first.closed, third.closed) == (True, True)


def test_a_pause_that_began_at_this_very_instant_counts() -> None:
    cooled = Health(3, NOON)

    assert cooled.is_cooling(NOON)
    assert not cooled.is_cooling(NOON + COOLDOWN)
    assert not cooled.is_cooling(NOON - timedelta(hours=1))


SECONDS = st.integers(-400, 400)
HEALTHS = st.lists(
    st.builds(
        Health,
        st.integers(0, 5),
        st.one_of(st.none(), SECONDS.map(lambda seconds: NOON + timedelta(seconds=seconds))),
    ),
    min_size=1,
    max_size=5,
)


@given(HEALTHS)
def test_somebody_is_always_asked_nobody_twice_and_the_well_ones_first_in_order(healths: list[Health]) -> None:
    order = order_of(healths, NOON)
    well = [index for index, health in enumerate(healths) if not health.is_cooling(NOON)]

    assert len(set(order)) == len(order) >= 1
    assert list(order[: len(well)]) == well
    assert len(order) == len(well) + (len(well) < len(healths))
