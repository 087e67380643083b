"""The outbox: what is to be said, until the platform has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import RowMapping, bindparam, delete, func, insert, select, update

from agent.model.ids import ApprovalId
from agent.store import blobs
from agent.store.base import Transaction
from agent.store.codec import OUTGOING
from agent.store.sql import upsert
from agent.store.tables import drafts, outbox
from channels.message import Address, OutgoingMessage


class SendState(StrEnum):
    """How far a message has come. `SENDING` at a start means: a crash cut the sending off."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message on its way. `sent` are the platform ids of the parts that have arrived."""

    number: int
    message: OutgoingMessage
    state: SendState
    attempts: int
    not_before: datetime | None
    sent: tuple[str, ...]


_ADD = insert(outbox).returning(outbox.c.number)
_MARK = (
    update(outbox)
    .where(outbox.c.number == bindparam("key"), outbox.c.finished_at.is_(None))
    .values(
        state=bindparam("new_state"),
        attempts=bindparam("new_attempts"),
        not_before=bindparam("new_time"),
        sent=bindparam("new_sent"),
    )
)
_FINISH = (
    update(outbox)
    .where(outbox.c.number == bindparam("key"))
    .values(
        state=bindparam("new_state"),
        sent=bindparam("new_sent"),
        error=bindparam("new_error"),
        finished_at=bindparam("now"),
    )
)


def add(tx: Transaction, message: OutgoingMessage, now: datetime, turn: UUID | None = None) -> Parcel:
    """Put a message into the outbox; its id is the idempotency key, so the same one cannot be added twice.

    The contents of its files are there already. `turn`: a tool sends it during this turn.
    """
    number = tx.connection.execute(
        _ADD,
        {
            "id": message.id,
            "channel": message.address.channel,
            "chat_id": message.address.chat_id,
            "body": OUTGOING.dump_json(message, exclude_defaults=True).decode(),
            "approval_id": UUID(message.approval_id) if message.approval_id else None,
            "state": SendState.PENDING,
            "created_at": now,
            "turn_id": turn,
        },
    ).scalar_one()
    blobs.attach(tx, int(number), [file.digest for file in message.files])
    return Parcel(int(number), message, SendState.PENDING, 0, None, ())


def is_there(tx: Transaction, message: UUID) -> bool:
    """Whether a message of this id was ever put into the outbox."""
    return tx.connection.execute(select(outbox.c.number).where(outbox.c.id == message)).first() is not None


def get(tx: Transaction, message: UUID) -> OutgoingMessage | None:
    """A message by its id, sent or not."""
    body = tx.connection.execute(select(outbox.c.body).where(outbox.c.id == message)).scalar()
    return None if body is None else OUTGOING.validate_json(body)


def newest_at(tx: Transaction, address: Address, among: int = 200) -> OutgoingMessage | None:
    """The newest message to exactly this address, if it is one of the last `among` messages of all."""
    last = tx.connection.execute(select(func.max(outbox.c.number))).scalar() or 0
    rows = tx.connection.execute(
        select(outbox.c.body)
        .where(outbox.c.number > last - among, outbox.c.channel == address.channel, outbox.c.chat_id == address.chat_id)
        .order_by(outbox.c.number.desc())
    )
    found = (OUTGOING.validate_json(body) for body in rows.scalars())
    return next((message for message in found if message.address == address), None)


def platform_id_of(tx: Transaction, message: UUID) -> str | None:
    """The platform's id of a message that has arrived, of its last part; None for one that has not."""
    sent = tx.connection.execute(select(outbox.c.sent).where(outbox.c.id == message)).scalar()
    parts = json.loads(sent) if sent else []
    return parts[-1] if parts else None


def sent_during(tx: Transaction, turns: Sequence[UUID], channel: str) -> Mapping[UUID, Sequence[OutgoingMessage]]:
    """What tools sent to a channel during these turns, in order."""
    rows = tx.connection.execute(
        select(outbox.c.turn_id, outbox.c.body)
        .where(outbox.c.turn_id.in_(turns), outbox.c.channel == channel)
        .order_by(outbox.c.number)
    )
    found: dict[UUID, list[OutgoingMessage]] = {}
    for turn, body in rows:
        found.setdefault(turn, []).append(OUTGOING.validate_json(body))
    return found


def mark(
    tx: Transaction,
    parcel: Parcel,
    state: SendState,
    *,
    not_before: datetime | None = None,
    attempts: int | None = None,
) -> None:
    """Note how far a message is."""
    tx.connection.execute(
        _MARK,
        {
            "key": parcel.number,
            "new_state": state,
            "new_attempts": parcel.attempts if attempts is None else attempts,
            "new_time": not_before,
            "new_sent": json.dumps(parcel.sent),
        },
    )


def finish(
    tx: Transaction, parcel: Parcel, state: SendState, sent: Sequence[str], now: datetime, error: str | None = None
) -> None:
    """A message has arrived, or never will."""
    tx.connection.execute(
        _FINISH,
        {
            "key": parcel.number,
            "new_state": state,
            "new_sent": json.dumps(list(sent)),
            "new_error": error,
            "now": now,
        },
    )


def replace(tx: Transaction, parcel: Parcel, message: OutgoingMessage) -> None:
    """Send this instead: the same message at a new address."""
    tx.connection.execute(
        update(outbox)
        .where(outbox.c.number == parcel.number)
        .values(chat_id=message.address.chat_id, body=OUTGOING.dump_json(message, exclude_defaults=True).decode())
    )


def unfinished(tx: Transaction) -> Sequence[Parcel]:
    """Everything that has not arrived, in order: what a start has to send."""
    rows = tx.connection.execute(
        select(outbox).where(outbox.c.finished_at.is_(None)).order_by(outbox.c.number)
    ).mappings()
    return [_parcel(row) for row in rows]


def prompts_of(tx: Transaction, approval: ApprovalId) -> Sequence[Parcel]:
    """Every message that asks this question."""
    rows = tx.connection.execute(
        select(outbox).where(outbox.c.approval_id == approval).order_by(outbox.c.number)
    ).mappings()
    return [_parcel(row) for row in rows]


# -- drafts --------------------------------------------------------------------------------------------------------
def keep_draft(tx: Transaction, reply: UUID, platform_id: str, now: datetime) -> None:
    """Remember the platform's id of a draft, so that the answer replaces it after a restart too."""
    upsert(tx, drafts, {"reply_id": reply, "platform_id": platform_id, "at": now})


def take_draft(tx: Transaction, reply: UUID) -> str | None:
    """The platform's id of the draft of this reply, forgotten by asking."""
    return tx.connection.execute(
        delete(drafts).where(drafts.c.reply_id == reply).returning(drafts.c.platform_id)
    ).scalar()


def _parcel(row: RowMapping) -> Parcel:
    return Parcel(
        row["number"],
        OUTGOING.validate_json(row["body"]),
        SendState(row["state"]),
        row["attempts"],
        row["not_before"],
        tuple(json.loads(row["sent"])),
    )
