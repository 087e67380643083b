from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
import structlog

from agent.llm.base import Usage
from agent.llm.errors import BudgetExceeded
from agent.loop.cost_guard import CostGuard, Limits, SpendEntry
from tests.support.fake_clock import FakeClock

DOLLAR = Decimal(1)


class MemoryLedger:
    """Keeps entries in a list, as the store keeps them in a table."""

    def __init__(self) -> None:
        self.entries: list[SpendEntry] = []
        self.reads = 0

    async def spent_on(self, day: date) -> Decimal:
        self.reads += 1
        return sum((entry.cost for entry in self.entries if entry.at.date() == day), Decimal(0))

    async def calls_after(self, instant: datetime) -> Sequence[datetime]:
        return [entry.at for entry in self.entries if entry.at > instant]

    async def add(self, entry: SpendEntry) -> None:
        self.entries.append(entry)


class Desk:
    def __init__(self, cents: int | None = None, calls: int | None = None) -> None:
        self.clock = FakeClock()
        self.ledger = MemoryLedger()
        self.limits = Limits(cents, calls)
        self.guard = self.restart()

    def restart(self) -> CostGuard:
        self.guard = CostGuard(self.limits, self.ledger, self.clock)
        return self.guard

    async def spend(self, dollars: Decimal = DOLLAR) -> None:
        await self.guard.record("openai", "m", Usage(1, 1), dollars)

    async def refusal(self) -> str:
        with pytest.raises(BudgetExceeded) as caught:
            await self.guard.check()
        return caught.value.text


async def test_spent_budget_refuses_naming_spent_limit_and_reset() -> None:
    desk = Desk(cents=500)
    await desk.guard.check()
    await desk.spend(Decimal("5.039"))

    text = await desk.refusal()

    assert text == "The budget of $5.00 a day is used up: $5.03 spent. It starts anew at 00:00 UTC, in 12 h 0 min."


async def test_cents_are_cut_so_a_fraction_below_the_limit_still_allows() -> None:
    desk = Desk(cents=500)
    await desk.spend(Decimal("4.9999"))

    await desk.guard.check()


async def test_blown_budget_is_free_again_after_midnight_utc_by_the_check_alone() -> None:
    desk = Desk(cents=100)
    await desk.spend()
    await desk.refusal()

    desk.clock.advance(timedelta(hours=11, minutes=59))
    await desk.refusal()
    desk.clock.advance(timedelta(minutes=1))

    await desk.guard.check()


async def test_restart_does_not_give_a_fresh_budget() -> None:
    desk = Desk(cents=100, calls=2)
    await desk.spend()

    desk.restart()

    assert "$1.00 spent" in await desk.refusal()


async def test_calls_are_counted_in_a_sliding_hour() -> None:
    desk = Desk(calls=2)
    await desk.spend()
    desk.clock.advance(timedelta(minutes=30))
    await desk.spend()

    assert await desk.refusal() == (
        "The limit of 2 model calls an hour is reached: 2 made. The next one is possible at 13:00 UTC, in 30 min."
    )
    desk.clock.advance(timedelta(minutes=30))
    await desk.guard.check()


async def test_hourly_count_survives_a_restart() -> None:
    desk = Desk(calls=1)
    await desk.spend()

    desk.restart()

    assert "1 made" in await desk.refusal()


async def test_budget_is_asked_before_the_count() -> None:
    desk = Desk(cents=100, calls=1)
    await desk.spend()

    assert "budget" in await desk.refusal()


@pytest.mark.parametrize(("cents", "calls"), [(0, None), (None, 0)])
async def test_limit_of_zero_forbids_every_call(cents: int | None, calls: int | None) -> None:
    assert await Desk(cents, calls).refusal()


async def test_without_limits_nothing_is_read_but_spending_is_kept() -> None:
    desk = Desk()

    await desk.guard.check()
    await desk.spend()

    assert desk.ledger.reads == 0
    assert [entry.cost for entry in desk.ledger.entries] == [DOLLAR]


async def test_checks_do_not_read_the_ledger_each_time() -> None:
    desk = Desk(cents=500)

    for _ in range(10):
        await desk.guard.check()

    assert desk.ledger.reads == 1


async def test_what_another_process_spends_counts_soon() -> None:
    desk = Desk(cents=100)
    await desk.guard.check()
    other = CostGuard(desk.limits, desk.ledger, desk.clock)
    await other.record("openai", "m", Usage(), DOLLAR)

    desk.clock.advance(timedelta(seconds=30))

    assert "$1.00 spent" in await desk.refusal()


async def test_nearly_used_budget_warns_at_every_call() -> None:
    desk = Desk(cents=100)

    with structlog.testing.capture_logs() as logs:
        await desk.spend(Decimal("0.79"))
        await desk.spend(Decimal("0.01"))
        await desk.spend(Decimal("0.01"))
        await desk.spend(Decimal("0.30"))

    assert [(entry["event"], entry["spent_cents"]) for entry in logs] == [
        ("daily_budget_nearly_used_up", 80),
        ("daily_budget_nearly_used_up", 81),
        ("daily_budget_used_up", 111),
    ]


async def test_spending_tells_today_and_the_last_hour() -> None:
    desk = Desk(cents=1000)
    await desk.spend()
    desk.clock.advance(timedelta(hours=2))
    await desk.spend()

    spending = await desk.guard.spending()

    assert (spending.dollars_today, len(spending.calls)) == (2 * DOLLAR, 1)
