"""Credentials, encrypted by their owner, and threads whose next message is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import RowMapping, bindparam, delete, select

from agent.model.ids import ThreadId, UserId
from agent.store.base import Transaction
from agent.store.sql import upsert
from agent.store.tables import credentials, pending_auths

AUTH_TTL = timedelta(seconds=300)
"""How long a thread waits for a credential."""

_ONE = select(credentials).where(credentials.c.user_id == bindparam("user"), credentials.c.name == bindparam("name"))
_EXISTS = select(credentials.c.name).where(
    credentials.c.user_id == bindparam("user"), credentials.c.name == bindparam("name")
)
_NAMES = select(credentials.c.name).where(credentials.c.user_id == bindparam("user")).order_by(credentials.c.name)
_AWAITED = select(pending_auths).where(pending_auths.c.thread_id == bindparam("thread"))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a credential is for. Host patterns, parted by spaces, come with a service; without one it goes nowhere."""

    provider: str | None = None
    host_pattern: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SealedCredential:
    """A row. Nothing of it is secret as long as the master key is."""

    user: UserId
    name: str
    terms: Terms
    ciphertext: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PendingAuth:
    """A thread's next message is the credential of this name, for this user."""

    thread: ThreadId
    name: str
    user: UserId
    created_at: datetime
    expires_at: datetime

    def is_expired(self, now: datetime) -> bool:
        """Whether it is too late. What comes then may still be a secret: it must not become chat."""
        return now >= self.expires_at


def put(tx: Transaction, sealed: SealedCredential, now: datetime) -> None:
    """Keep a credential in place of any of that name."""
    since = tx.connection.execute(_ONE, {"user": sealed.user, "name": sealed.name}).mappings().first()
    row = {
        "user_id": sealed.user,
        "name": sealed.name,
        "ciphertext": sealed.ciphertext,
        "salt": sealed.salt,
        "nonce": sealed.nonce,
        "provider": sealed.terms.provider,
        "host_pattern": sealed.terms.host_pattern,
        "expires_at": sealed.terms.expires_at,
        "created_at": now if since is None else since["created_at"],
        "updated_at": now,
    }
    upsert(tx, credentials, row)


def get(tx: Transaction, user: UserId, name: str) -> SealedCredential | None:
    """A person's credential, still encrypted."""
    row = tx.connection.execute(_ONE, {"user": user, "name": name}).mappings().first()
    return None if row is None else _sealed(row)


def exists(tx: Transaction, user: UserId, name: str) -> bool:
    """Whether a person has a credential of this name, expired or not."""
    return tx.connection.execute(_EXISTS, {"user": user, "name": name}).first() is not None


def names(tx: Transaction, user: UserId) -> tuple[str, ...]:
    """The names of a person's credentials, in order."""
    return tuple(tx.connection.execute(_NAMES, {"user": user}).scalars())


def remove(tx: Transaction, user: UserId, name: str) -> bool:
    """Forget a credential; False if there is none of that name."""
    gone = tx.connection.execute(
        delete(credentials).where(credentials.c.user_id == user, credentials.c.name == name)
    ).rowcount
    return gone > 0


def await_secret(tx: Transaction, thread: ThreadId, name: str, user: UserId, now: datetime) -> None:
    """From now on the thread's next message is a credential, for `AUTH_TTL`. An earlier request gives way."""
    row = {"thread_id": thread, "name": name, "user_id": user, "created_at": now, "expires_at": now + AUTH_TTL}
    upsert(tx, pending_auths, row)


def awaited(tx: Transaction, thread: ThreadId) -> PendingAuth | None:
    """What the thread waits for, expired or not."""
    row = tx.connection.execute(_AWAITED, {"thread": thread}).mappings().first()
    if row is None:
        return None
    return PendingAuth(
        ThreadId(row["thread_id"]), row["name"], UserId(row["user_id"]), row["created_at"], row["expires_at"]
    )


def cancel(tx: Transaction, thread: ThreadId) -> bool:
    """End the wait; False if the thread was not waiting."""
    return tx.connection.execute(delete(pending_auths).where(pending_auths.c.thread_id == thread)).rowcount > 0


def _sealed(row: RowMapping) -> SealedCredential:
    return SealedCredential(
        user=UserId(row["user_id"]),
        name=row["name"],
        terms=Terms(row["provider"], row["host_pattern"], row["expires_at"]),
        ciphertext=row["ciphertext"],
        salt=row["salt"],
        nonce=row["nonce"],
    )
