"""Opens the database of an installation: one process on its home, schema up to date."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import inspect

from agent.store.errors import HomeLocked, SchemaMismatch
from agent.store.search import SEARCH_DDL
from agent.store.sqlite import SqliteStore, writer_engine
from agent.store.tables import metadata

HEAD = "0004"
"""The newest migration; a test holds it against the migrations folder."""

DATABASE_NAME = "optimclaw.db"


@contextmanager
def home_lock(home: Path) -> Iterator[None]:
    """Hold the home for this process. Raises HomeLocked if another process of ours has it."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise HomeLocked(holder) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def open_store(home: Path) -> SqliteStore:
    """The store of an installation, its schema brought up to date first. Blocks for a moment: call it at start."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = home / DATABASE_NAME
    if not path.exists():
        path.touch(mode=0o600)
    version = schema_version(path)
    if version is None:
        create(path)
    elif version != HEAD:
        migrate(path)
    return SqliteStore(path)


def schema_version(path: Path) -> str | None:
    """The migration the file is at, or None for a new file."""
    engine = writer_engine(path)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    finally:
        engine.dispose()


def create(path: Path) -> None:
    """Make the schema of a new file in one step. A test holds it against what the migrations make.

    Alembic stays unloaded: it would cost every first start 0.1 s and 12 MiB.
    """
    engine = writer_engine(path)
    try:
        with engine.begin() as connection:
            metadata.create_all(connection)
            for statement in SEARCH_DDL:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD,))
    finally:
        engine.dispose()


def migrate(path: Path) -> None:
    """Bring the file to `HEAD`. Raises SchemaMismatch if a newer program wrote it."""
    from alembic import command  # loaded only when there is something to migrate: it takes a while
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["engine"] = engine = writer_engine(path)
    try:
        command.upgrade(config, HEAD)
    except CommandError as error:
        raise SchemaMismatch(
            "the database was written by another version of optimclaw; update the program or restore a backup"
        ) from error
    finally:
        engine.dispose()
