"""Sessions, threads, which key leads to which thread, and what has been allowed for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping, bindparam, delete, func, select, tuple_, update

from agent.model import ids
from agent.model.approval import ConsentPlace
from agent.model.history import HistoryView
from agent.model.ids import OPERATOR, SessionId, ThreadId, UserId
from agent.model.job import JOB_PLACE
from agent.model.session import Thread, ThreadState
from agent.store import facts, routines
from agent.store.base import Transaction
from agent.store.codec import ADDRESS
from agent.store.sql import insert_ignore, upsert
from agent.store.tables import consents, conversations, inbox, prefixes, sessions, threads
from channels.message import Address, ChatType, ConversationKey

SEEN_EVERY = timedelta(minutes=1)
"""How stale a session's time of last use may become before it is written again."""

_FIND = (
    select(threads, sessions.c.last_seen_at)
    .join(conversations, conversations.c.thread_id == threads.c.id)
    .join(sessions, sessions.c.id == threads.c.session_id)
    .where(
        conversations.c.user_id == bindparam("user"),
        conversations.c.channel == bindparam("channel"),
        conversations.c.external_id == bindparam("external"),
    )
)
_GET = select(threads).where(threads.c.id == bindparam("thread"))
_SEEN = update(sessions).where(sessions.c.id == bindparam("session")).values(last_seen_at=bindparam("now"))
_CONSENT = select(consents.c.tool).where(
    consents.c.session_id == bindparam("session"), consents.c.place == bindparam("place")
)


def resolve(tx: Transaction, key: ConversationKey, address: Address, chat_type: ChatType, now: datetime) -> Thread:
    """The thread this key leads to, made on first sight. One transaction: two first messages make one thread."""
    row = (
        tx.connection.execute(_FIND, {"user": key.user_id, "channel": key.channel, "external": key.external_thread_id})
        .mappings()
        .first()
    )
    if row is None:
        return open_thread(tx, key, address, chat_type, now, generation=0)
    if now - row["last_seen_at"] > SEEN_EVERY:
        tx.connection.execute(_SEEN, {"session": row["session_id"], "now": now})
    return _thread(row)


def open_thread(
    tx: Transaction, key: ConversationKey, address: Address, chat_type: ChatType, now: datetime, *, generation: int
) -> Thread:
    """A new thread of this key, to which the key leads from now on."""
    thread = add_thread(tx, key, address, chat_type, now, generation=generation)
    bind(tx, key, thread.id, generation)
    return thread


def add_thread(
    tx: Transaction,
    key: ConversationKey,
    address: Address,
    chat_type: ChatType,
    now: datetime,
    *,
    generation: int = 0,
    model: str | None = None,
) -> Thread:
    """A thread of this key, to which no place leads; the one that is there if there is one.

    `model`: its own choice, in place of what new threads use.
    """
    session = ensure_session(tx, UserId(key.user_id), now)
    thread = ids.thread_id(key, generation)
    insert_ignore(
        tx,
        threads,
        {
            "id": thread,
            "session_id": session,
            "user_id": key.user_id,
            "channel": key.channel,
            "external_id": key.external_thread_id,
            "generation": generation,
            "chat_type": chat_type,
            "address": ADDRESS.dump_json(address).decode(),
            "state": ThreadState.IDLE,
            "model": model or facts.get(tx, DEFAULT_MODEL) or None,
            "created_at": now,
            "updated_at": now,
        },
    )
    found = get(tx, thread)
    assert found is not None
    return found


def bind(tx: Transaction, key: ConversationKey, thread: ThreadId, generation: int) -> None:
    """Let this key lead to `thread`."""
    upsert(
        tx,
        conversations,
        {
            "user_id": key.user_id,
            "channel": key.channel,
            "external_id": key.external_thread_id,
            "thread_id": thread,
            "generation": generation,
        },
    )


def newest_generation(tx: Transaction, key: ConversationKey) -> int:
    """The generation of the newest thread begun under this key."""
    found = tx.connection.execute(
        select(threads.c.generation)
        .where(
            threads.c.user_id == key.user_id,
            threads.c.channel == key.channel,
            threads.c.external_id == key.external_thread_id,
        )
        .order_by(threads.c.generation.desc())
        .limit(1)
    ).scalar()
    return int(found or 0)


def get(tx: Transaction, thread: ThreadId) -> Thread | None:
    """A thread by its id."""
    row = tx.connection.execute(_GET, {"thread": thread}).mappings().first()
    return None if row is None else _thread(row)


def address_of(tx: Transaction, thread: ThreadId) -> Address:
    """Where the thread's replies go."""
    body = tx.connection.execute(select(threads.c.address).where(threads.c.id == thread)).scalar_one()
    return ADDRESS.validate_json(body)


def threads_of(tx: Transaction, user: UserId, limit: int = 50) -> Sequence[Thread]:
    """A user's threads, the last used first; those of jobs are no conversations."""
    rows = tx.connection.execute(
        select(threads)
        .where(threads.c.user_id == user, threads.c.channel != JOB_PLACE)
        .order_by(threads.c.updated_at.desc())
        .limit(limit)
    ).mappings()
    return [_thread(row) for row in rows]


DEFAULT_MODEL = "default-model"
"""The fact that holds the model of threads begun from now on."""


def set_model(tx: Transaction, thread: ThreadId, model: str | None) -> None:
    """Let a thread use a model of its own; None for the settings'."""
    tx.connection.execute(update(threads).where(threads.c.id == thread).values(model=model))


def set_busy_mode(tx: Transaction, thread: ThreadId, mode: str | None) -> None:
    """What messages do while a turn of this thread runs; None for the settings' choice."""
    tx.connection.execute(update(threads).where(threads.c.id == thread).values(busy_mode=mode))


def current(tx: Transaction, key: ConversationKey) -> Thread | None:
    """The thread a key leads to, if there is one yet."""
    row = (
        tx.connection.execute(_FIND, {"user": key.user_id, "channel": key.channel, "external": key.external_thread_id})
        .mappings()
        .first()
    )
    return None if row is None else _thread(row)


def ensure_session(tx: Transaction, user: UserId, now: datetime) -> SessionId:
    """The session of a user, made on first sight."""
    session = ids.session_id(user)
    insert_ignore(tx, sessions, {"id": session, "user_id": user, "created_at": now, "last_seen_at": now})
    return session


@dataclass(frozen=True, slots=True)
class Prefix:
    """A thread's rendered prompt prefix and the stamp of the files it was rendered from."""

    stamp: str
    body: str


def prefix(tx: Transaction, thread: ThreadId) -> Prefix | None:
    """The prefix a thread was begun with."""
    row = tx.connection.execute(select(prefixes).where(prefixes.c.thread_id == thread)).first()
    return None if row is None else Prefix(row.stamp, row.body)


def keep_prefix(tx: Transaction, thread: ThreadId, value: Prefix) -> None:
    """Keep the prefix for the thread's later turns."""
    upsert(tx, prefixes, {"thread_id": thread, "stamp": value.stamp, "body": value.body})


# -- consents -----------------------------------------------------------------------------------------------------
def consented(tx: Transaction, session: SessionId, place: ConsentPlace) -> frozenset[str]:
    """Names of the tools that need not be asked again there."""
    return frozenset(tx.connection.execute(_CONSENT, {"session": session, "place": place.name}).scalars())


def consent(tx: Transaction, session: SessionId, tool: str, place: ConsentPlace, now: datetime) -> None:
    """Remember an "always"."""
    upsert(tx, consents, {"session_id": session, "tool": tool, "place": place.name, "granted_at": now})


def all_consents(tx: Transaction, session: SessionId) -> Sequence[tuple[str, ConsentPlace]]:
    """Everything a person allowed for good, by tool name."""
    rows = tx.connection.execute(
        select(consents.c.tool, consents.c.place).where(consents.c.session_id == session).order_by(consents.c.tool)
    )
    return [(row.tool, ConsentPlace(row.place)) for row in rows]


def revoke(tx: Transaction, session: SessionId, tool: str | None) -> int:
    """Take back every "always" for a tool, or all of them; tells how many there were."""
    statement = delete(consents).where(consents.c.session_id == session)
    if tool is not None:
        statement = statement.where(consents.c.tool == tool)
    return tx.connection.execute(statement).rowcount


def revoke_everywhere(tx: Transaction, tool: str) -> None:
    """Take back every "always" that anybody gave for a tool: it has become another one."""
    tx.connection.execute(delete(consents).where(consents.c.tool == tool))


# -- a Telegram group that became a supergroup ---------------------------------------------------------------------
def move_chat(tx: Transaction, channel: str, old_chat: str, new_chat: str) -> int:
    """Let everything of a chat belong to its new id; doing it twice changes nothing. Tells how many threads moved.

    Where somebody has begun a conversation under the new id, their place leads there; the old one can be resumed.
    """
    moved = 0
    facts.put(tx, _former(channel, new_chat), old_chat)
    rows = tx.connection.execute(
        select(threads.c.id, threads.c.address, threads.c.external_id).where(threads.c.channel == channel)
    ).all()
    for row in rows:
        address = ADDRESS.validate_json(row.address)
        if address.chat_id != old_chat:
            continue
        external = new_chat + row.external_id[len(old_chat) :]
        renewed = address.model_copy(update={"chat_id": new_chat})
        values: dict[str, Any] = {"external_id": external, "address": ADDRESS.dump_json(renewed).decode()}
        tx.connection.execute(update(threads).where(threads.c.id == row.id).values(values))
        _move_places(tx, channel, row.external_id, external)
        moved += 1
    _move_consents(tx, f"{channel}:{old_chat}", f"{channel}:{new_chat}")
    routines.move_chat(tx, channel, old_chat, new_chat)
    return moved


def former_chat(tx: Transaction, channel: str, chat: str) -> str | None:
    """The id that a chat had before it moved, if it did."""
    return facts.get(tx, _former(channel, chat))


def _former(channel: str, chat: str) -> str:
    return f"former-chat:{channel}:{chat}"


def _move_places(tx: Transaction, channel: str, old: str, new: str) -> None:
    here = conversations.c.channel == channel
    taken = select(conversations.c.user_id).where(here, conversations.c.external_id == new)
    is_old = conversations.c.external_id == old
    tx.connection.execute(delete(conversations).where(here, is_old, conversations.c.user_id.in_(taken)))
    tx.connection.execute(update(conversations).where(here, is_old).values(external_id=new))


def _move_consents(tx: Transaction, old: str, new: str) -> None:
    taken = select(consents.c.session_id, consents.c.tool).where(consents.c.place == new)
    is_old = consents.c.place == old
    tx.connection.execute(delete(consents).where(is_old, tuple_(consents.c.session_id, consents.c.tool).in_(taken)))
    tx.connection.execute(update(consents).where(is_old).values(place=new))


def _thread(row: RowMapping) -> Thread:
    return Thread(
        id=ThreadId(row["id"]),
        session=SessionId(row["session_id"]),
        user=UserId(row["user_id"]),
        key=ConversationKey(row["user_id"], row["channel"], row["external_id"]),
        generation=row["generation"],
        chat_type=ChatType(row["chat_type"]),
        state=ThreadState(row["state"]),
        epoch=row["epoch"],
        turn_count=row["turn_count"],
        entry_count=row["entry_count"],
        view=HistoryView.load(row["view"]),
        model=row["model"],
        busy_mode=row["busy_mode"],
        title=row["title"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


# -- sessions nobody uses any more ---------------------------------------------------------------------------------
def prune(tx: Transaction, unused_since: datetime) -> Sequence[ThreadId]:
    """End sessions that nobody has used since then, and give the threads that may be forgotten.

    A session with a thread that runs or waits, or with a message that nobody has handled, is left alone. What ends is
    what was allowed for good; conversations stay and come back when their person does.
    """
    busy = select(threads.c.session_id).where(
        threads.c.state.in_((ThreadState.PROCESSING, ThreadState.AWAITING_APPROVAL))
    )
    waiting = (
        select(threads.c.session_id).join(inbox, inbox.c.thread_id == threads.c.id).where(inbox.c.handled_at.is_(None))
    )
    ended = list(
        tx.connection.execute(
            select(sessions.c.id).where(
                sessions.c.last_seen_at < unused_since, sessions.c.id.not_in(busy), sessions.c.id.not_in(waiting)
            )
        ).scalars()
    )
    tx.connection.execute(delete(consents).where(consents.c.session_id.in_(ended)))
    idle = tx.connection.execute(select(threads.c.id).where(threads.c.session_id.in_(ended)))
    return [ThreadId(thread) for thread in idle.scalars()]


def began_at(tx: Transaction, session: SessionId) -> datetime:
    """When a session was made."""
    began: datetime = tx.connection.execute(select(sessions.c.created_at).where(sessions.c.id == session)).scalar_one()
    return began


def fell_idle(tx: Transaction, since: datetime, until: datetime) -> Sequence[tuple[UserId, SessionId]]:
    """The sessions whose last use was from `since` on and before `until`."""
    rows = tx.connection.execute(
        select(sessions.c.user_id, sessions.c.id).where(
            sessions.c.last_seen_at >= since, sessions.c.last_seen_at < until
        )
    )
    return [(UserId(row.user_id), SessionId(row.id)) for row in rows]


def people(tx: Transaction) -> Sequence[UserId]:
    """Everybody who ever talked to the bot but the operator."""
    rows = tx.connection.execute(
        select(sessions.c.user_id).where(sessions.c.user_id != OPERATOR).order_by(sessions.c.user_id)
    )
    return [UserId(user) for user in rows.scalars()]


def count_sessions(tx: Transaction, used_since: datetime) -> int:
    """How many sessions are in use."""
    return tx.connection.execute(
        select(func.count()).select_from(sessions).where(sessions.c.last_seen_at >= used_since)
    ).scalar_one()
