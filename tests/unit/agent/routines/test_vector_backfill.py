from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from agent.llm.embeddings import pack_vector
from agent.llm.errors import TransientError
from agent.routines.vector_backfill import TEXTS_A_CALL, VectorBackfill
from agent.store.search import SEARCH_DDL, SearchIndex
from agent.workspace.scope import OperatorScope
from agent.workspace.workspace import FolderWorkspace
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore

ME = OperatorScope()


class Embedder:
    """Notes what it is asked. Something may happen while it works."""

    model = "m"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.fails_from = 1_000

    async def embed(self, texts: Sequence[str], *, unattended: bool) -> tuple[bytes, ...]:
        assert unattended
        if len(self.calls) >= self.fails_from:
            raise TransientError("away")
        self.calls.append(list(texts))
        if self.meanwhile is not None:
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        return tuple(pack_vector([1.0]) for _ in texts)


class World:
    """A workspace, its index and what fills in vectors."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = FolderWorkspace(root, FakeClock())
        self.embedder = Embedder()
        store = MemoryStore(SEARCH_DDL)
        self.index = SearchIndex(store)
        self.backfill = VectorBackfill(store, FakeClock(), self.embedder, lambda text: "secret" in text)

    async def refresh(self) -> None:
        await self.index.search(self.workspace.corpus(ME), "x")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_texts_go_in_batches_and_each_once(world: World) -> None:
    for number in range(TEXTS_A_CALL + 3):
        await world.workspace.write(ME, f"{number}.md", f"note {number}")
    await world.workspace.write(ME, "copy.md", "note 0")
    await world.refresh()

    assert await world.backfill.fill() == TEXTS_A_CALL + 3

    assert [len(texts) for texts in world.embedder.calls] == [TEXTS_A_CALL, 3]


async def test_what_was_done_before_a_failure_is_kept(world: World) -> None:
    for number in range(TEXTS_A_CALL + 3):
        await world.workspace.write(ME, f"{number}.md", f"note {number}")
    await world.refresh()
    world.embedder.fails_from = 1

    with pytest.raises(TransientError):
        await world.backfill.fill()
    world.embedder.fails_from = 1_000

    assert await world.backfill.fill() == 3


async def test_document_that_moves_while_vectors_are_made_is_not_paid_again(world: World) -> None:
    await world.workspace.write(ME, "old.md", "dear text")
    await world.refresh()
    await world.backfill.fill()
    await world.workspace.write(ME, "other.md", "other text")
    await world.refresh()

    async def move() -> None:
        (world.root / "old.md").rename(world.root / "new.md")
        await world.refresh()

    world.embedder.meanwhile = move
    await world.backfill.fill()
    await world.backfill.fill()

    assert world.embedder.calls == [["dear text"], ["other text"]]


async def test_text_with_a_secret_is_never_sent_and_does_not_hold_up_the_rest(world: World) -> None:
    await world.workspace.write(ME, "a.md", "the secret is here")
    await world.workspace.write(ME, "b.md", "plain")
    await world.refresh()

    await world.backfill.fill()

    assert world.embedder.calls == [["plain"]]
    assert await world.backfill.fill() == 0


async def test_vectors_of_a_text_that_is_gone_go_too(world: World) -> None:
    await world.workspace.write(ME, "a.md", "text")
    await world.refresh()
    await world.backfill.fill()
    await world.workspace.delete(ME, "a.md")
    await world.refresh()
    await world.backfill.fill()

    await world.workspace.write(ME, "a.md", "text")
    await world.refresh()

    assert await world.backfill.fill() == 1  # nothing had been left of it
