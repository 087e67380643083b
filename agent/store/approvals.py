"""Open questions and what became of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, bindparam, func, insert, select, update

from agent.model.approval import ApprovalState, ConsentPlace, Decision, PendingApproval
from agent.model.ids import ApprovalId, ThreadId, TurnId, UserId
from agent.model.session import TurnState
from agent.store.base import Transaction
from agent.store.codec import ADDRESS
from agent.store.tables import approvals, turns
from channels.message import Address

_OPEN = select(approvals).where(approvals.c.thread_id == bindparam("thread"), approvals.c.state == ApprovalState.OPEN)
_OF_TURN = select(approvals.c.call_id, approvals.c.state, approvals.c.display).where(
    approvals.c.turn_id == bindparam("turn")
)


def add(tx: Transaction, pending: PendingApproval, address: Address) -> None:
    """Open a question. The database refuses a second open one on the thread."""
    tx.connection.execute(
        insert(approvals),
        {
            "id": pending.id,
            "thread_id": pending.thread,
            "turn_id": pending.turn,
            "call_id": pending.call_id,
            "tool": pending.tool,
            "description": pending.description,
            "display": json.dumps(dict(pending.display), ensure_ascii=False),
            "address": ADDRESS.dump_json(address).decode(),
            "requested_by": pending.requested_by,
            "channel": pending.channel,
            "place": pending.place.name,
            "may_be_always": pending.may_be_always,
            "state": pending.state,
            "created_at": pending.created_at,
            "expires_at": pending.expires_at,
        },
    )


def open_of(tx: Transaction, thread: ThreadId) -> PendingApproval | None:
    """The question a thread waits for."""
    row = tx.connection.execute(_OPEN, {"thread": thread}).mappings().first()
    return None if row is None else _pending(row)


def by_id(tx: Transaction, identifier: ApprovalId) -> PendingApproval | None:
    """A question by its id, open or not."""
    row = tx.connection.execute(select(approvals).where(approvals.c.id == identifier)).mappings().first()
    return None if row is None else _pending(row)


def asked_at(tx: Transaction, identifier: ApprovalId) -> Address:
    """Where a question was asked."""
    body = tx.connection.execute(select(approvals.c.address).where(approvals.c.id == identifier)).scalar_one()
    return ADDRESS.validate_json(body)


def close(tx: Transaction, identifier: ApprovalId, state: ApprovalState, by: str, now: datetime) -> bool:
    """Settle an open question; False if it was not open any more."""
    done = tx.connection.execute(
        update(approvals)
        .where(approvals.c.id == identifier, approvals.c.state == ApprovalState.OPEN)
        .values(state=state, decided_by=by, decided_at=now)
    )
    return done.rowcount > 0


def decisions(tx: Transaction, turn: TurnId) -> dict[str, Decision]:
    """What became of each question of a turn, by call id."""
    rows = tx.connection.execute(_OF_TURN, {"turn": turn})
    return {row.call_id: Decision(ApprovalState(row.state), json.loads(row.display)) for row in rows}


def asked(tx: Transaction, turn: TurnId) -> Sequence[tuple[str, ApprovalState]]:
    """Which tools a turn asked about, in order, and what became of it."""
    rows = tx.connection.execute(
        select(approvals.c.tool, approvals.c.state).where(approvals.c.turn_id == turn).order_by(approvals.c.created_at)
    )
    return [(row.tool, ApprovalState(row.state)) for row in rows]


def due(tx: Transaction, now: datetime) -> Sequence[PendingApproval]:
    """Open questions whose time is over."""
    rows = tx.connection.execute(
        select(approvals).where(approvals.c.state == ApprovalState.OPEN, approvals.c.expires_at <= now)
    ).mappings()
    return [_pending(row) for row in rows]


def next_expiry(tx: Transaction) -> datetime | None:
    """When the next open question runs out."""
    return tx.connection.execute(
        select(func.min(approvals.c.expires_at, type_=approvals.c.expires_at.type)).where(
            approvals.c.state == ApprovalState.OPEN
        )
    ).scalar()


def answered(tx: Transaction) -> Sequence[ThreadId]:
    """Threads whose waiting turn has its answer: what a start has to wake."""
    rows = tx.connection.execute(
        select(turns.c.thread_id)
        .where(turns.c.state == TurnState.WAITING, turns.c.finished_at.is_(None))
        .where(~turns.c.id.in_(select(approvals.c.turn_id).where(approvals.c.state == ApprovalState.OPEN)))
    )
    return [ThreadId(thread) for thread in rows.scalars()]


def _pending(row: RowMapping) -> PendingApproval:
    return PendingApproval(
        id=ApprovalId(row["id"]),
        thread=ThreadId(row["thread_id"]),
        turn=TurnId(row["turn_id"]),
        call_id=row["call_id"],
        tool=row["tool"],
        description=row["description"],
        display=json.loads(row["display"]),
        requested_by=UserId(row["requested_by"]),
        channel=row["channel"],
        place=ConsentPlace(row["place"]),
        may_be_always=row["may_be_always"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        state=ApprovalState(row["state"]),
    )
