"""A store in memory: each unit of work runs at once, in a transaction of a private SQLite database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

from agent.store.base import Transaction, Work
from agent.store.errors import StoreUnavailable

T = TypeVar("T")


class MemoryStore:
    """Satisfies `Store`. While `refuse_writes` is set it behaves like a database that is locked."""

    def __init__(self, ddl: Iterable[str] = ()) -> None:
        self._engine = create_engine("sqlite://", poolclass=StaticPool)
        self.refuse_writes = False
        with self._engine.begin() as connection:
            for statement in ddl:
                connection.execute(text(statement))

    async def write(self, work: Work[T]) -> T:
        if self.refuse_writes:
            raise StoreUnavailable("the database is locked")
        with self._engine.begin() as connection:
            transaction = Transaction(connection)
            result = work(transaction)
        for action in transaction.actions:
            action()
        return result

    async def read(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            return work(Transaction(connection))

    async def read_in_thread(self, work: Work[T]) -> T:
        return await self.read(work)

    async def close(self) -> None:
        self._engine.dispose()
