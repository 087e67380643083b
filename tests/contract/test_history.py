"""A stored conversation, read by views: any view gives its messages, and a short one costs the same in a long past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, event, insert

from agent.conversation.memories import ThreadMemories
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model import ids
from agent.model.history import HistoryView
from agent.model.session import Thread
from agent.model.tool_call import ToolCall
from agent.store import conversations, turns
from agent.store.base import Transaction, Work
from agent.store.codec import dump_message
from agent.store.tables import entries
from tests.support.builders import NOON
from tests.unit.agent.store.rows import HERE, KEY, database, resolve

T = TypeVar("T")
COUNT = 60


def message(position: int) -> ChatMessage:
    """The message at a position: a person's, a call, its result, an answer, and so on."""
    turn, kind = divmod(position, 4)
    match kind:
        case 0:
            return UserText(f"question {turn} é\n\"'")
        case 1:
            return AssistantTurn("", (ToolCall(f"c{turn}", "echo", {"message": ["é", None]}),))
        case 2:
            return ToolResult(f"c{turn}", "echo", f"result {turn}", is_error=turn % 2 == 1)
        case _:
            return AssistantTurn(f"answer {turn}")


def fill(tx: Transaction, thread: Thread, messages: Sequence[ChatMessage]) -> None:
    rows = [
        {
            "thread_id": thread.id,
            "position": position,
            "turn_id": ids.turn_id(thread.id, position // 4),
            "body": dump_message(each),
        }
        for position, each in enumerate(messages)
    ]
    tx.connection.execute(insert(entries), rows)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Thread]]:
    """A thread with 60 messages, and another one with as many beside it."""
    with database(tmp_path_factory.mktemp("past")) as engine:
        with engine.begin() as connection:
            tx = Transaction(connection)
            thread = resolve(tx)
            other = conversations.open_thread(tx, KEY, HERE, thread.chat_type, NOON, generation=1)
            fill(tx, thread, [message(position) for position in range(COUNT)])
            fill(tx, other, [UserText("not of this thread")] * COUNT)
        yield engine, thread


views = st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(1, 25)), max_size=6).map(
    lambda spans: HistoryView(tuple((start, min(start + size, COUNT)) for start, size in spans))
)


@given(view=views)
def test_any_view_gives_its_messages_in_its_order(past: tuple[Engine, Thread], view: HistoryView) -> None:
    engine, thread = past
    with engine.connect() as connection:
        tx = Transaction(connection)
        history, owners = turns.history(tx, thread.id, view), turns.owners(tx, thread.id, view)

    assert history == tuple(message(position) for position in view.positions())
    assert owners == [ids.turn_id(thread.id, position // 4) for position in view.positions()]


@given(view=views)
def test_view_stays_the_same_through_its_column(past: tuple[Engine, Thread], view: HistoryView) -> None:
    engine, thread = past
    with engine.begin() as connection:
        tx = Transaction(connection)
        claimed = turns.advance(tx, thread.id)
        assert claimed is not None
        turns.change_view(tx, claimed, view, NOON)
        found = conversations.get(tx, thread.id)

    assert found is not None
    assert found.view == view


# -- what reading costs -----------------------------------------------------------------------------------------------
class CountingStore:
    """A store that counts what SQLite does for each read, in steps of its machine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.steps = 0

    async def write(self, work: Work[T]) -> T:
        with self._engine.begin() as connection:
            return work(Transaction(connection))

    async def read(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.set_progress_handler(self._count, 1)
            try:
                return work(Transaction(connection))
            finally:
                raw.set_progress_handler(None, 0)

    async def read_in_thread(self, work: Work[T]) -> T:
        return await self.read(work)

    async def close(self) -> None: ...

    def _count(self) -> None:
        self.steps += 1


async def cost_of_taking_up(folder: Path, count: int, view: HistoryView) -> tuple[int, tuple[ChatMessage, ...]]:
    """What a process that knows nothing of a thread reads for its next prompt."""
    with database(folder) as engine:
        store = CountingStore(engine)

        def prepare(tx: Transaction) -> Thread:
            thread = resolve(tx)
            fill(tx, thread, [message(position) for position in range(count)])
            return replace(thread, view=view, turn_count=count // 4)

        thread = await store.write(prepare)
        memory = await ThreadMemories(store).load(thread)
    return store.steps, memory.history


async def test_short_view_costs_the_same_in_a_short_and_in_a_long_past(tmp_path: Path) -> None:
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    short, _ = await cost_of_taking_up(tmp_path / "short", 200, HistoryView(((0, 1), (180, 200))))
    long, history = await cost_of_taking_up(tmp_path / "long", 20_000, HistoryView(((0, 1), (19_980, 20_000))))

    assert len(history) == 21
    assert long <= short * 1.1


def test_history_is_read_along_the_primary_key(past: tuple[Engine, Thread]) -> None:
    engine, thread = past
    plans: list[str] = []
    with engine.connect() as connection:

        @event.listens_for(connection, "before_cursor_execute")
        def explain(_c: object, cursor: Any, statement: str, parameters: object, _x: object, _many: object) -> None:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[-1] for row in cursor.fetchall())

        turns.history(Transaction(connection), thread.id, HistoryView(((0, 1), (50, 60))))

    span = "SEARCH entries USING INDEX sqlite_autoindex_entries_1 (thread_id=? AND position>? AND position<?)"
    assert plans == [span, span]
