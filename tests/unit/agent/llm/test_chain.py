from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from agent.llm.base import CompletionRequest, Usage
from agent.llm.chain import BareProviders, Chain, build_chain
from agent.llm.errors import BudgetExceeded, TransientError
from agent.llm.messages import UserText
from agent.loop.cost_guard import CostGuard, Limits, SpendEntry
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say
from tests.support.settings import make_settings

ASK = CompletionRequest("", (UserText("hi"),))
DOWN = TransientError("down")
MILLION = Usage(1_000_000, 0)


class Ledger:
    """Keeps spending in memory."""

    def __init__(self) -> None:
        self.entries: list[SpendEntry] = []

    async def spent_on(self, day: date) -> Decimal:
        return sum((entry.cost for entry in self.entries), Decimal(0))

    async def calls_after(self, instant: datetime) -> list[datetime]:
        return [entry.at for entry in self.entries]

    async def add(self, entry: SpendEntry) -> None:
        self.entries.append(entry)


class Middle:
    """Always the mean."""

    def uniform(self, a: float, b: float, /) -> float:
        return (a + b) / 2


class Bench:
    """A chain around scripted models, with what it spends."""

    def __init__(
        self,
        home: Path,
        bare: BareProviders,
        variables: Mapping[str, str] | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self.clock = FakeClock()
        self.ledger = Ledger()
        guard = CostGuard(limits, self.ledger, self.clock)
        settings = make_settings(home, {"LLM_MAX_RETRIES": "0", **(variables or {})}).llm
        self.chain: Chain = build_chain(bare, settings, guard, self.clock, Middle())

    async def ask(self, request: CompletionRequest = ASK) -> str:
        return (await self.chain.main.complete(request)).text

    @property
    def paid(self) -> list[tuple[str, str, Decimal]]:
        return [(entry.provider, entry.model, entry.cost) for entry in self.ledger.entries]


def claude(*steps: ScriptStep) -> ScriptedLLM:
    return ScriptedLLM(steps, model="claude-haiku-4-5", name="anthropic")


def gpt(*steps: ScriptStep) -> ScriptedLLM:
    return ScriptedLLM(steps, model="gpt-5-nano", name="openai")


async def test_the_one_that_answered_is_paid_at_its_own_price(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BareProviders(claude(DOWN), fallbacks=(gpt(say("Hello", usage=MILLION)),)))

    assert await bench.ask() == "Hello"

    assert bench.paid == [("openai", "gpt-5-nano", Decimal("0.05"))]


async def test_the_fallback_answers_once_the_retries_of_the_primary_are_used_up(tmp_path: Path) -> None:
    primary = claude(DOWN, DOWN)
    bench = Bench(tmp_path, BareProviders(primary, fallbacks=(gpt(say("Hello")),)), {"LLM_MAX_RETRIES": "1"})

    async with asyncio.TaskGroup() as group:
        answer = group.create_task(bench.ask())
        await bench.clock.wait_for_sleeper()
        bench.clock.advance(timedelta(seconds=1))

    assert answer.result() == "Hello"
    assert primary.left == 0


async def test_each_provider_is_asked_for_leave(tmp_path: Path) -> None:
    """Invariant 6: the fallback may not be called on a budget that the primary has used up."""
    primary, fallback = claude(say("Hello", usage=MILLION), DOWN), gpt(say("Hello"))
    bench = Bench(tmp_path, BareProviders(primary, fallbacks=(fallback,)), limits=Limits(cents_per_day=50))
    await bench.ask()

    with pytest.raises(BudgetExceeded):
        await bench.ask()

    assert (primary.left, fallback.left) == (1, 1)


async def test_easy_questions_go_to_the_cheap_model_only_where_that_was_asked_for(tmp_path: Path) -> None:
    def bare() -> BareProviders:
        return BareProviders(claude(say("from the primary")), gpt(say("from the cheap one")))

    assert await Bench(tmp_path, bare()).ask() == "from the primary"
    assert await Bench(tmp_path, bare(), {"LLM_SMART_ROUTING": "true"}).ask() == "from the cheap one"


async def test_routing_without_a_cheap_model_asks_the_primary(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BareProviders(claude(say("Hello"))), {"LLM_SMART_ROUTING": "true"})

    assert await bench.ask() == "Hello"


async def test_the_cheap_model_is_the_main_one_where_there_is_none(tmp_path: Path) -> None:
    alone = Bench(tmp_path, BareProviders(claude())).chain
    paired = Bench(tmp_path, BareProviders(claude(), gpt())).chain

    assert alone.cheap is alone.main
    assert (paired.main.model, paired.cheap.model) == ("claude-haiku-4-5", "gpt-5-nano")


async def test_the_cheap_model_is_paid_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BareProviders(claude(), gpt(say("Hello", usage=MILLION))))

    await bench.chain.cheap.complete(ASK)

    assert bench.paid == [("openai", "gpt-5-nano", Decimal("0.05"))]


@pytest.mark.parametrize(("setting", "calls"), [("true", 5), ("false", 6)])
async def test_a_model_that_is_down_is_left_alone_unless_told_otherwise(
    tmp_path: Path, setting: str, calls: int
) -> None:
    primary = claude(*[DOWN] * 6)
    bench = Bench(tmp_path, BareProviders(primary), {"LLM_CIRCUIT_BREAKER": setting})

    for _ in range(6):
        with pytest.raises(TransientError):
            await bench.ask()

    assert len(primary.requests) == calls


async def test_answers_are_kept_only_where_that_was_asked_for_and_cost_nothing_then(tmp_path: Path) -> None:
    plain = Bench(tmp_path, BareProviders(claude(say("a"), say("b"))))
    keeping = Bench(tmp_path, BareProviders(claude(say("a"), say("b"))), {"LLM_RESPONSE_CACHE": "true"})

    assert [await plain.ask() for _ in range(2)] == ["a", "b"]
    assert [await keeping.ask() for _ in range(2)] == ["a", "a"]
    assert (len(plain.paid), len(keeping.paid)) == (2, 1)


async def test_the_whole_chain_is_what_its_primary_is_and_closes_everything(tmp_path: Path) -> None:
    primary, cheap, fallback = claude(), gpt(), ScriptedLLM()
    everything = {"LLM_SMART_ROUTING": "true", "LLM_RESPONSE_CACHE": "true"}
    main = Bench(tmp_path, BareProviders(primary, cheap, (fallback,)), everything).chain.main

    await main.warm_up()
    await main.close()

    assert (main.name, main.model, main.context_limit, main.supports_tools) == (
        "anthropic",
        "claude-haiku-4-5",
        100_000,
        True,
    )
    assert await main.list_models() == ("claude-haiku-4-5",)
    assert primary.warm
    assert (primary.closed, cheap.closed, fallback.closed) == (True, True, True)
