"""How messages stand by the store's rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from agent.model import ids
from agent.model.ids import TurnId
from agent.model.session import Turn, TurnState
from agent.store import conversations, inbox, outbox, turns
from agent.store.base import Transaction
from agent.store.blobs import Blob
from agent.store.inbox import Lane
from agent.store.open import open_store
from agent.store.sqlite import SqliteStore
from bot.webhook_desk import StoreDesk
from channels.message import ChatType, ConversationKey, IncomingMessage, OutgoingMessage
from channels.webhook import Acted, Open, Replied, Unknown, replies_to
from tests.support.builders import NOON, make_message
from tests.support.fake_clock import FakeClock

KEY = ConversationKey("webhook:caller", "webhook", "main")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


def message(message_id: str) -> IncomingMessage:
    made = make_message(channel="webhook", chat_id="main", user="caller", message_id=message_id)
    return made.model_copy(update={"reply_address": replies_to("main", message_id)})


def said(to: str, text: str, **more: object) -> OutgoingMessage:
    return OutgoingMessage(address=replies_to("main", to), text=text, **more)


async def test_message_is_unknown_then_open_then_replied(store: SqliteStore) -> None:
    desk, asked = StoreDesk(store, FakeClock()), message("1")
    assert await desk.standing(asked) == Unknown()

    def take(tx: Transaction) -> Turn:
        thread = conversations.resolve(tx, KEY, asked.replies_go_to, ChatType.PRIVATE, NOON)
        seq = inbox.append(tx, thread.id, Lane.TURN, asked, NOON)
        turn = Turn(ids.turn_id(thread.id, seq), thread.id, 0, TurnState.RUNNING, NOON)
        turns.begin(tx, thread, turn, "hello")
        inbox.take(tx, thread.id, turn.id, seq, seq)
        return turn

    turn = await store.write(take)
    assert await desk.standing(asked) == Open()

    answer = said("another that shares the turn", "hi", id=ids.reply_id(TurnId(turn.id), "answer"))
    await store.write(lambda tx: outbox.add(tx, answer, NOON))
    assert await desk.standing(asked) == Replied(answer)


async def test_command_is_answered_by_its_own_reply(store: SqliteStore) -> None:
    asked = message("1")

    def work(tx: Transaction) -> OutgoingMessage:
        thread = conversations.resolve(tx, KEY, asked.replies_go_to, ChatType.PRIVATE, NOON)
        seq = inbox.append(tx, thread.id, Lane.CONTROL, asked, NOON)
        inbox.finish_one(tx, thread.id, seq, NOON)
        answer = said("1", "help", id=ids.reply_id(thread.id, f"command {seq}"))
        outbox.add(tx, answer, NOON)
        return answer

    answer = await store.write(work)

    assert await StoreDesk(store, FakeClock()).standing(asked) == Replied(answer)


async def test_what_was_dealt_with_at_the_door_is_answered_by_what_was_said_to_it(store: SqliteStore) -> None:
    desk = StoreDesk(store, FakeClock())

    def note(tx: Transaction) -> None:
        for each in ("silent", "told"):
            inbox.note(tx, message(each).delivery_key, NOON)
        outbox.add(tx, said("told", "refused"), NOON)
        outbox.add(tx, said("other", "something else"), NOON)

    await store.write(note)

    assert await desk.standing(message("silent")) == Acted()
    told = await desk.standing(message("told"))
    assert isinstance(told, Replied)
    assert told.message.text == "refused"


async def test_files_are_kept_by_their_digest(store: SqliteStore) -> None:
    desk, file = StoreDesk(store, FakeClock()), Blob.of("a.txt", b"words")
    await desk.keep([file, file])

    assert await desk.read(file.file.digest) == b"words"
    assert await desk.read(uuid4().hex) is None
