"""The store on one SQLite file: one writer thread that commits what is waiting together, readers that never wait.

A statement through an async driver costs several hops between threads (0.4 ms measured); a whole transaction on the
writer's own thread costs one hop, and 64 waiting ones share a commit (0.03 ms each). Reads outside the hot path go
through aiosqlite on connections of their own: in WAL mode they see a snapshot and are not held up by the writer.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import structlog
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError

from agent.store.async_engine import engine_maker
from agent.store.base import T, Transaction, Work
from agent.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

log = structlog.get_logger(__name__)

BUSY_TIMEOUT_MS = 10_000
MAX_BATCH = 64
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    # An acknowledged message must survive a power cut too; one sync serves a whole batch.
    "PRAGMA synchronous=FULL",
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
    "PRAGMA foreign_keys=ON",
    "PRAGMA journal_size_limit=67108864",
)


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]
    loop: asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    result: T
    actions: tuple[Callable[[], None], ...]


class SqliteStore:
    """`Store` on one file. A unit of work may be run twice when a neighbour in its batch fails: it must not reach out
    of its transaction."""

    def __init__(self, path: Path) -> None:
        self._engine = writer_engine(path)
        self._connection = self._engine.connect()  # here, so that a file that cannot be opened is told at once
        self._reader = _reader_engine(path)
        self._thread_reader = _thread_reader_engine(path)
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._closed = False
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, future, loop))
        return await future

    async def read(self, work: Work[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            async with self._reader.connect() as connection:
                return await connection.run_sync(lambda sync: work(Transaction(sync)))
        except DBAPIError as error:
            raise StoreUnavailable(_reason(error)) from error

    async def read_in_thread(self, work: Work[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")

        def run() -> T:
            with self._thread_reader.connect() as connection:
                return work(Transaction(connection))

        try:
            return await asyncio.to_thread(run)
        except DBAPIError as error:
            raise StoreUnavailable(_reason(error)) from error

    async def close(self) -> None:
        """Finish what is waiting, then release the file."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        await self._reader.dispose()
        self._thread_reader.dispose()

    # -- the writer's thread ------------------------------------------------------------------------------------
    def _run(self) -> None:
        with self._connection as connection:
            while (job := self._jobs.get()) is not None:
                batch, is_last = self._waiting(job)
                self._serve(connection, batch)
                if is_last:
                    break
        self._engine.dispose()

    def _waiting(self, first: _Job[Any]) -> tuple[list[_Job[Any]], bool]:
        batch = [first]
        while len(batch) < MAX_BATCH:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _serve(self, connection: Connection, batch: list[_Job[Any]]) -> None:
        outcomes = _attempt(connection, batch)
        if outcomes is None:  # one of them failed: each on its own, so that only the faulty one suffers
            outcomes = [outcome for job in batch for outcome in _alone(connection, job)]
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job[Any], _Done[Any] | BaseException]]] = {}
        for job, outcome in zip(batch, outcomes, strict=True):
            by_loop.setdefault(job.loop, []).append((job, outcome))
        for loop, settled in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, settled)
            except RuntimeError:  # the loop has ended; the rows are safe, nobody waits for the result
                log.info("store_result_unclaimed", jobs=len(settled))


def _attempt(connection: Connection, batch: list[_Job[Any]]) -> list[_Done[Any] | BaseException] | None:
    """Run a batch in one transaction; None if one of several failed and nothing was kept."""
    outcomes: list[_Done[Any] | BaseException] = []
    try:
        with connection.begin():
            for job in batch:
                transaction = Transaction(connection)
                result = job.work(transaction)
                outcomes.append(_Done(result, transaction.actions))
    except OperationalError as error:  # locked, full or away: trying each alone would only wait again
        return [_translated(error) for _ in batch]
    except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the work, whatever it is
        if len(batch) > 1:
            return None
        return [_translated(error)]
    return outcomes


def _alone(connection: Connection, job: _Job[Any]) -> list[_Done[Any] | BaseException]:
    outcomes = _attempt(connection, [job])
    assert outcomes is not None
    return outcomes


def _resolve(settled: list[tuple[_Job[Any], _Done[Any] | BaseException]]) -> None:
    for job, outcome in settled:
        job.loop.call_soon(_settle, job, outcome)  # each on its own: a faulty action keeps nobody else waiting


def _settle(job: _Job[Any], outcome: _Done[Any] | BaseException) -> None:
    match outcome:
        case _Done(result=result, actions=actions):
            try:
                for action in actions:
                    action()
            finally:
                if not job.future.done():
                    job.future.set_result(result)
        case BaseException():
            if not job.future.done():
                job.future.set_exception(outcome)


def _translated(error: BaseException) -> BaseException:
    if isinstance(error, OperationalError):
        unavailable = StoreUnavailable(_reason(error))
        unavailable.__cause__ = error
        return unavailable
    return error


def _reason(error: DBAPIError) -> str:
    return f"the database did not take it: {error.orig}"


# -- engines ----------------------------------------------------------------------------------------------------
def writer_engine(path: Path) -> Engine:
    """A synchronous engine whose transactions take the write lock at once, so that two writers queue up."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _reader_engine(path: Path) -> AsyncEngine:
    engine = engine_maker()(f"sqlite+aiosqlite:///{path}", pool_size=2, max_overflow=2)
    _only_read(engine.sync_engine)
    return engine


def _thread_reader_engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False}, pool_size=1, max_overflow=3)
    _only_read(engine)
    return engine


def _only_read(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin no transaction for a SELECT
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")  # all statements of a read see one moment
