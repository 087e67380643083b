"""The search index and its vectors on the real database."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.llm.embeddings import pack_vector
from agent.store import vectors
from agent.store.base import Transaction
from agent.store.errors import StoreUnavailable
from agent.store.open import open_store
from agent.store.search import SearchIndex
from agent.store.sqlite import SqliteStore
from agent.workspace.scope import OperatorScope, PersonScope
from agent.workspace.workspace import FolderWorkspace
from tests.support.fake_clock import FakeClock

ME = OperatorScope()
ANN = PersonScope("telegram", "5")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def workspace(tmp_path: Path) -> FolderWorkspace:
    return FolderWorkspace(tmp_path / "workspace", FakeClock())


async def test_reading_in_a_thread_sees_what_is_committed_and_leaves_the_loop_alone(store: SqliteStore) -> None:
    await store.write(vectors.prepare)

    ready, thread = await store.read_in_thread(lambda tx: (vectors.are_ready(tx), threading.get_ident()))

    assert ready
    assert thread != threading.get_ident()


async def test_reading_in_a_thread_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable):
        await store.read_in_thread(vectors.prepare)

    assert not await store.read_in_thread(vectors.are_ready)


async def test_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.close()

    with pytest.raises(StoreUnavailable):
        await store.read_in_thread(vectors.are_ready)


async def test_tables_of_vectors_are_made_when_they_are_first_needed_and_only_once(store: SqliteStore) -> None:
    assert not await store.read(vectors.are_ready)

    await store.write(vectors.prepare)
    await store.write(lambda tx: vectors.keep(tx, "m", [("d", b"x")]))
    await store.write(vectors.prepare)

    assert await store.read(lambda tx: tx.connection.exec_driver_sql("SELECT * FROM search_vectors").all()) == [
        ("d", "m", b"x")
    ]


async def test_passages_are_forgotten_with_their_document_though_vectors_are_switched_off_meanwhile(
    store: SqliteStore, workspace: FolderWorkspace
) -> None:
    """Invariant 1: a number that is given out again must not lead to another owner's text."""
    index = SearchIndex(store)
    await workspace.write(ME, "mine.md", "alpha")
    await index.search(workspace.corpus(ME), "x")
    await store.write(vectors.prepare)
    await store.write(lambda tx: vectors.note_passages(tx, 0, 10))
    await workspace.delete(ME, "mine.md")
    await index.search(workspace.corpus(ME), "x")
    await workspace.write(ANN, "hers.md", "beta")
    await index.search(workspace.corpus(ANN), "x")

    def noted(tx: Transaction) -> list[str]:
        return list(tx.connection.exec_driver_sql("SELECT scope_key FROM search_passages").scalars())

    assert await store.read(noted) == []


async def test_nearest_are_ordered_by_angle_and_equals_by_number(store: SqliteStore) -> None:
    angles = {1: [0, 1], 2: [1, 1], 3: [1, 0], 4: [2, 0], 5: [-1, 0]}

    def fill(tx: Transaction) -> None:
        vectors.prepare(tx)
        for passage, angle in angles.items():
            tx.connection.exec_driver_sql(
                "INSERT INTO search_passages VALUES (?, ?, ?)", (passage, "@operator", str(passage))
            )
            vectors.keep(tx, "m", [(str(passage), pack_vector(angle))])
        vectors.keep(tx, "m", [("1", b"")])  # a text that gets none

    await store.write(fill)
    query = pack_vector([5, 0])

    assert await store.read(lambda tx: vectors.nearest(tx, ["@operator"], "m", query, 3)) == (3, 4, 2)
    assert await store.read(lambda tx: vectors.nearest(tx, ["@operator"], "m", query, 9)) == (3, 4, 2, 5)
    assert await store.read(lambda tx: vectors.nearest(tx, ["@operator"], "m", pack_vector([1, 0, 0]), 9)) == ()
    assert await store.read(lambda tx: vectors.nearest(tx, ["@agent"], "m", query, 9)) == ()


async def test_vectors_of_others_are_not_even_looked_at(store: SqliteStore) -> None:
    await store.write(vectors.prepare)

    plan = await store.read(
        lambda tx: tx.connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {vectors.OF_OWNERS}", ("m", 4, json.dumps(["@operator"]))
        ).all()
    )

    steps = [str(row[-1]) for row in plan]
    assert any("ix_search_passages_scope_key (scope_key=?)" in step for step in steps), steps
    assert any("search_vectors" in step or "SEARCH v" in step for step in steps), steps
    assert not any(step.startswith(("SCAN p", "SCAN v")) for step in steps), steps
