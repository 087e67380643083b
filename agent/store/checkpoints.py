"""Points a thread can go back to, and forward to again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, and_, bindparam, delete, func, insert, or_, select

from agent.model.history import HistoryView
from agent.model.ids import ThreadId
from agent.model.session import Turn
from agent.store.base import Transaction
from agent.store.tables import checkpoints

MOST_UNDO = 20


class Kind(StrEnum):
    """`UNDO` checkpoints lie before turns; `REDO` ones are where an undo came from."""

    UNDO = "undo"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A history as it was before a turn. `turn_number` counts from 0."""

    id: UUID
    view: HistoryView
    turn_number: int
    description: str
    created_at: datetime


_ADD = insert(checkpoints)
_NEWEST = select(func.max(checkpoints.c.number)).where(
    checkpoints.c.thread_id == bindparam("thread"), checkpoints.c.kind == bindparam("of")
)
_TRIM = delete(checkpoints).where(
    checkpoints.c.thread_id == bindparam("thread"),
    or_(
        checkpoints.c.kind == Kind.REDO,
        and_(checkpoints.c.kind == Kind.UNDO, checkpoints.c.number <= bindparam("oldest")),
    ),
)


def before_turn(tx: Transaction, turn: Turn, view: HistoryView, now: datetime) -> None:
    """A turn has ended: one can go back to before it, and no longer forward to what an undo left."""
    number = _push(tx, turn.thread, Kind.UNDO, view, turn.number, f"before turn {turn.number + 1}", now)
    tx.connection.execute(_TRIM, {"thread": turn.thread, "oldest": number - MOST_UNDO})


def undo(tx: Transaction, thread: ThreadId, present: HistoryView, now: datetime) -> Checkpoint | None:
    """The newest point to go back to; the present becomes a point to go forward to. None if there is none."""
    found = _pop(tx, thread, Kind.UNDO)
    if found is not None:
        _push(tx, thread, Kind.REDO, present, found.turn_number, f"turn {found.turn_number + 1}", now)
    return found


def redo(tx: Transaction, thread: ThreadId, present: HistoryView, now: datetime) -> Checkpoint | None:
    """The newest point to go forward to; the present becomes a point to go back to again."""
    found = _pop(tx, thread, Kind.REDO)
    if found is not None:
        _push(tx, thread, Kind.UNDO, present, found.turn_number, f"before turn {found.turn_number + 1}", now)
    return found


def restore(tx: Transaction, thread: ThreadId, identifier: UUID) -> Checkpoint | None:
    """Go back to this point; later ones are forgotten. None if it is not a point of this thread to go back to."""
    row = (
        tx.connection.execute(
            select(checkpoints).where(
                checkpoints.c.id == identifier, checkpoints.c.thread_id == thread, checkpoints.c.kind == Kind.UNDO
            )
        )
        .mappings()
        .first()
    )
    if row is None:
        return None
    later = and_(checkpoints.c.kind == Kind.UNDO, checkpoints.c.number >= row["number"])
    tx.connection.execute(
        delete(checkpoints).where(checkpoints.c.thread_id == thread, or_(checkpoints.c.kind == Kind.REDO, later))
    )
    return _checkpoint(row)


def clear(tx: Transaction, thread: ThreadId) -> None:
    """Forget every point of a thread."""
    tx.connection.execute(delete(checkpoints).where(checkpoints.c.thread_id == thread))


def listing(tx: Transaction, thread: ThreadId, kind: Kind = Kind.UNDO) -> Sequence[Checkpoint]:
    """The points of a thread, the newest first."""
    rows = tx.connection.execute(
        select(checkpoints)
        .where(checkpoints.c.thread_id == thread, checkpoints.c.kind == kind)
        .order_by(checkpoints.c.number.desc())
    ).mappings()
    return [_checkpoint(row) for row in rows]


def _push(
    tx: Transaction, thread: ThreadId, kind: Kind, view: HistoryView, turn_number: int, description: str, now: datetime
) -> int:
    number = int(tx.connection.execute(_NEWEST, {"thread": thread, "of": kind}).scalar() or 0) + 1
    tx.connection.execute(
        _ADD,
        {
            "id": uuid4(),
            "thread_id": thread,
            "kind": kind,
            "number": number,
            "view": view.dump(),
            "turn_number": turn_number,
            "description": description,
            "created_at": now,
        },
    )
    return number


def _pop(tx: Transaction, thread: ThreadId, kind: Kind) -> Checkpoint | None:
    row = (
        tx.connection.execute(
            select(checkpoints)
            .where(checkpoints.c.thread_id == thread, checkpoints.c.kind == kind)
            .order_by(checkpoints.c.number.desc())
            .limit(1)
        )
        .mappings()
        .first()
    )
    if row is None:
        return None
    tx.connection.execute(delete(checkpoints).where(checkpoints.c.id == row["id"]))
    return _checkpoint(row)


def _checkpoint(row: RowMapping) -> Checkpoint:
    return Checkpoint(
        row["id"], HistoryView.load(row["view"]), row["turn_number"], row["description"], row["created_at"]
    )
