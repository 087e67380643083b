"""The inbox: each delivery of a platform once, in the order of its thread, until it is handled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import bindparam, insert, select, update

from agent.model.ids import ThreadId, TurnId
from agent.store.base import Transaction
from agent.store.codec import INCOMING
from agent.store.tables import inbox, threads
from channels.message import IncomingMessage


class Lane(StrEnum):
    """`TURN` messages wait for each other; `CONTROL` ones are answered beside a running turn."""

    TURN = "turn"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that nobody has handled yet."""

    seq: int
    message: IncomingMessage


_SEEN = select(inbox.c.delivery_key).where(inbox.c.delivery_key == bindparam("key"))
_NEXT = (
    update(threads)
    .where(threads.c.id == bindparam("thread"))
    .values(next_seq=threads.c.next_seq + 1)
    .returning(threads.c.next_seq)
)
_ADD = insert(inbox)
_OPEN = (
    select(inbox.c.seq, inbox.c.body)
    .where(
        inbox.c.thread_id == bindparam("thread"),
        inbox.c.lane == bindparam("lane"),
        inbox.c.handled_at.is_(None),
        inbox.c.turn_id.is_(None),
    )
    .order_by(inbox.c.seq)
    .limit(bindparam("count"))
)
_TAKE = (
    update(inbox)
    .where(
        inbox.c.thread_id == bindparam("thread"),
        inbox.c.seq >= bindparam("first"),
        inbox.c.seq <= bindparam("last"),
        inbox.c.lane == Lane.TURN,
        inbox.c.handled_at.is_(None),
    )
    .values(turn_id=bindparam("turn"))
)
_OF_TURN = select(inbox.c.seq, inbox.c.body).where(inbox.c.turn_id == bindparam("turn")).order_by(inbox.c.seq)
_FINISH_TURN = update(inbox).where(inbox.c.turn_id == bindparam("turn")).values(handled_at=bindparam("now"))
_FINISH_ONE = (
    update(inbox)
    .where(inbox.c.thread_id == bindparam("thread"), inbox.c.seq == bindparam("number"), inbox.c.handled_at.is_(None))
    .values(handled_at=bindparam("now"))
)
_DROP = (
    update(inbox)
    .where(
        inbox.c.thread_id == bindparam("thread"),
        inbox.c.lane == Lane.TURN,
        inbox.c.handled_at.is_(None),
        inbox.c.turn_id.is_(None),
    )
    .values(handled_at=bindparam("now"))
)


def is_seen(tx: Transaction, delivery_key: str) -> bool:
    """Whether this delivery was taken before."""
    return tx.connection.execute(_SEEN, {"key": delivery_key}).first() is not None


def note(tx: Transaction, delivery_key: str, now: datetime) -> None:
    """Keep the key of a delivery that needs no handling, and nothing of its text."""
    tx.connection.execute(_ADD, {"delivery_key": delivery_key, "received_at": now, "handled_at": now})


def append(tx: Transaction, thread: ThreadId, lane: Lane, message: IncomingMessage, now: datetime) -> int:
    """Put a message at the end of its lane; gives its sequence number."""
    seq = int(tx.connection.execute(_NEXT, {"thread": thread}).scalar_one())
    tx.connection.execute(
        _ADD,
        {
            "delivery_key": message.delivery_key,
            "thread_id": thread,
            "lane": lane,
            "seq": seq,
            "body": INCOMING.dump_json(message, exclude_defaults=True).decode(),
            "received_at": now,
        },
    )
    return seq


@dataclass(frozen=True, slots=True)
class Delivered:
    """How a delivery stands. `waits`: nobody has taken it. `is_open`: a turn works on it.

    `seq`: its number in its lane, where it has one. `turn`: the turn that has taken it.
    """

    thread: ThreadId | None
    lane: Lane | None
    waits: bool
    is_open: bool
    seq: int | None
    turn: TurnId | None


def find(tx: Transaction, delivery_key: str) -> Delivered | None:
    """A delivery by its key."""
    row = tx.connection.execute(select(inbox).where(inbox.c.delivery_key == delivery_key)).mappings().first()
    if row is None:
        return None
    unhandled = row["handled_at"] is None
    return Delivered(
        thread=None if row["thread_id"] is None else ThreadId(row["thread_id"]),
        lane=None if row["lane"] is None else Lane(row["lane"]),
        waits=unhandled and row["turn_id"] is None,
        is_open=unhandled and row["turn_id"] is not None,
        seq=row["seq"],
        turn=None if row["turn_id"] is None else TurnId(row["turn_id"]),
    )


def replace(tx: Transaction, edited: IncomingMessage) -> None:
    """Let a message that waits say what its edit says."""
    metadata = edited.metadata.model_copy(update={"is_edit": False})
    body = INCOMING.dump_json(edited.model_copy(update={"metadata": metadata}), exclude_defaults=True).decode()
    tx.connection.execute(update(inbox).where(inbox.c.delivery_key == edited.original_key).values(body=body))


def is_news(tx: Transaction, edited: IncomingMessage) -> bool:
    """Whether an edit says anything else than its message does. Platforms report changes of other things as edits too.

    After an edit that did, going back to the first words is news as well.
    """
    is_edit = inbox.c.delivery_key.startswith(f"{edited.original_key}:edit:", autoescape=True)
    if tx.connection.execute(select(inbox.c.delivery_key).where(is_edit)).first() is not None:
        return True
    body = tx.connection.execute(select(inbox.c.body).where(inbox.c.delivery_key == edited.original_key)).scalar()
    return body is None or _said(INCOMING.validate_json(body)) != _said(edited)


def waiting(tx: Transaction, thread: ThreadId, lane: Lane, count: int = 20) -> Sequence[Waiting]:
    """The oldest messages that nobody has taken, at most `count`."""
    rows = tx.connection.execute(_OPEN, {"thread": thread, "lane": lane, "count": count})
    return [Waiting(row.seq, INCOMING.validate_json(row.body)) for row in rows]


def take(tx: Transaction, thread: ThreadId, turn: TurnId, first: int, last: int) -> None:
    """Let the turn own the messages `first` to `last` of the turn lane."""
    tx.connection.execute(_TAKE, {"thread": thread, "turn": turn, "first": first, "last": last})


def of_turn(tx: Transaction, turn: TurnId) -> Sequence[Waiting]:
    """The messages a turn owns, in order."""
    return [
        Waiting(row.seq, INCOMING.validate_json(row.body)) for row in tx.connection.execute(_OF_TURN, {"turn": turn})
    ]


def finish_turn(tx: Transaction, turn: UUID, now: datetime) -> None:
    """The messages of a turn are handled."""
    tx.connection.execute(_FINISH_TURN, {"turn": turn, "now": now})


def finish_one(tx: Transaction, thread: ThreadId, seq: int, now: datetime) -> bool:
    """One message is handled; False if it was before."""
    return tx.connection.execute(_FINISH_ONE, {"thread": thread, "number": seq, "now": now}).rowcount > 0


def drop_waiting(tx: Transaction, thread: ThreadId, now: datetime) -> int:
    """Give up the messages that wait for a turn; tells how many."""
    return tx.connection.execute(_DROP, {"thread": thread, "now": now}).rowcount


def lanes_with_work(tx: Transaction) -> Sequence[tuple[ThreadId, Lane]]:
    """Every lane that has an unhandled message: what a start has to wake."""
    rows = tx.connection.execute(
        select(inbox.c.thread_id, inbox.c.lane)
        .where(inbox.c.handled_at.is_(None), inbox.c.thread_id.is_not(None))
        .distinct()
    )
    return [(ThreadId(row.thread_id), Lane(row.lane)) for row in rows]


def _said(message: IncomingMessage) -> tuple[str, tuple[str, ...]]:
    """The words and files of a message."""
    return message.text, tuple(attachment.id for attachment in message.attachments)
