"""How often tools have broken in a row, so that one that is broken can be taken away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select, update

from agent.store.base import Transaction
from agent.store.sql import insert_ignore
from agent.store.tables import tool_health


def note_failure(tx: Transaction, tool: str, now: datetime) -> None:
    """A tool broke once more."""
    fresh = {"tool": tool, "failures": 0, "failed_at": now}
    insert_ignore(tx, tool_health, fresh)
    tx.connection.execute(
        update(tool_health).where(tool_health.c.tool == tool).values(failures=tool_health.c.failures + 1, failed_at=now)
    )


def note_success(tx: Transaction, tool: str) -> None:
    """A tool worked: what was counted before is forgotten."""
    tx.connection.execute(
        delete(tool_health).where(tool_health.c.tool == tool, tool_health.c.switched_off_at.is_(None))
    )


def broken(tx: Transaction, at_least: int) -> Sequence[str]:
    """The tools that broke so often in a row and are still there, by name."""
    rows = tx.connection.execute(
        select(tool_health.c.tool)
        .where(tool_health.c.failures >= at_least, tool_health.c.switched_off_at.is_(None))
        .order_by(tool_health.c.tool)
    )
    return list(rows.scalars())


def switched_off(tx: Transaction) -> Sequence[str]:
    """The tools that were taken away, by name."""
    rows = tx.connection.execute(
        select(tool_health.c.tool).where(tool_health.c.switched_off_at.is_not(None)).order_by(tool_health.c.tool)
    )
    return list(rows.scalars())


def switch_off(tx: Transaction, tool: str, now: datetime) -> bool:
    """Note that a tool was taken away; False if it was before."""
    done = tx.connection.execute(
        update(tool_health)
        .where(tool_health.c.tool == tool, tool_health.c.switched_off_at.is_(None))
        .values(switched_off_at=now)
    )
    return done.rowcount > 0


def forget(tx: Transaction) -> None:
    """Every tool begins anew, as after a start."""
    tx.connection.execute(delete(tool_health))


def forget_tool(tx: Transaction, tool: str) -> None:
    """A tool begins anew: it has become another one."""
    tx.connection.execute(delete(tool_health).where(tool_health.c.tool == tool))
