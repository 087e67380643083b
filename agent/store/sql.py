"""The few statements whose spelling differs between the dialects without meaning anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from agent.store.base import Transaction

Values = Mapping[str, object]


def insert_ignore(tx: Transaction, table: Table, values: Values | Sequence[Values]) -> bool:
    """Insert a row unless its key is there already; tells whether it was inserted."""
    insert = postgresql.insert if tx.connection.dialect.name == "postgresql" else sqlite.insert
    return tx.connection.execute(insert(table).on_conflict_do_nothing(), values).rowcount > 0


def upsert(tx: Transaction, table: Table, values: Values) -> None:
    """Insert a row, or replace what is not its key in the row that is there."""
    insert = postgresql.insert if tx.connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in values if name not in keys}
    tx.connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), values)
