"""Search over the workspace's documents: by words on SQLite's FTS5, and by meaning where that is switched on.

The files are the truth and people edit them by hand, so the index is brought up to date before each search: documents
whose time or size differ from what was indexed are read again, and those that have gone are forgotten. Where the
workspace can tell that nothing has changed since, not even that look is taken.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import bindparam, text

from agent.store.base import Store, Transaction
from agent.store.chunks import affordable, any_of, chunk_text, query_words
from agent.store.errors import StoreUnavailable
from agent.store.fusion import Fused, fuse

log = structlog.get_logger(__name__)

SEARCH_DDL: tuple[str, ...] = (
    """
    CREATE TABLE search_documents (
        scope_key TEXT NOT NULL,
        path TEXT NOT NULL,
        mtime_ns INTEGER NOT NULL,
        size INTEGER NOT NULL,
        first_chunk INTEGER NOT NULL,
        chunks INTEGER NOT NULL,
        PRIMARY KEY (scope_key, path)
    ) WITHOUT ROWID
    """,
    """
    CREATE VIRTUAL TABLE search_chunks USING fts5 (
        scope_key UNINDEXED, path UNINDEXED, chunk_no UNINDEXED, body, tokenize = 'unicode61 remove_diacritics 2'
    )
    """,
)
"""The index's tables. The chunks of a document have consecutive rowids, so that removing them needs no scan."""

POOL = 50
"""How many candidates each method gives at most."""

RANKED_PASSAGES = 2_000
"""A query is ranked by words that lie in so many passages together: ranking one takes about 2 µs."""

LOOK_AGAIN_AFTER_SECONDS = 600.0
"""The documents are compared after this long whatever the workspace tells: writes to mapped memory are not told."""

DOCUMENTS_A_TRANSACTION = 100
"""A first index of thousands holds nobody else's writes up for longer than a few of these take."""

_MOST_REMEMBERED = 10_000

_KNOWN = text("SELECT scope_key, path, mtime_ns, size FROM search_documents WHERE scope_key IN :owners").bindparams(
    bindparam("owners", expanding=True)
)
_PLACE = text("SELECT first_chunk, chunks FROM search_documents WHERE scope_key = :owner AND path = :path")
_DROP_CHUNKS = text("DELETE FROM search_chunks WHERE rowid >= :first AND rowid < :end")
_DROP_DOCUMENT = text("DELETE FROM search_documents WHERE scope_key = :owner AND path = :path")
_LAST = text("SELECT coalesce((SELECT rowid FROM search_chunks ORDER BY rowid DESC LIMIT 1), 0)")
_ADD_CHUNK = text(
    "INSERT INTO search_chunks (rowid, scope_key, path, chunk_no, body) VALUES (:rowid, :owner, :path, :number, :body)"
)
_ADD_DOCUMENT = text(
    "INSERT INTO search_documents (scope_key, path, mtime_ns, size, first_chunk, chunks) "
    "VALUES (:owner, :path, :mtime_ns, :size, :first, :chunks)"
)
_IN_HOW_MANY = "SELECT count(*) FROM (SELECT 1 FROM search_chunks WHERE search_chunks MATCH ? LIMIT ?)"
# Lists go in as JSON: one text of a statement for all of them, which need not be compiled again. The bodies are left
# out here: what is sorted would hold them all.
_BEST = (
    "SELECT rowid FROM search_chunks WHERE search_chunks MATCH ? AND scope_key IN (SELECT value FROM json_each(?)) "
    "ORDER BY bm25(search_chunks), rowid LIMIT ?"
)
_ANY = (
    "SELECT rowid FROM search_chunks WHERE search_chunks MATCH ? AND scope_key IN (SELECT value FROM json_each(?)) "
    "LIMIT ?"
)
_PASSAGES = (
    "SELECT rowid, path, chunk_no, body FROM search_chunks "
    "WHERE rowid IN (SELECT value FROM json_each(?)) AND scope_key IN (SELECT value FROM json_each(?))"
)

Stamp = tuple[str, str, int, int]
"""Owner, path, time of change in nanoseconds, size in bytes."""


class Corpus(Protocol):
    """The documents of one who searches: all of their owners' and nobody else's."""

    @property
    def owners(self) -> Sequence[str]: ...

    async def mark(self) -> Hashable | None:
        """Equal to an earlier one only if no document has changed in between; None where that cannot be told."""
        ...

    async def inventory(self) -> Sequence[Stamp]: ...

    async def text(self, path: str) -> str | None: ...


class Meaning(Protocol):
    """Finds passages by what they mean."""

    async def nearest(self, owners: Sequence[str], query: str, most: int) -> Sequence[int]:
        """The passages of these owners whose meaning is nearest, the nearest first; none where it cannot be told."""
        ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found. `score` is 1.0 for the best one and falls with the ranks, which count from 1.

    A rank is None where that method did not find it among its first 50.
    """

    path: str
    chunk: int
    text: str
    score: float
    word_rank: int | None = None
    vector_rank: int | None = None


class SearchIndex:
    """Finds passages. Rows are the index; in memory is only when whose documents were last compared with it."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning | None = None,
        changed: Callable[[], None] = lambda: None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._meaning = meaning
        self._changed = changed
        self._seconds = seconds
        self._compared: dict[tuple[str, ...], tuple[Hashable, float]] = {}
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    async def search(self, corpus: Corpus, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The best passages for `query`, best first.

        Raises StoreUnavailable if the index cannot be read. If it cannot be updated, it is searched as it is.
        """
        words = query_words(query)
        if not words:
            return ()
        await self._refresh(corpus)
        owners = tuple(corpus.owners)

        by_meaning = await self._meaning.nearest(owners, query, POOL) if self._meaning is not None else ()

        def find(transaction: Transaction) -> tuple[Hit, ...]:
            best = fuse(_matching(words, owners, limit, transaction), by_meaning)[:limit]
            return _hits(best, owners, transaction)

        return await self._store.read_in_thread(find)

    async def _refresh(self, corpus: Corpus) -> None:
        owners = tuple(corpus.owners)
        async with self._lock(owners):  # searches side by side would read the same documents
            mark = await corpus.mark()
            before, looked_at = self._compared.get(owners, (None, 0.0))
            now = self._seconds()
            if mark is not None and mark == before and now - looked_at < LOOK_AGAIN_AFTER_SECONDS:
                return
            if await self._compare(corpus):
                if len(self._compared) >= _MOST_REMEMBERED:
                    self._compared.clear()
                self._compared[owners] = (mark, now)

    def _lock(self, owners: tuple[str, ...]) -> asyncio.Lock:
        lock = self._locks.get(owners)
        if lock is None:
            lock = self._locks[owners] = asyncio.Lock()
        return lock

    async def _compare(self, corpus: Corpus) -> bool:
        """Bring the index up to date; False if the database did not take it."""
        stamps = await corpus.inventory()
        known = await self._store.read_in_thread(partial(_known, list(corpus.owners)))
        changed, gone = await asyncio.to_thread(_difference, stamps, known)
        try:
            # What is new comes first: the vectors of a document that was moved are in use all the time.
            for start in range(0, len(changed), DOCUMENTS_A_TRANSACTION):
                some = changed[start : start + DOCUMENTS_A_TRANSACTION]
                texts = [(stamp, await corpus.text(stamp[1]) or "") for stamp in some]
                await self._store.write(partial(_replace, texts, ()))
            for start in range(0, len(gone), DOCUMENTS_A_TRANSACTION):
                await self._store.write(partial(_replace, (), gone[start : start + DOCUMENTS_A_TRANSACTION]))
        except StoreUnavailable:
            log.warning("search_index_stale", documents=len(changed) + len(gone))
            return False
        finally:
            if changed or gone:
                self._changed()
        return True


def _difference(
    stamps: Sequence[Stamp], known: Mapping[tuple[str, str], Stamp]
) -> tuple[list[Stamp], list[tuple[str, str]]]:
    """The documents that are to be read again, and those that have gone."""
    present = {stamp[:2] for stamp in stamps}
    return [stamp for stamp in stamps if known.get(stamp[:2]) != stamp], [key for key in known if key not in present]


def _known(owners: list[str], transaction: Transaction) -> Mapping[tuple[str, str], Stamp]:
    rows = transaction.connection.execute(_KNOWN, {"owners": owners})
    return {(owner, path): (owner, path, mtime_ns, size) for owner, path, mtime_ns, size in rows}


def _matching(words: Sequence[str], owners: Sequence[str], limit: int, transaction: Transaction) -> list[int]:
    """The passages that hold any of the words, best first; filled up with what holds only words that are everywhere."""
    ask = transaction.connection.exec_driver_sql
    ranked: Sequence[str] = words
    if int(transaction.connection.execute(_LAST).scalar_one()) > RANKED_PASSAGES:
        counts = {word: int(ask(_IN_HOW_MANY, (any_of((word,)), RANKED_PASSAGES + 1)).scalar_one()) for word in words}
        ranked = affordable(counts, RANKED_PASSAGES)
    if not ranked:
        return []
    theirs = json.dumps(owners)
    found = list(ask(_BEST, (any_of(ranked), theirs, POOL)).scalars())
    rest = [word for word in words if word not in ranked]
    if rest and len(found) < limit:
        more = ask(_ANY, (any_of(rest), theirs, limit)).scalars()
        found += [passage for passage in more if passage not in found][: limit - len(found)]
    return found


def _hits(best: Sequence[Fused], owners: Sequence[str], transaction: Transaction) -> tuple[Hit, ...]:
    """The passages themselves; the owners are looked at again, whoever named the passages."""
    wanted = json.dumps([fused.passage for fused in best])
    rows = transaction.connection.exec_driver_sql(_PASSAGES, (wanted, json.dumps(owners)))
    found = {passage: (path, int(number), body) for passage, path, number, body in rows}
    return tuple(
        Hit(*found[fused.passage], round(fused.score, 4), fused.word_rank, fused.vector_rank)
        for fused in best
        if fused.passage in found
    )


def _replace(texts: Sequence[tuple[Stamp, str]], gone: Sequence[tuple[str, str]], transaction: Transaction) -> None:
    for owner, path in [*gone, *(stamp[:2] for stamp, _ in texts)]:
        _forget(transaction, owner, path)
    following = int(transaction.connection.execute(_LAST).scalar_one()) + 1
    for (owner, path, mtime_ns, size), body in texts:
        chunks = [
            {"rowid": following + number, "owner": owner, "path": path, "number": number, "body": chunk}
            for number, chunk in enumerate(chunk_text(body))
        ]
        if chunks:
            transaction.connection.execute(_ADD_CHUNK, chunks)
        values = {"owner": owner, "path": path, "mtime_ns": mtime_ns, "size": size}
        transaction.connection.execute(_ADD_DOCUMENT, {**values, "first": following, "chunks": len(chunks)})
        following += len(chunks)


def _forget(transaction: Transaction, owner: str, path: str) -> None:
    row = transaction.connection.execute(_PLACE, {"owner": owner, "path": path}).first()
    if row is None:
        return
    first, chunks = row
    transaction.connection.execute(_DROP_CHUNKS, {"first": first, "end": first + chunks})
    transaction.connection.execute(_DROP_DOCUMENT, {"owner": owner, "path": path})
