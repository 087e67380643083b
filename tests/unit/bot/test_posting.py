"""What tools hand over: once for each call, however often the call runs, and nothing that is left out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from agent.store import blobs, outbox
from agent.store.open import open_store
from agent.store.sqlite import SqliteStore
from bot.gateway import Gateway
from bot.posting import StoreOutbox
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.parts import note
from tests.support.tool_context import make_context

CONTEXT = make_context()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def gateway(store: SqliteStore) -> Gateway:
    return Gateway({"telegram": MemoryChannel("telegram")}, store, FakeClock())


async def test_call_that_runs_again_sends_nothing_more(store: SqliteStore, gateway: Gateway) -> None:
    box, files = StoreOutbox(store, FakeClock(), gateway), [note()]

    assert await box.post(CONTEXT, CONTEXT.address, "hi", files)
    assert not await box.post(CONTEXT, CONTEXT.address, "hi", files)
    [parcel] = await store.read(outbox.unfinished)
    assert parcel.message.files == (files[0].file,)
    assert await store.read(partial(blobs.get, digest=files[0].file.digest)) == files[0].data


async def test_two_calls_that_a_model_gave_one_id_are_two_messages(store: SqliteStore, gateway: Gateway) -> None:
    box = StoreOutbox(store, FakeClock(), gateway)
    await box.post(CONTEXT, CONTEXT.address, "one")
    await box.post(CONTEXT, CONTEXT.address, "two")

    assert [parcel.message.text for parcel in await store.read(outbox.unfinished)] == ["one", "two"]
