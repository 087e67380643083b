"""Every model call that was paid, for the cost guard and for people who ask."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal

from sqlalchemy import bindparam, func, insert, select

from agent.llm.base import Usage
from agent.store.base import Transaction
from agent.store.tables import model_calls

_MICROCENTS = Decimal(100_000_000)  # in a dollar
_ADD = insert(model_calls)
_DAY = select(func.coalesce(func.sum(model_calls.c.cost_microcents), 0)).where(model_calls.c.day == bindparam("of"))
_RECENT = select(model_calls.c.at).where(model_calls.c.at > bindparam("since")).order_by(model_calls.c.at)


def add(tx: Transaction, provider: str, model: str, usage: Usage, dollars: Decimal, now: datetime) -> None:
    """Count one call."""
    tx.connection.execute(
        _ADD,
        {
            "at": now,
            "day": now.date().isoformat(),
            "provider": provider,
            "model": model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "cost_microcents": int((dollars * _MICROCENTS).to_integral_value(ROUND_HALF_UP)),
        },
    )


def dollars_on(tx: Transaction, day: date) -> Decimal:
    """What all calls of a UTC day cost together, in dollars."""
    return Decimal(int(tx.connection.execute(_DAY, {"of": day.isoformat()}).scalar_one())) / _MICROCENTS


def calls_since(tx: Transaction, since: datetime) -> Sequence[datetime]:
    """When calls were made after `since`, oldest first."""
    return list(tx.connection.execute(_RECENT, {"since": since}).scalars())
