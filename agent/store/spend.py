"""Every model call that was paid, for the cost guard and for people who ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Protocol

from sqlalchemy import ColumnElement, bindparam, func, insert, select

from agent.llm.base import Usage
from agent.store.base import Transaction
from agent.store.tables import model_calls


class PaidCall(Protocol):
    """One call to be counted; `cost` in dollars."""

    @property
    def at(self) -> datetime: ...

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def cost(self) -> Decimal: ...

    @property
    def account(self) -> str: ...


_MICROCENTS = Decimal(100_000_000)  # in a dollar
_ADD = insert(model_calls)
_DAY = select(func.coalesce(func.sum(model_calls.c.cost_microcents), 0)).where(model_calls.c.day == bindparam("of"))
_RECENT = select(model_calls.c.at).where(model_calls.c.at > bindparam("since")).order_by(model_calls.c.at)


def add(tx: Transaction, call: PaidCall) -> None:
    """Count one call."""
    usage = call.usage
    tx.connection.execute(
        _ADD,
        {
            "at": call.at,
            "day": call.at.date().isoformat(),
            "provider": call.provider,
            "model": call.model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "account": call.account,
            "cost_microcents": int((call.cost * _MICROCENTS).to_integral_value(ROUND_HALF_UP)),
        },
    )


def dollars_on(tx: Transaction, day: date) -> Decimal:
    """What all calls of a UTC day cost together, in dollars."""
    return Decimal(int(tx.connection.execute(_DAY, {"of": day.isoformat()}).scalar_one())) / _MICROCENTS


def calls_since(tx: Transaction, since: datetime) -> Sequence[datetime]:
    """When calls were made after `since`, oldest first."""
    return list(tx.connection.execute(_RECENT, {"since": since}).scalars())


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one kind took together; `dollars` is exact to a hundred-millionth."""

    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    dollars: Decimal


def by_model(tx: Transaction, since: datetime) -> Sequence[Spent]:
    """What was spent since then, by provider and model, the dearest first."""
    return _grouped(tx, model_calls.c.at >= since)


def of_account(tx: Transaction, account: str) -> Sequence[Spent]:
    """What one turn, or one kind of unattended work, has spent."""
    return _grouped(tx, model_calls.c.account == account)


def _grouped(tx: Transaction, condition: ColumnElement[bool]) -> Sequence[Spent]:
    cost = func.sum(model_calls.c.cost_microcents)
    rows = tx.connection.execute(
        select(
            model_calls.c.provider,
            model_calls.c.model,
            func.count(),
            func.sum(model_calls.c.input_tokens),
            func.sum(model_calls.c.cache_read_tokens),
            func.sum(model_calls.c.output_tokens),
            cost,
        )
        .where(condition)
        .group_by(model_calls.c.provider, model_calls.c.model)
        .order_by(cost.desc())
    )
    return [
        Spent(f"{provider}:{model}", calls, read, cached, written, Decimal(int(microcents)) / _MICROCENTS)
        for provider, model, calls, read, cached, written, microcents in rows
    ]


def tokens_of(tx: Transaction, accounts: Sequence[str]) -> int:
    """The tokens that calls of these accounts took together, read and written."""
    if not accounts:
        return 0
    tokens = func.sum(model_calls.c.input_tokens + model_calls.c.output_tokens)
    return int(tx.connection.execute(select(tokens).where(model_calls.c.account.in_(accounts))).scalar() or 0)
