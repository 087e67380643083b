"""The gateway between a crash and the next try: what a channel finds out is kept, and nothing arrives twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agent.store import blobs, outbox
from agent.store.base import Transaction
from agent.store.blobs import KEPT_FOR
from agent.store.open import open_store
from agent.store.outbox import Parcel, SendState
from agent.store.sqlite import SqliteStore
from bot.gateway import FIRST_WAIT, PRUNE_EVERY, Gateway
from channels.base import Delivery, Uncertain
from channels.errors import Rejected, Unavailable
from channels.message import Address, OutgoingMessage
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.parts import note

PLACE = Address(channel="telegram", chat_id="7")


class Finder:
    """A channel of messages with three parts, on which a message can be looked up: `chat` is what it shows."""

    def __init__(self, *chat: str) -> None:
        self.inner = MemoryChannel("telegram")
        self.chat = list(chat)
        self.breaks_after: int | None = None
        self.name = "telegram"

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        for number in range(len(delivery.sent), 3):
            self.chat.append(f"part {number}")
            if self.breaks_after == number:
                self.breaks_after = None
                raise Unavailable(self.name, "no answer", maybe_sent=True)
            if number < 2:
                await delivery.record(f"id {number}")
        return "id 2"

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        if len(self.chat) == 3:
            return Uncertain.SENT
        for number in range(len(delivery.sent), len(self.chat)):
            await delivery.record(f"id {number}")
        return Uncertain.RESEND

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


@asynccontextmanager
async def delivering(store: SqliteStore, channel: object, clock: FakeClock) -> AsyncIterator[Gateway]:
    gateway = Gateway({"telegram": channel}, store, clock)  # type: ignore[dict-item]  # the double is enough here
    async with asyncio.TaskGroup() as group:
        task = group.create_task(gateway.deliver())
        yield gateway
        task.cancel()


def add(tx: Transaction, message: OutgoingMessage) -> Parcel:
    return outbox.add(tx, message, NOON)


async def finished(store: SqliteStore) -> None:
    async with asyncio.timeout(5):
        while await store.read(outbox.unfinished):
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("shown", [1, 2, 3])
async def test_parts_found_after_a_crash_are_not_sent_again(store: SqliteStore, shown: int) -> None:
    channel = Finder(*[f"part {number}" for number in range(shown)])
    parcel = await store.write(partial(add, message=OutgoingMessage(address=PLACE, text="long")))
    await store.write(lambda tx: outbox.mark(tx, parcel, SendState.SENDING))

    async with delivering(store, channel, FakeClock()):
        await finished(store)

    assert channel.chat == ["part 0", "part 1", "part 2"]


async def test_part_whose_answer_was_lost_is_not_sent_again(store: SqliteStore) -> None:
    channel, clock = Finder(), FakeClock()
    channel.breaks_after = 1
    await store.write(partial(add, message=OutgoingMessage(address=PLACE, text="long")))

    async with delivering(store, channel, clock):
        await clock.wait_for_sleeper(FIRST_WAIT)
        clock.advance(FIRST_WAIT)
        await finished(store)

    assert channel.chat == ["part 0", "part 1", "part 2"]


async def test_channel_reads_the_content_of_a_file(store: SqliteStore) -> None:
    channel, file = MemoryChannel("telegram"), note("plan.txt", "the plan")

    def put(tx: Transaction) -> None:
        blobs.put(tx, [file], NOON)
        add(tx, OutgoingMessage(address=PLACE, text="", files=(file.file,)))

    await store.write(put)
    async with delivering(store, channel, FakeClock()):
        await finished(store)

    assert channel.uploads == [(PLACE, "plan.txt", b"the plan")]


async def test_contents_that_are_no_longer_needed_are_removed_now_and_then(store: SqliteStore) -> None:
    file, clock = note(), FakeClock()
    gateway = Gateway({"telegram": MemoryChannel("telegram")}, store, clock)
    await store.write(lambda tx: blobs.put(tx, [file], NOON))

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(gateway.prune_files())
        await clock.wait_for_due(NOON + PRUNE_EVERY)
        clock.advance(KEPT_FOR + PRUNE_EVERY)
        await clock.wait_for_due(NOON + KEPT_FOR + 2 * PRUNE_EVERY)
        task.cancel()

    assert await store.read(partial(blobs.get, digest=file.file.digest)) is None


async def test_target_is_a_user_or_else_a_chat(store: SqliteStore) -> None:
    channel = MemoryChannel("telegram")
    gateway = Gateway({"telegram": channel}, store, FakeClock())

    assert await gateway.place_of("telegram", "41") == Address(channel="telegram", chat_id="41")
    channel.no_private_chat = Rejected("telegram", "no user")
    assert await gateway.place_of("telegram", "-100") == Address(channel="telegram", chat_id="-100")
    channel.no_private_chat = Unavailable("telegram", "away")
    assert await gateway.place_of("telegram", "41") is None
