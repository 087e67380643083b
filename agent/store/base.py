"""What the rest of the agent sees of the database: transactions that are plain functions.

A unit of work is a synchronous function of a `Transaction`; the store runs it on its own thread and gives back the
result. So a whole transaction costs one hop between threads, and the store may commit several units together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


@dataclass(slots=True)
class Transaction:
    """An open transaction. Work done in it must be short: no model call, no network, no tool."""

    connection: Connection
    _after: list[Callable[[], None]] = field(default_factory=list)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` on the event loop once the transaction is durable; never if it is rolled back."""
        self._after.append(action)

    @property
    def actions(self) -> tuple[Callable[[], None], ...]:
        """What is to run after the commit, in order."""
        return tuple(self._after)


Work = Callable[[Transaction], T]


class Store(Protocol):
    """Durable rows. All operations raise `StoreUnavailable` when the database cannot be reached or written."""

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction that is durable when this returns. A raising `work` leaves nothing behind."""
        ...

    async def read(self, work: Work[T]) -> T:
        """Run `work` on a snapshot; it must not write."""
        ...

    async def read_in_thread(self, work: Work[T]) -> T:
        """The same in a thread: for work that goes through so many rows that it would hold up the event loop."""
        ...

    async def close(self) -> None: ...
