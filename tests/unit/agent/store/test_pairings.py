"""Pairing as rows: one code a person, three waiting, and a lock after too many wrong codes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent.safety.pairing import LIFETIME, MAX_FAILURES, Approved, LockedOut, UnknownCode
from agent.store import pairings
from agent.store.base import Transaction
from tests.support.builders import NOON
from tests.unit.agent.store.rows import database


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Transaction]:
    with database(tmp_path) as engine, engine.begin() as connection:
        assert isinstance(connection, Connection)
        yield Transaction(connection)


def ask(tx: Transaction, user: str, *, after: timedelta = timedelta(0), channel: str = "telegram") -> str | None:
    return pairings.request(tx, channel, user, f"Name of {user}", NOON + after)


def test_person_is_told_one_code_once(tx: Transaction) -> None:
    code = ask(tx, "5")

    assert code
    assert ask(tx, "5", after=timedelta(minutes=1)) is None
    assert [each.code for each in pairings.listing(tx, NOON)] == [code]


def test_fourth_requester_is_told_nothing_and_the_first_three_keep_their_codes(tx: Transaction) -> None:
    codes = [ask(tx, user) for user in ("5", "6", "7")]

    assert ask(tx, "8") is None
    assert [each.code for each in pairings.listing(tx, NOON)] == codes
    assert ask(tx, "8", channel="slack")  # another channel has room of its own


def test_expired_code_is_unknown_and_its_owner_is_told_a_new_one(tx: Transaction) -> None:
    code = ask(tx, "5")
    assert code

    assert isinstance(pairings.approve(tx, "telegram", code, NOON + LIFETIME), UnknownCode)
    assert pairings.listing(tx, NOON + LIFETIME) == []
    assert ask(tx, "5", after=LIFETIME) not in (None, code)


def test_approved_person_is_let_in_on_that_channel_until_revoked(tx: Transaction) -> None:
    code = ask(tx, "5")
    assert code

    assert pairings.approve(tx, "slack", code, NOON) == UnknownCode()
    assert pairings.approve(tx, "telegram", code.lower(), NOON) == Approved("5")
    assert pairings.is_paired(tx, "telegram", "5")
    assert not pairings.is_paired(tx, "slack", "5")
    assert pairings.approve(tx, "telegram", code, NOON) == UnknownCode()
    [entry] = pairings.listing(tx, NOON)
    assert (entry.name, entry.approved_at, entry.code) == ("Name of 5", NOON, None)

    assert pairings.revoke(tx, "telegram", "5")
    assert not pairings.revoke(tx, "telegram", "5")
    assert not pairings.is_paired(tx, "telegram", "5")


def test_too_many_wrong_codes_lock_even_a_right_one_for_a_while(tx: Transaction) -> None:
    code = ask(tx, "5")
    assert code
    for _ in range(MAX_FAILURES):
        assert pairings.approve(tx, "telegram", "AAAAAAAA", NOON) == UnknownCode()

    locked = pairings.approve(tx, "telegram", code, NOON)

    assert isinstance(locked, LockedOut)
    assert not pairings.is_paired(tx, "telegram", "5")
    assert pairings.approve(tx, "telegram", code, locked.until) == Approved("5")


def test_approving_one_keeps_the_names_of_those_who_wait(tx: Transaction) -> None:
    first, _ = ask(tx, "5"), ask(tx, "6")
    assert first
    pairings.approve(tx, "telegram", first, NOON)

    assert [each.name for each in pairings.listing(tx, NOON)] == ["Name of 5", "Name of 6"]
