"""The operator's limits on money and calls. Every model call passes here, whoever makes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Protocol

import structlog

from agent.clock import Clock
from agent.llm.base import Usage
from agent.llm.errors import BudgetExceeded

log = structlog.get_logger(__name__)

HOUR = timedelta(seconds=3600)
_WARN_AT_PERCENT = 80
# Other processes spend from the same budget: their share is read again after this time.
_REFRESH_AFTER = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent. None sets no limit, 0 forbids every call."""

    cents_per_day: Decimal | int | None = None
    calls_per_hour: int | None = None

    def for_unattended(self) -> Limits:
        """The limits of calls that nobody waits for."""
        cents, calls = self.cents_per_day, self.calls_per_hour
        return Limits(
            None if cents is None else cents * _WARN_AT_PERCENT // 100,
            None if calls is None else calls * _WARN_AT_PERCENT // 100,
        )


@dataclass(frozen=True, slots=True)
class SpendEntry:
    """One paid call; `cost` in dollars."""

    at: datetime
    provider: str
    model: str
    usage: Usage
    cost: Decimal
    account: str = ""


class SpendLedger(Protocol):
    """Where spending outlives the process."""

    async def spent_on(self, day: date) -> Decimal:
        """Dollars spent on a day in UTC."""
        ...

    async def calls_after(self, instant: datetime) -> Sequence[datetime]:
        """Instants of the calls made after `instant`, oldest first."""
        ...

    async def add(self, entry: SpendEntry) -> None: ...


@dataclass(frozen=True, slots=True)
class Spending:
    """What counts against the limits at one instant; `calls` are those of the last hour, oldest first."""

    dollars_today: Decimal
    calls: Sequence[datetime]


def refusal(limits: Limits, spending: Spending, now: datetime) -> str | None:
    """Why no call may be made now, for a user to read, or None. Money is asked first; cents are cut, not rounded."""
    cents = int(spending.dollars_today * 100)
    if limits.cents_per_day is not None and cents >= limits.cents_per_day:
        return (
            f"The budget of {_dollars(limits.cents_per_day)} a day is used up: {_dollars(cents)} spent. "
            f"It starts anew at 00:00 UTC, in {_span(_midnight_after(now) - now)}."
        )
    count = len(spending.calls)
    if limits.calls_per_hour is not None and count >= limits.calls_per_hour:
        text = f"The limit of {limits.calls_per_hour} model calls an hour is reached: {count} made."
        if limits.calls_per_hour == 0:
            return text
        free_at = spending.calls[count - limits.calls_per_hour] + HOUR
        return f"{text} The next one is possible at {free_at:%H:%M} UTC, in {_span(free_at - now)}."
    return None


class CostGuard:
    """Checks the limits before a call and counts it after.

    Days begin at midnight UTC, and a new day is noticed by the check itself. A call under way is never cut off, so the
    limit can be passed by the calls that run side by side.
    """

    def __init__(self, limits: Limits, ledger: SpendLedger, clock: Clock) -> None:
        self._limits = limits
        self._ledger = ledger
        self._clock = clock
        self._day: date | None = None
        self._dollars = Decimal(0)
        self._calls: deque[datetime] = deque()
        self._read_at: datetime | None = None

    async def check(self, *, unattended: bool = False) -> None:
        """Raises BudgetExceeded, with what was spent, the limit and the time it ends, if no call may be made now.

        Calls that nobody waits for are refused from 80 % of a limit on: what is left is for people.
        """
        if self._limits == Limits():
            return
        spending = await self.spending()
        now = self._clock.now()
        limits = self._limits.for_unattended() if unattended else self._limits
        text = refusal(limits, spending, now)
        if text is not None:
            log.info("model_call_over_budget", calls_last_hour=len(spending.calls))
            raise BudgetExceeded(text)

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str = "") -> None:
        """Counts one call; `cost` in dollars."""
        now = self._clock.now()
        self._roll(now)
        self._dollars += cost
        self._calls.append(now)
        self._warn()
        await self._ledger.add(SpendEntry(now, provider, model, usage, cost, account))

    async def spending(self) -> Spending:
        """Dollars of today and calls of the last hour, those of other processes included."""
        now = self._clock.now()
        self._roll(now)
        if self._read_at is None or now - self._read_at >= _REFRESH_AFTER:
            await self._read(now)
        return Spending(self._dollars, tuple(self._calls))

    def _roll(self, now: datetime) -> None:
        today = now.astimezone(UTC).date()
        if self._day != today:
            self._day, self._dollars, self._read_at = today, Decimal(0), None
        while self._calls and now - self._calls[0] >= HOUR:
            self._calls.popleft()

    async def _read(self, now: datetime) -> None:
        day = now.astimezone(UTC).date()
        dollars = await self._ledger.spent_on(day)
        calls = await self._ledger.calls_after(now - HOUR)
        # A call of ours may not have reached the ledger yet: what is known here is a lower bound.
        if self._day == day:
            self._dollars = max(self._dollars, dollars)
        if len(calls) > len(self._calls):
            self._calls = deque(calls)
        self._read_at = now

    def _warn(self) -> None:
        limit = self._limits.cents_per_day
        cents = int(self._dollars * 100)
        if limit and cents * 100 >= limit * _WARN_AT_PERCENT:
            event = "daily_budget_used_up" if cents >= limit else "daily_budget_nearly_used_up"
            log.warning(event, spent_cents=cents, limit_cents=limit)


def _midnight_after(now: datetime) -> datetime:
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=1)


def _dollars(cents: Decimal | int) -> str:
    return f"${cents / 100:.2f}"


def _span(duration: timedelta) -> str:
    minutes = max(1, -(-int(duration.total_seconds()) // 60))
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
