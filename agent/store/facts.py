"""Small facts that outlive a restart, firings that happen once, and findings that are told once."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select

from agent.store.base import Transaction
from agent.store.sql import insert_ignore, upsert
from agent.store.tables import facts, findings, firings


def get(tx: Transaction, name: str) -> str | None:
    """The value of a fact."""
    return tx.connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()


def put(tx: Transaction, name: str, value: str) -> None:
    """Keep a fact."""
    upsert(tx, facts, {"name": name, "value": value})


def claim_firing(tx: Transaction, name: str, due_at: datetime) -> bool:
    """Whether this due time is ours to act on: True for one caller only, however many processes ask."""
    return insert_ignore(tx, firings, {"name": name, "due_at": due_at})


def claim_finding(tx: Transaction, digest: str, now: datetime, quiet_for: timedelta) -> bool:
    """Whether a finding is news: False if the same was told less than `quiet_for` ago."""
    last = tx.connection.execute(select(findings.c.sent_at).where(findings.c.digest == digest)).scalar()
    if last is not None and now - last < quiet_for:
        return False
    upsert(tx, findings, {"digest": digest, "sent_at": now})
    return True


def forget_finding(tx: Transaction, digest: str) -> None:
    """A finding that reached nobody is news the next time."""
    tx.connection.execute(delete(findings).where(findings.c.digest == digest))
