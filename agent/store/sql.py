"""The few statements whose spelling differs between the dialects without meaning anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from agent.store.base import Transaction

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

Values = Mapping[str, object]


def insert_ignore(tx: Transaction, table: Table, values: Values | Sequence[Values]) -> bool:
    """Insert a row unless its key is there already; tells whether it was inserted."""
    return tx.connection.execute(_insert(tx, table).on_conflict_do_nothing(), values).rowcount > 0


def upsert(tx: Transaction, table: Table, values: Values) -> None:
    """Insert a row, or replace what is not its key in the row that is there."""
    statement = _insert(tx, table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in values if name not in keys}
    tx.connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), values)


def _insert(tx: Transaction, table: Table) -> sqlite.Insert | postgresql.Insert:
    if tx.connection.dialect.name != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # half a megabyte that an embedded installation does not need

    return postgresql.insert(table)
