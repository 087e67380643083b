from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from agent.store.search import LOOK_AGAIN_AFTER_SECONDS, RANKED_PASSAGES, SEARCH_DDL, SearchIndex, Stamp
from tests.support.memory_store import MemoryStore


class Documents:
    """A corpus in memory that counts how often it is gone through and read."""

    def __init__(self, texts: dict[str, str], mark: Hashable | None = 1) -> None:
        self.owners = ("@operator",)
        self.texts = texts
        self.now: Hashable | None = mark
        self.inventories = 0
        self.reads = 0
        self.let = asyncio.Event()
        self.let.set()

    async def mark(self) -> Hashable | None:
        return self.now

    async def inventory(self) -> Sequence[Stamp]:
        self.inventories += 1
        await self.let.wait()
        return [("@operator", path, hash(text), len(text)) for path, text in self.texts.items()]

    async def text(self, path: str) -> str | None:
        self.reads += 1
        return self.texts[path]


async def test_while_nothing_changes_no_document_is_looked_at() -> None:
    index, documents = SearchIndex(MemoryStore(SEARCH_DDL)), Documents({"a.md": "alpha"})

    for _ in range(3):
        assert len(await index.search(documents, "alpha")) == 1

    assert (documents.inventories, documents.reads) == (1, 1)


async def test_change_is_found_and_documents_that_did_not_change_are_not_read_again() -> None:
    index, documents = SearchIndex(MemoryStore(SEARCH_DDL)), Documents({"a.md": "alpha", "b.md": "beta"})
    await index.search(documents, "alpha")

    documents.texts["b.md"], documents.now = "gamma", 2

    assert [hit.path for hit in await index.search(documents, "gamma")] == ["b.md"]
    assert documents.reads == 3


async def test_where_changes_cannot_be_told_documents_are_compared_each_time() -> None:
    index, documents = SearchIndex(MemoryStore(SEARCH_DDL)), Documents({"a.md": "alpha"}, mark=None)

    for _ in range(3):
        await index.search(documents, "alpha")

    assert documents.inventories == 3


async def test_documents_are_compared_after_ten_minutes_whatever_was_told() -> None:
    times = [0.0]
    index = SearchIndex(MemoryStore(SEARCH_DDL), seconds=lambda: times[0])
    documents = Documents({"a.md": "alpha"})
    await index.search(documents, "alpha")
    documents.texts["a.md"] = "beta"
    assert await index.search(documents, "beta") == ()

    times[0] = LOOK_AGAIN_AFTER_SECONDS

    assert len(await index.search(documents, "beta")) == 1


async def test_database_that_refuses_once_is_tried_again_at_the_next_search() -> None:
    store = MemoryStore(SEARCH_DDL)
    index, documents = SearchIndex(store), Documents({"a.md": "alpha"})
    store.refuse_writes = True
    assert await index.search(documents, "alpha") == ()

    store.refuse_writes = False

    assert len(await index.search(documents, "alpha")) == 1


async def test_searches_side_by_side_read_the_documents_once() -> None:
    index, documents = SearchIndex(MemoryStore(SEARCH_DDL)), Documents({"a.md": "alpha"})

    found = await asyncio.gather(*(index.search(documents, "alpha") for _ in range(5)))

    assert [len(hits) for hits in found] == [1] * 5
    assert documents.reads == 1


async def test_search_of_one_does_not_wait_for_the_documents_of_another() -> None:
    index = SearchIndex(MemoryStore(SEARCH_DDL))
    slow, quick = Documents({"a.md": "alpha"}), Documents({"b.md": "beta"})
    quick.owners = ("users/telegram/5",)
    slow.let.clear()
    waiting = asyncio.ensure_future(index.search(slow, "alpha"))
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await index.search(quick, "beta")

    assert not waiting.done()
    slow.let.set()
    assert len(await waiting) == 1


async def test_index_tells_that_it_has_changed_only_when_it_has() -> None:
    told: list[int] = []
    index = SearchIndex(MemoryStore(SEARCH_DDL), changed=lambda: told.append(1))
    documents = Documents({"a.md": "alpha"}, mark=None)

    await index.search(documents, "alpha")
    await index.search(documents, "alpha")
    assert told == [1]

    del documents.texts["a.md"]
    await index.search(documents, "alpha")
    assert told == [1, 1]


async def test_in_a_large_index_rare_words_decide_and_common_ones_fill_up() -> None:
    count = RANKED_PASSAGES + 200
    texts = {f"{number}.md": "common words everywhere" for number in range(count)}
    texts["rare.md"] = "common zebra"
    index, documents = SearchIndex(MemoryStore(SEARCH_DDL)), Documents(texts)

    hits = await index.search(documents, "common zebra", 5)

    assert [hits[0].path, hits[0].word_rank, len({hit.path for hit in hits})] == ["rare.md", 1, 5]
    assert [hit.word_rank for hit in hits] == [1, 2, 3, 4, 5]
    assert len(await index.search(documents, "common everywhere", 5)) == 5
    assert await index.search(documents, "unheard of", 5) == ()
