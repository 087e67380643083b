"""Vectors of passages: what they are kept by, what is missing, and which are nearest to a query.

Derived data, like the word index: the tables are made when vectors are first asked for. A vector belongs to a text and
a model, not to a place, so a document that is indexed again needs none anew. Searching compares the query with every
vector of the owners and no other. SQLite's extensions for vectors do the same, but many builds of Python cannot load
an extension.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from agent.llm.embeddings import digest_of
from agent.store.base import Transaction

VECTORS_DDL: tuple[str, ...] = (
    """
    CREATE TABLE IF NOT EXISTS search_passages (
        passage INTEGER PRIMARY KEY,
        scope_key TEXT NOT NULL,
        digest TEXT NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS ix_search_passages_scope_key ON search_passages (scope_key)",
    "CREATE INDEX IF NOT EXISTS ix_search_passages_digest ON search_passages (digest)",
    """
    CREATE TABLE IF NOT EXISTS search_vectors (
        digest TEXT NOT NULL,
        model TEXT NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (digest, model)
    )
    """,
    # A passage's number may be given to another text in the same transaction: what was known of it goes with it.
    """
    CREATE TRIGGER IF NOT EXISTS search_passages_go AFTER DELETE ON search_documents BEGIN
        DELETE FROM search_passages
        WHERE passage >= OLD.first_chunk AND passage < OLD.first_chunk + OLD.chunks;
    END
    """,
)
"""Passages by their number in the word index, and vectors by text and model. An empty vector: this text gets none."""

OF_OWNERS = (
    "SELECT p.passage, v.vector FROM search_passages p "
    "JOIN search_vectors v ON v.digest = p.digest AND v.model = ? AND length(v.vector) = ? "
    "WHERE p.scope_key IN (SELECT value FROM json_each(?))"
)
"""The vectors of some owners and one model: nobody else's rows are touched."""

_ROWS_AT_ONCE = 1_024
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = 'search_passages_go'"
_UNKNOWN = (
    "SELECT c.rowid, c.scope_key, c.body FROM search_chunks c "
    "WHERE c.rowid > ? AND NOT EXISTS (SELECT 1 FROM search_passages p WHERE p.passage = c.rowid) "
    "ORDER BY c.rowid LIMIT ?"
)
_ADD_PASSAGE = "INSERT OR REPLACE INTO search_passages (passage, scope_key, digest) VALUES (?, ?, ?)"
_MISSING = (
    "SELECT p.digest, min(p.passage) FROM search_passages p "
    "WHERE NOT EXISTS (SELECT 1 FROM search_vectors v WHERE v.digest = p.digest AND v.model = ?) "
    "GROUP BY p.digest ORDER BY min(p.passage) LIMIT ?"
)
_BODIES = "SELECT rowid, body FROM search_chunks WHERE rowid IN (SELECT value FROM json_each(?))"
_ADD_VECTOR = "INSERT OR REPLACE INTO search_vectors (digest, model, vector) VALUES (?, ?, ?)"
_DROP_VECTORS = (
    "DELETE FROM search_vectors WHERE model <> ? OR NOT EXISTS "
    "(SELECT 1 FROM search_passages p WHERE p.digest = search_vectors.digest)"
)
_HAS_ANY = (
    "SELECT 1 FROM search_passages p "
    "JOIN search_vectors v ON v.digest = p.digest AND v.model = ? AND length(v.vector) > 0 "
    "WHERE p.scope_key IN (SELECT value FROM json_each(?)) LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that has no vector yet, and its digest."""

    digest: str
    text: str


def are_ready(tx: Transaction) -> bool:
    """Whether the tables are there."""
    return tx.connection.exec_driver_sql(_IS_THERE).first() is not None


def prepare(tx: Transaction) -> None:
    """Make the tables, if they are not there."""
    for statement in VECTORS_DDL:
        tx.connection.exec_driver_sql(statement)


def note_passages(tx: Transaction, after: int, most: int) -> int | None:
    """Note up to `most` passages of the word index that are not known yet, from the one after `after` on.

    Gives the last one noted, None where there is no more.
    """
    rows = tx.connection.exec_driver_sql(_UNKNOWN, (after, most)).all()
    if not rows:
        return None
    tx.connection.exec_driver_sql(_ADD_PASSAGE, [(passage, owner, digest_of(body)) for passage, owner, body in rows])
    return int(rows[-1][0])


def missing(tx: Transaction, model: str, most: int) -> tuple[Passage, ...]:
    """Up to `most` texts that have no vector of this model yet."""
    digests = {passage: digest for digest, passage in tx.connection.exec_driver_sql(_MISSING, (model, most))}
    rows = tx.connection.exec_driver_sql(_BODIES, (json.dumps(list(digests)),))
    bodies = {int(passage): str(body) for passage, body in rows}
    return tuple(Passage(digest, bodies[passage]) for passage, digest in digests.items() if passage in bodies)


def keep(tx: Transaction, model: str, vectors: Sequence[tuple[str, bytes]]) -> None:
    """Keep vectors by the digests of their texts."""
    if vectors:
        tx.connection.exec_driver_sql(_ADD_VECTOR, [(digest, model, vector) for digest, vector in vectors])


def drop_unused(tx: Transaction, model: str) -> int:
    """Forget the vectors of other models and of texts that are nowhere any more; gives how many."""
    return tx.connection.exec_driver_sql(_DROP_VECTORS, (model,)).rowcount


def has_any(tx: Transaction, owners: Sequence[str], model: str) -> bool:
    """Whether these owners have a vector of this model."""
    return tx.connection.exec_driver_sql(_HAS_ANY, (model, json.dumps(list(owners)))).first() is not None


def nearest(tx: Transaction, owners: Sequence[str], model: str, query: bytes, most: int) -> tuple[int, ...]:
    """The passages of these owners that are nearest to `query`, the nearest first, of equals the lower number."""
    import numpy as np  # an extra, and 20 MiB: loaded only where vectors are in use

    direction = np.frombuffer(query, dtype="<f2").astype(np.float32)
    rows = tx.connection.exec_driver_sql(OF_OWNERS, (model, len(query), json.dumps(list(owners))))
    best: list[tuple[float, int]] = []
    for some in rows.partitions(_ROWS_AT_ONCE):
        vectors = np.frombuffer(b"".join(row[1] for row in some), dtype="<f2").reshape(len(some), -1)
        distances = -(vectors.astype(np.float32) @ direction)
        found = zip(distances.tolist(), (int(row[0]) for row in some), strict=True)
        best = nsmallest(most, [*best, *found])
    return tuple(passage for _, passage in best)
