"""The bytes of files that go out with messages, by their SHA-256 digest: the same content is one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, or_, select

from agent.store.base import Transaction
from agent.store.codec import OUTGOING
from agent.store.sql import insert_ignore, upsert
from agent.store.tables import blobs, outbox, outbox_files
from channels.files import describe
from channels.message import OutgoingFile, OutgoingMessage

KEPT_FOR = timedelta(days=1)
"""How long a file stays after it was written, however soon it was sent."""
SHOWN_FOR = timedelta(days=30)
"""How long a file of a message on `SHOWS_AGAIN` stays: the page fetches it whenever the conversation is opened."""
SHOWS_AGAIN = "web"


@dataclass(frozen=True, slots=True)
class Blob:
    """A file with its content."""

    file: OutgoingFile
    data: bytes

    @classmethod
    def of(cls, filename: str, data: bytes) -> Blob:
        """A file of this name. Hashes the content: a large one is made beside the event loop."""
        return cls(describe(filename, data), data)


def put(tx: Transaction, files: Sequence[Blob], now: datetime) -> None:
    """Keep contents; one that is there already is as if it was written now."""
    for each in files:
        upsert(tx, blobs, {"digest": each.file.digest, "data": each.data, "created_at": now})


def attach(tx: Transaction, number: int, digests: Sequence[str]) -> None:
    """Note which contents a message of the outbox needs."""
    if digests:
        insert_ignore(tx, outbox_files, [{"digest": digest, "number": number} for digest in dict.fromkeys(digests)])


def get(tx: Transaction, digest: str) -> bytes | None:
    """The content, or None where there is none any more."""
    return tx.connection.execute(select(blobs.c.data).where(blobs.c.digest == digest)).scalar()


def messages_with(tx: Transaction, digest: str, channel: str) -> Sequence[OutgoingMessage]:
    """The messages of a channel that carry this content, newest first."""
    rows = tx.connection.execute(
        select(outbox.c.body)
        .join(outbox_files, outbox_files.c.number == outbox.c.number)
        .where(outbox_files.c.digest == digest, outbox.c.channel == channel)
        .order_by(outbox.c.number.desc())
    )
    return [OUTGOING.validate_json(body) for body in rows.scalars()]


def prune(tx: Transaction, now: datetime) -> int:
    """Remove contents that are old enough and that no message needs any more, and give their number."""
    needed = exists().where(
        outbox_files.c.digest == blobs.c.digest,
        outbox_files.c.number == outbox.c.number,
        or_(
            outbox.c.finished_at.is_(None),
            (outbox.c.channel == SHOWS_AGAIN) & (outbox.c.created_at >= now - SHOWN_FOR),
        ),
    )
    old = select(blobs.c.digest).where(blobs.c.created_at < now - KEPT_FOR, ~needed)
    digests = list(tx.connection.execute(old).scalars())
    for digest in digests:
        tx.connection.execute(delete(outbox_files).where(outbox_files.c.digest == digest))
        tx.connection.execute(delete(blobs).where(blobs.c.digest == digest))
    return len(digests)
