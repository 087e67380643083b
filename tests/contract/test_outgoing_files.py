"""The contents of files that go out: kept with their message, and no longer than they are needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from agent.store import blobs, outbox
from agent.store.base import Transaction
from agent.store.blobs import KEPT_FOR, SHOWN_FOR, Blob
from agent.store.open import DATABASE_NAME, create, migrate, open_store
from agent.store.outbox import Parcel, SendState
from agent.store.sqlite import SqliteStore, writer_engine
from channels.message import Address, OutgoingMessage
from tests.support.builders import NOON
from tests.support.parts import note

SECOND = timedelta(seconds=1)
TURN = UUID(int=5)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


def post(tx: Transaction, *files: Blob, channel: str = "telegram", at: datetime = NOON) -> Parcel:
    message = OutgoingMessage(
        address=Address(channel=channel, chat_id="1"), text="hi", files=tuple(each.file for each in files)
    )
    blobs.put(tx, files, at)
    return outbox.add(tx, message, at, TURN)


async def is_there(store: SqliteStore, blob: Blob) -> bool:
    return await store.read(partial(blobs.get, digest=blob.file.digest)) == blob.data


async def prune(store: SqliteStore, now: datetime) -> int:
    return await store.write(partial(blobs.prune, now=now))


async def test_same_content_twice_is_one_row(store: SqliteStore) -> None:
    one, two = note("one.txt"), note("two.txt")
    await store.write(lambda tx: post(tx, one, two))
    await store.write(lambda tx: blobs.put(tx, [one], NOON))

    rows = await store.read(lambda tx: tx.connection.exec_driver_sql("SELECT count(*) FROM blobs").scalar())
    assert rows == 1
    assert await is_there(store, one)


async def test_message_without_its_content_is_refused(store: SqliteStore) -> None:
    message = OutgoingMessage(address=Address(channel="web", chat_id="1"), text="", files=(note().file,))

    with pytest.raises(Exception, match="FOREIGN KEY"):
        await store.write(lambda tx: outbox.add(tx, message, NOON))


async def test_content_of_a_message_on_its_way_stays_however_old(store: SqliteStore) -> None:
    file = note()
    await store.write(lambda tx: post(tx, file))

    assert await prune(store, NOON + 10 * SHOWN_FOR) == 0
    assert await is_there(store, file)


async def test_content_goes_a_day_after_it_was_written_once_it_is_sent(store: SqliteStore) -> None:
    file = note()
    parcel = await store.write(lambda tx: post(tx, file))
    await store.write(lambda tx: outbox.finish(tx, parcel, SendState.SENT, ["1"], NOON))

    assert await prune(store, NOON + KEPT_FOR) == 0
    assert await prune(store, NOON + KEPT_FOR + SECOND) == 1
    assert not await is_there(store, file)


async def test_content_of_the_page_stays_for_its_history(store: SqliteStore) -> None:
    file = note()
    parcel = await store.write(lambda tx: post(tx, file, channel="web"))
    await store.write(lambda tx: outbox.finish(tx, parcel, SendState.SENT, ["1"], NOON))

    assert await prune(store, NOON + KEPT_FOR + SECOND) == 0
    assert await prune(store, NOON + SHOWN_FOR + SECOND) == 1


async def test_content_that_another_message_still_needs_stays(store: SqliteStore) -> None:
    file = note()
    sent = await store.write(lambda tx: post(tx, file))
    await store.write(lambda tx: post(tx, file))
    await store.write(lambda tx: outbox.finish(tx, sent, SendState.SENT, ["1"], NOON))

    assert await prune(store, NOON + 2 * KEPT_FOR) == 0


async def test_what_was_sent_during_a_turn_is_found_in_order(store: SqliteStore) -> None:
    first = await store.write(lambda tx: post(tx, note(), channel="web"))
    second = await store.write(lambda tx: post(tx, channel="web"))
    await store.write(lambda tx: post(tx))

    found = await store.read(lambda tx: outbox.sent_during(tx, [TURN, UUID(int=6)], "web"))
    assert found == {TURN: [first.message, second.message]}


def test_previous_release_writes_into_the_new_schema(tmp_path: Path) -> None:
    """It names its columns, and knows neither the new one nor the new tables."""
    path = tmp_path / DATABASE_NAME
    migrate(path)
    engine = writer_engine(path)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO outbox (id, channel, chat_id, body, state, created_at) "
            """VALUES ('00000000000040008000000000000001', 'web', 'main',
            '{"address": {"channel": "web", "chat_id": "main"}, "text": "hi"}', 'pending', 1)"""
        )
        [left] = outbox.unfinished(Transaction(connection))
    engine.dispose()

    assert left.message.text == "hi"
    assert left.message.files == ()


def test_questions_of_the_page_find_their_rows_by_an_index(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    create(path)
    engine = writer_engine(path)
    plans = []
    with engine.connect() as connection:
        for question in (
            "SELECT body FROM outbox WHERE turn_id IN ('a', 'b') AND channel = 'web'",
            "SELECT body FROM outbox JOIN outbox_files f ON f.number = outbox.number WHERE f.digest = 'x'",
            "SELECT digest FROM blobs WHERE created_at < 5",
        ):
            plans += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {question}")]
    engine.dispose()

    assert not [plan for plan in plans if plan.startswith("SCAN")]
