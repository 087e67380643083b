"""A thread with a running turn, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine

from agent.model import ids
from agent.model.approval import ConsentPlace, PendingApproval
from agent.model.ids import UserId
from agent.model.session import Thread, Turn, TurnState
from agent.store import conversations, turns
from agent.store.base import Transaction
from agent.store.open import create
from agent.store.sqlite import writer_engine
from channels.message import Address, ChatType, ConversationKey
from tests.support.builders import NOON

HERE = Address(channel="telegram", chat_id="5")
KEY = ConversationKey("telegram:5", "telegram", "5")
ASKER = UserId("telegram:5")


@contextmanager
def database(folder: Path) -> Iterator[Engine]:
    """An empty database."""
    create(folder / "rows.db")
    engine = writer_engine(folder / "rows.db")
    try:
        yield engine
    finally:
        engine.dispose()


def resolve(tx: Transaction) -> Thread:
    return conversations.resolve(tx, KEY, HERE, ChatType.PRIVATE, NOON)


def begin(tx: Transaction, seq: int = 1) -> tuple[Thread, Turn]:
    """A claimed thread and its new turn."""
    resolve(tx)
    thread = turns.advance(tx, ids.thread_id(KEY, 0))
    assert thread is not None
    turn = Turn(ids.turn_id(thread.id, seq), thread.id, thread.turn_count, TurnState.RUNNING, NOON)
    turns.begin(tx, thread, turn, "please")
    return thread, turn


def question(thread: Thread, turn: Turn, call_id: str = "c1") -> PendingApproval:
    return PendingApproval(
        id=ids.approval_id(turn.id, call_id),
        thread=thread.id,
        turn=turn.id,
        call_id=call_id,
        tool="shell",
        description="Run a command.",
        display={"command": "ls", "n": [1, None]},
        requested_by=ASKER,
        channel="telegram",
        place=ConsentPlace("private"),
        may_be_always=True,
        created_at=NOON,
        expires_at=NOON + timedelta(hours=24),
    )
