"""Full-text search over the workspace's documents, on SQLite's FTS5.

The files are the truth and people edit them by hand, so the index is brought up to date before each search: documents
whose time or size differ from what was indexed are read again, and those that have gone are forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog
from sqlalchemy import bindparam, text

from agent.store.base import Store, Transaction
from agent.store.errors import StoreUnavailable

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

CHUNK_WORDS = 800
_OVERLAP_WORDS = CHUNK_WORDS * 15 // 100
_LEAST_WORDS = 50
_POOL = 50
# Reciprocal rank fusion (Cormack et al. 2009) with its usual constant; with one method it only orders.
_RANK_OFFSET = 60
_MOST_QUERY_WORDS = 32

_KNOWN = text("SELECT scope_key, path, mtime_ns, size FROM search_documents WHERE scope_key IN :owners").bindparams(
    bindparam("owners", expanding=True)
)
_PLACE = text("SELECT first_chunk, chunks FROM search_documents WHERE scope_key = :owner AND path = :path")
_DROP_CHUNKS = text("DELETE FROM search_chunks WHERE rowid >= :first AND rowid < :end")
_DROP_DOCUMENT = text("DELETE FROM search_documents WHERE scope_key = :owner AND path = :path")
_LAST = text("SELECT coalesce(max(rowid), 0) FROM search_chunks")
_ADD_CHUNK = text(
    "INSERT INTO search_chunks (rowid, scope_key, path, chunk_no, body) VALUES (:rowid, :owner, :path, :number, :body)"
)
_ADD_DOCUMENT = text(
    "INSERT INTO search_documents (scope_key, path, mtime_ns, size, first_chunk, chunks) "
    "VALUES (:owner, :path, :mtime_ns, :size, :first, :chunks)"
)
_MATCH = text(
    "SELECT path, chunk_no, body FROM search_chunks WHERE search_chunks MATCH :query AND scope_key IN :owners "
    "ORDER BY bm25(search_chunks), rowid LIMIT :limit"
).bindparams(bindparam("owners", expanding=True))

Stamp = tuple[str, str, int, int]
"""Owner, path, time of change in nanoseconds, size in bytes."""


class Corpus(Protocol):
    """The documents of one who searches: all of their owners' and nobody else's."""

    @property
    def owners(self) -> Sequence[str]: ...

    async def inventory(self) -> Sequence[Stamp]: ...

    async def text(self, path: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that matched. `score` is 1.0 for the best one and falls with the rank."""

    path: str
    chunk: int
    text: str
    score: float


class SearchIndex:
    """Finds passages by their words. Holds nothing in memory: rows are the index."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, corpus: Corpus, query: str, limit: int = 10) -> tuple[Hit, ...]:
        """The best passages for the words of `query`, best first. Punctuation and operators in it mean nothing.

        Raises StoreUnavailable if the index cannot be read. If it cannot be updated, it is searched as it is.
        """
        expression = match_expression(query)
        if not expression:
            return ()
        await self._refresh(corpus)
        owners = list(corpus.owners)

        def find(transaction: Transaction) -> tuple[tuple[str, int, str], ...]:
            values = {"query": expression, "owners": owners, "limit": min(limit, _POOL)}
            rows = transaction.connection.execute(_MATCH, values)
            return tuple((path, int(number), body) for path, number, body in rows)

        found = await self._store.read(find)
        best = _RANK_OFFSET + 1
        return tuple(
            Hit(path, number, body, round(best / (_RANK_OFFSET + rank), 4))
            for rank, (path, number, body) in enumerate(found, start=1)
        )

    async def _refresh(self, corpus: Corpus) -> None:
        present = {stamp[:2]: stamp for stamp in await corpus.inventory()}
        known = await self._store.read(partial(_known, list(corpus.owners)))
        changed = [stamp for key, stamp in present.items() if known.get(key) != stamp]
        gone = [key for key in known if key not in present]
        if not changed and not gone:
            return
        texts = [(stamp, await corpus.text(stamp[1]) or "") for stamp in changed]
        try:
            await self._store.write(partial(_replace, texts, gone))
        except StoreUnavailable:
            log.warning("search_index_stale", documents=len(changed) + len(gone))


def match_expression(query: str) -> str:
    """`query` as an FTS5 expression that finds any of its words; empty if it has none."""
    words = dict.fromkeys(re.findall(r"\w+", query.casefold().replace("_", " ")))
    return " OR ".join(f'"{word}"' for word in list(words)[:_MOST_QUERY_WORDS])


def chunk_text(body: str) -> Iterator[str]:
    """Passages of 800 words, each beginning with the last 120 of the one before; a short rest joins the last one.

    The passages keep the line breaks of the text.
    """
    words = [match.span() for match in re.finditer(r"\S+", body)]
    start = 0
    while start < len(words):
        end = start + CHUNK_WORDS
        if len(words) - end < _LEAST_WORDS:
            end = len(words)
        yield body[words[start][0] : words[end - 1][1]]
        if end == len(words):
            return
        start = end - _OVERLAP_WORDS


def _known(owners: list[str], transaction: Transaction) -> Mapping[tuple[str, str], Stamp]:
    rows = transaction.connection.execute(_KNOWN, {"owners": owners})
    return {(owner, path): (owner, path, mtime_ns, size) for owner, path, mtime_ns, size in rows}


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
