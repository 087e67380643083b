"""Who has been let in, and who asks to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select

from agent.safety import pairing as rules
from agent.safety.pairing import Approved, CodeGiven, LockedOut, PairingRequest, PairingState, UnknownCode
from agent.store.base import Transaction
from agent.store.sql import upsert
from agent.store.tables import pairing_failures, pairing_requests, pairings

_IS_PAIRED = select(pairings.c.user_id).where(
    pairings.c.channel == bindparam("channel"), pairings.c.user_id == bindparam("user")
)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Somebody who was let in, or (without `approved_at`) waits with a code."""

    channel: str
    user_id: str
    name: str
    approved_at: datetime | None
    code: str | None = None


def is_paired(tx: Transaction, channel: str, user_id: str) -> bool:
    """Whether the operator has let this person in."""
    return tx.connection.execute(_IS_PAIRED, {"channel": channel, "user": user_id}).first() is not None


def request(tx: Transaction, channel: str, user_id: str, name: str, now: datetime) -> str | None:
    """The code to tell a stranger, or None where they were told before or too many wait."""
    state, outcome = rules.request_pairing(_load(tx, channel), user_id, now)
    if not isinstance(outcome, CodeGiven):
        return None
    _save(tx, channel, state, {user_id: name})
    return outcome.code


def approve(tx: Transaction, channel: str, code: str, now: datetime) -> Approved | UnknownCode | LockedOut:
    """Let the owner of a code in."""
    names = {
        row.user_id: row.name
        for row in tx.connection.execute(
            select(pairing_requests.c.user_id, pairing_requests.c.name).where(pairing_requests.c.channel == channel)
        )
    }
    state, outcome = rules.approve_pairing(_load(tx, channel), code, now)
    _save(tx, channel, state, names)
    if isinstance(outcome, Approved):
        row = {"channel": channel, "user_id": outcome.user_id, "name": names[outcome.user_id], "approved_at": now}
        upsert(tx, pairings, row)
    return outcome


def revoke(tx: Transaction, channel: str, user_id: str) -> bool:
    """Shut the door again; False if the person was not let in."""
    gone = tx.connection.execute(
        delete(pairings).where(pairings.c.channel == channel, pairings.c.user_id == user_id)
    ).rowcount
    return gone > 0


def listing(tx: Transaction, now: datetime) -> Sequence[Pairing]:
    """Everybody who was let in, then everybody whose code is still good."""
    let_in = [
        Pairing(row.channel, row.user_id, row.name, row.approved_at)
        for row in tx.connection.execute(select(pairings).order_by(pairings.c.channel, pairings.c.approved_at))
    ]
    asking = [
        Pairing(row.channel, row.user_id, row.name, None, row.code)
        for row in tx.connection.execute(select(pairing_requests).order_by(pairing_requests.c.created_at))
        if now < row.created_at + rules.LIFETIME
    ]
    return [*let_in, *asking]


def _load(tx: Transaction, channel: str) -> PairingState:
    requests = tx.connection.execute(
        select(pairing_requests)
        .where(pairing_requests.c.channel == channel)
        .order_by(pairing_requests.c.created_at, pairing_requests.c.user_id)
    )
    failures = tx.connection.execute(
        select(pairing_failures.c.at).where(pairing_failures.c.channel == channel).order_by(pairing_failures.c.at)
    )
    return PairingState(
        tuple(PairingRequest(row.user_id, row.code, row.created_at) for row in requests), tuple(failures.scalars())
    )


def _save(tx: Transaction, channel: str, state: PairingState, names: dict[str, str]) -> None:
    """Write a channel's state anew; there are never more than a handful of rows."""
    old = {
        row.user_id: row.name
        for row in tx.connection.execute(
            select(pairing_requests.c.user_id, pairing_requests.c.name).where(pairing_requests.c.channel == channel)
        )
    }
    tx.connection.execute(delete(pairing_requests).where(pairing_requests.c.channel == channel))
    tx.connection.execute(delete(pairing_failures).where(pairing_failures.c.channel == channel))
    for open_request in state.requests:
        name = names.get(open_request.user_id) or old.get(open_request.user_id, "")
        tx.connection.execute(
            insert(pairing_requests),
            {
                "channel": channel,
                "user_id": open_request.user_id,
                "name": name,
                "code": open_request.code,
                "created_at": open_request.requested_at,
            },
        )
    for failure in state.failures:
        tx.connection.execute(insert(pairing_failures), {"channel": channel, "at": failure})
