"""What every store promises: whole units of work or nothing, in a batch or alone, whoever else is at the database."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, inspect

from agent.model.approval import ApprovalState
from agent.model.tool_call import ToolCall
from agent.store import facts, tables
from agent.store import open as opening
from agent.store.base import Transaction
from agent.store.errors import HomeLocked, SchemaMismatch, StoreUnavailable
from agent.store.open import DATABASE_NAME, HEAD, create, home_lock, migrate, open_store, schema_version
from agent.store.sqlite import SqliteStore, writer_engine
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


class Oops(Exception):
    """A fault of a unit of work."""


async def value_of(store: SqliteStore, name: str) -> str | None:
    return await store.read(lambda tx: facts.get(tx, name))


class Blocker:
    """Holds the writer's thread, so that what is written meanwhile makes one batch."""

    def __init__(self, store: SqliteStore) -> None:
        self._go = threading.Event()
        self._reached = threading.Event()
        self._task = asyncio.ensure_future(store.write(self._hold))

    def _hold(self, tx: Transaction) -> None:
        self._reached.set()
        assert self._go.wait(10)

    async def reached(self) -> None:
        await asyncio.sleep(0)
        assert await asyncio.to_thread(self._reached.wait, 10)

    async def release(self) -> None:
        self._go.set()
        await self._task


# -- units of work ---------------------------------------------------------------------------------------------
async def test_what_was_written_is_read_and_is_there_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.write(lambda tx: facts.put(tx, "colour", "blue"))
    assert await value_of(store, "colour") == "blue"
    await store.close()

    store = open_store(tmp_path)
    assert await value_of(store, "colour") == "blue"
    await store.close()


async def test_raising_work_leaves_nothing_and_its_fault_reaches_the_caller(store: SqliteStore) -> None:
    def work(tx: Transaction) -> None:
        facts.put(tx, "half", "x")
        raise Oops

    with pytest.raises(Oops):
        await store.write(work)

    assert await value_of(store, "half") is None


async def test_fault_in_a_batch_hurts_its_own_work_alone(store: SqliteStore) -> None:
    def faulty(tx: Transaction) -> None:
        facts.put(tx, "faulty", "x")
        raise Oops

    blocker = Blocker(store)
    await blocker.reached()
    batch = asyncio.gather(
        store.write(lambda tx: facts.put(tx, "before", "1")),
        store.write(faulty),
        store.write(lambda tx: facts.put(tx, "after", "2")),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    await blocker.release()

    before, fault, after = await batch
    assert (before, after) == (None, None)
    assert isinstance(fault, Oops)
    assert [await value_of(store, name) for name in ("before", "faulty", "after")] == ["1", None, "2"]


async def test_action_runs_on_the_loop_after_the_commit(store: SqliteStore, tmp_path: Path) -> None:
    seen: list[tuple[str, threading.Thread]] = []

    def look() -> None:
        with sqlite3.connect(tmp_path / DATABASE_NAME) as other:
            rows = other.execute("SELECT value FROM facts WHERE name = 'a'").fetchall()
        seen.append((str(rows), threading.current_thread()))

    def work(tx: Transaction) -> None:
        facts.put(tx, "a", "1")
        tx.after_commit(look)
        assert not seen

    await store.write(work)

    assert seen == [("[('1',)]", threading.main_thread())]


async def test_action_of_rolled_back_work_never_runs_and_of_its_neighbours_runs_once(store: SqliteStore) -> None:
    ran: list[str] = []

    def work(name: str, *, fails: bool) -> object:
        def unit(tx: Transaction) -> None:
            tx.after_commit(lambda: ran.append(name))
            if fails:
                raise Oops

        return unit

    blocker = Blocker(store)
    await blocker.reached()
    batch = asyncio.gather(
        *(store.write(work(name, fails=name == "bad")) for name in ("a", "bad", "b")),  # type: ignore[arg-type]
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    await blocker.release()
    await batch

    assert ran == ["a", "b"]


async def test_faulty_action_does_not_keep_its_neighbours_waiting(store: SqliteStore) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    ran: list[str] = []

    def faulty(tx: Transaction) -> None:
        tx.after_commit(lambda: ran.append("".join([1])))  # type: ignore[list-item]  # raises TypeError

    def sound(tx: Transaction) -> str:
        tx.after_commit(lambda: ran.append("sound"))
        return "done"

    blocker = Blocker(store)
    await blocker.reached()
    batch = asyncio.gather(store.write(faulty), store.write(sound))
    await asyncio.sleep(0)
    await blocker.release()

    async with asyncio.timeout(5):
        assert list(await batch) == [None, "done"]
    assert ran == ["sound"]
    assert len(faults) == 1


async def test_caller_that_is_gone_does_not_hurt_its_neighbours(store: SqliteStore) -> None:
    blocker = Blocker(store)
    await blocker.reached()
    gone = asyncio.ensure_future(store.write(lambda tx: facts.put(tx, "gone", "1")))
    kept = asyncio.ensure_future(store.write(lambda tx: facts.put(tx, "kept", "2")))
    await asyncio.sleep(0)
    gone.cancel()
    await blocker.release()
    await kept

    assert await value_of(store, "kept") == "2"


async def test_many_writers_at_once_lose_no_update(store: SqliteStore) -> None:
    def count(tx: Transaction) -> int:
        number = int(facts.get(tx, "count") or 0) + 1
        facts.put(tx, "count", str(number))
        return number

    results = await asyncio.gather(*(store.write(count) for _ in range(300)))

    assert sorted(results) == list(range(1, 301))
    assert await value_of(store, "count") == "300"


# -- other users of the file -----------------------------------------------------------------------------------
async def test_writer_waits_while_another_connection_holds_the_lock(store: SqliteStore, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.write(lambda tx: facts.put(tx, "mine", "1")))
        _, pending = await asyncio.wait([waiting], timeout=0.2)
        assert pending
        assert await value_of(store, "mine") is None  # readers do not wait
        other.execute("INSERT INTO facts VALUES ('theirs', '2')")
        other.execute("COMMIT")
        await waiting

    assert [await value_of(store, name) for name in ("mine", "theirs")] == ["1", "2"]


async def test_one_read_sees_one_moment(store: SqliteStore, tmp_path: Path) -> None:
    def write_beside() -> None:
        with sqlite3.connect(tmp_path / DATABASE_NAME) as other:
            other.execute("INSERT INTO facts VALUES ('late', 'x')")
        other.close()

    def look(tx: Transaction) -> tuple[str | None, str | None]:
        first = facts.get(tx, "late")
        write_beside()
        return first, facts.get(tx, "late")

    assert await store.read(look) == (None, None)
    assert await value_of(store, "late") == "x"


async def test_read_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable):
        await store.read(lambda tx: facts.put(tx, "a", "1"))

    assert await value_of(store, "a") is None


# -- faults of the database ------------------------------------------------------------------------------------
async def test_closed_store_takes_nothing_and_finishes_what_it_took(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    blocker = Blocker(store)
    await blocker.reached()
    waiting = asyncio.ensure_future(store.write(lambda tx: facts.put(tx, "a", "1")))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await store.write(lambda tx: facts.put(tx, "b", "1"))
    await blocker.release()
    await closing
    await waiting

    with pytest.raises(StoreUnavailable):
        await store.read(lambda tx: facts.get(tx, "a"))
    await store.close()  # a second time changes nothing
    again = open_store(tmp_path)
    assert [await value_of(again, name) for name in ("a", "b")] == ["1", None]
    await again.close()


async def test_full_disk_refuses_the_work_whole_and_takes_the_next_that_fits(store: SqliteStore) -> None:
    def limit_pages(tx: Transaction) -> None:
        pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 4}")

    def large(tx: Transaction) -> None:
        facts.put(tx, "small", "x")
        facts.put(tx, "large", "x" * 1_000_000)

    await store.write(limit_pages)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.write(large)
    assert [await value_of(store, name) for name in ("small", "large")] == [None, None]

    await store.write(lambda tx: facts.put(tx, "small", "y"))
    assert await value_of(store, "small") == "y"


async def test_readonly_database_refuses_the_work_and_can_still_be_read(store: SqliteStore) -> None:
    await store.write(lambda tx: facts.put(tx, "a", "1"))
    await store.write(lambda tx: tx.connection.exec_driver_sql("PRAGMA query_only = ON") and None)

    with pytest.raises(StoreUnavailable):
        await store.write(lambda tx: facts.put(tx, "a", "2"))

    assert await value_of(store, "a") == "1"


async def test_refusal_by_the_database_names_no_value(store: SqliteStore) -> None:
    await store.write(lambda tx: tx.connection.exec_driver_sql("PRAGMA query_only = ON") and None)

    with pytest.raises(StoreUnavailable) as refused:
        await store.write(lambda tx: facts.put(tx, "name", "hunter2"))

    assert "hunter2" not in str(refused.value)


# -- the schema ------------------------------------------------------------------------------------------------
def schema_of(path: Path) -> set[tuple[str, str]]:
    """Every table, index and trigger as SQL, spelled alike."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {(name, " ".join(sql.split()).lower()) for name, sql in rows if not name.startswith("alembic")}


def test_migrations_make_the_schema_of_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    migrate(path)

    engine = writer_engine(path)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    engine.dispose()

    assert [change for change in found if "search_" not in str(change) and "alembic" not in str(change)] == []


def test_new_file_gets_the_schema_that_the_migrations_make(tmp_path: Path) -> None:
    made, migrated = tmp_path / "made.db", tmp_path / "migrated.db"
    create(made)
    migrate(migrated)

    def shape(path: Path) -> object:
        engine = writer_engine(path)
        with engine.connect() as connection:
            look = inspect(connection)
            names = sorted(set(look.get_table_names()) - {"alembic_version"})
            shapes = {
                name: (
                    look.get_pk_constraint(name)["constrained_columns"],
                    [(c["name"], str(c["type"]), c["nullable"]) for c in look.get_columns(name)],
                    sorted((str(i["name"]), i["column_names"], i["unique"]) for i in look.get_indexes(name)),
                    sorted(str(u["column_names"]) for u in look.get_unique_constraints(name)),
                    sorted(str(f["constrained_columns"]) for f in look.get_foreign_keys(name)),
                )
                for name in names
            }
        engine.dispose()
        return shapes

    assert shape(made) == shape(migrated)
    partial = {(name, sql) for name, sql in schema_of(made) if " where " in sql}
    assert partial == {(name, sql) for name, sql in schema_of(migrated) if " where " in sql}
    assert schema_version(made) == schema_version(migrated) == HEAD


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(opening.__file__).parent / "migrations"))

    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_database_of_a_newer_program_is_refused_and_untouched(tmp_path: Path) -> None:
    create(tmp_path / DATABASE_NAME)
    with sqlite3.connect(tmp_path / DATABASE_NAME) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()

    with pytest.raises(SchemaMismatch, match="another version"):
        open_store(tmp_path)

    assert schema_version(tmp_path / DATABASE_NAME) == "9999"


async def test_database_is_for_its_owner_alone(store: SqliteStore, tmp_path: Path) -> None:
    assert (tmp_path / DATABASE_NAME).stat().st_mode & 0o077 == 0


# -- the home --------------------------------------------------------------------------------------------------
def test_second_holder_of_a_home_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agent.store.open import home_lock\n"
        "with home_lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HomeLocked, match=str(holder.pid)), home_lock(tmp_path):
            pass
        holder.kill()
    with home_lock(tmp_path):  # a dead holder holds nothing
        pass


# -- plans -----------------------------------------------------------------------------------------------------
class Recorder:
    """The statements that run while it is on, with their parameters."""

    def __init__(self) -> None:
        self.statements: dict[str, object] = {}

    def __enter__(self) -> dict[str, object]:
        event.listen(Engine, "before_cursor_execute", self._record)
        return self.statements

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._record)

    def _record(
        self, connection: object, cursor: object, statement: str, parameters: object, context: object, many: bool
    ) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            self.statements[statement] = parameters


def plan_of(path: Path, statement: str, parameters: object) -> list[str]:
    with sqlite3.connect(path) as database:
        rows = database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()  # type: ignore[arg-type]
    database.close()
    return [row[3] for row in rows]


async def test_every_statement_of_a_start_and_of_a_conversation_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    shell = ToolCall("c1", "shell", {"command": "echo x >> proof.txt"})
    async with Bot(tmp_path, ScriptedLLM()):
        pass
    with Recorder() as statements:
        async with Bot(tmp_path, ScriptedLLM([calls(shell), say("done"), say("again")])) as bot:
            await bot.say("please")
            question = await bot.post("Approval needed")
            await bot.press(question, "a")
            await bot.post("done")
            await bot.say("and again")
            await bot.post("again")
            await bot.say("/status")
            await bot.post("conversation: idle")
            await bot.say("/stop")
            await bot.post("nothing to stop")
            await bot.rest()

    assert len(statements) > 20
    plans = {text: plan_of(tmp_path / DATABASE_NAME, text, parameters) for text, parameters in statements.items()}
    assert [(text, plan) for text, plan in plans.items() if any(is_slow(step) for step in plan)] == []


def is_slow(step: str) -> bool:
    return step.startswith("SCAN") and "INDEX" not in step and step not in ("SCAN CONSTANT ROW", "SCAN alembic_version")


def test_words_in_the_partial_indexes_are_those_of_the_states() -> None:
    assert ApprovalState.OPEN.value == "open"
