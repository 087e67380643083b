"""One runner a thread: who was overtaken leaves nothing behind, and the database refuses what must not be twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError

from agent.clock import SystemClock
from agent.conversation.envelope import Envelope
from agent.errors import Fenced
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model import ids
from agent.model.approval import ApprovalState
from agent.model.ids import ThreadId
from agent.model.session import Thread, ThreadState, Turn, TurnState
from agent.model.tool_call import ToolCall
from agent.store import approvals, conversations, outbox, turns
from agent.store.base import Store, Transaction
from agent.store.codec import dump_message
from agent.store.open import open_store
from agent.store.tables import entries, steps
from agent.store.turns import Ending, Journal, StepKind
from agent.turns.journal import StepJournal
from channels.message import OutgoingMessage
from tests.support.builders import NOON, make_message
from tests.unit.agent.store.rows import ASKER, HERE, KEY, begin, database, question, resolve

DONE = Ending(ThreadState.IDLE, TurnState.COMPLETE, (UserText("please"), AssistantTurn("done")), response="done")

NOTHING = Journal((), frozenset(), 0)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with database(tmp_path) as opened:
        yield opened


def started(engine: Engine) -> tuple[Thread, Turn]:
    with engine.begin() as connection:
        return begin(Transaction(connection))


def overtake(engine: Engine, thread: Thread) -> Thread:
    with engine.begin() as connection:
        taken = turns.advance(Transaction(connection), thread.id)
    assert taken is not None
    return taken


def journal_of(store: Store, thread: Thread, turn: Turn, earlier: Journal = NOTHING) -> StepJournal:
    """The journal of a runner that found `earlier`."""
    message = make_message("please", user="5", chat_id="5")
    envelope = Envelope(thread, turn, (message,), earlier, {})
    return StepJournal(store, SystemClock(), envelope, lambda messages: "\n".join(each.text for each in messages))


def stored(tx: Transaction, thread: ThreadId) -> tuple[ChatMessage, ...]:
    """The present history, as the row of the thread tells it."""
    row = conversations.get(tx, thread)
    assert row is not None
    return turns.history(tx, thread, row.view)


def count(engine: Engine, *tables: object) -> list[int]:
    with engine.connect() as connection:
        return [len(connection.execute(select(table)).all()) for table in tables]  # type: ignore[call-overload]


def test_overtaken_runner_settles_nothing(engine: Engine) -> None:
    """Invariant 3."""
    thread, turn = started(engine)
    newer = overtake(engine, thread)

    def commit(tx: Transaction) -> None:
        outbox.add(tx, OutgoingMessage(address=HERE, text="said twice"), NOON)
        turns.settle(tx, thread, turn, DONE, NOON)

    with pytest.raises(Fenced), engine.begin() as connection:
        commit(Transaction(connection))

    with engine.begin() as connection:
        tx = Transaction(connection)
        assert stored(tx, thread.id) == ()
        assert turns.open_turn(tx, thread.id) == turn
        assert outbox.unfinished(tx) == []
        turns.settle(tx, newer, turn, DONE, NOON)
        assert stored(tx, thread.id) == DONE.entries
        assert turns.open_turn(tx, thread.id) is None


async def test_overtaken_runner_journals_nothing(tmp_path: Path) -> None:
    """Invariant 3."""
    store = open_store(tmp_path)
    thread, turn = await store.write(begin)
    journal = journal_of(store, thread, turn)
    await journal.begin([UserText("please")], ["c1"])
    await store.write(lambda tx: turns.advance(tx, thread.id))

    with pytest.raises(Fenced):
        await journal.record([UserText("please"), AssistantTurn("", (ToolCall("c1", "shell"),))])

    kept = await store.read(lambda tx: turns.journal(tx, turn.id))
    assert kept.messages == (UserText("please"),)
    assert kept.begun == {"c1"}
    await store.close()


async def test_journal_writes_each_message_once_and_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    thread, turn = await store.write(begin)
    added: list[ChatMessage] = [UserText("please"), AssistantTurn("", (ToolCall("c1", "shell"),))]
    added.append(ToolResult("c1", "shell", "ok"))
    first = journal_of(store, thread, turn)
    await first.begin(added[:2], ["c1"])
    await first.record(added[:2])
    await first.record(added)
    kept = await store.read(lambda tx: turns.journal(tx, turn.id))

    again = journal_of(store, thread, turn, kept)
    await again.record([*added, AssistantTurn("", (ToolCall("c2", "shell"),))])
    later = await store.read(lambda tx: turns.journal(tx, turn.id))
    await store.close()

    assert kept.messages == tuple(added)
    assert kept.length == 4
    assert later.messages == (*added, AssistantTurn("", (ToolCall("c2", "shell"),)))


def test_settled_turn_leaves_no_journal_and_a_waiting_one_keeps_it(engine: Engine) -> None:
    thread, turn = started(engine)
    waiting = Ending(ThreadState.AWAITING_APPROVAL, TurnState.WAITING)
    with engine.begin() as connection:
        tx = Transaction(connection)
        turns.add_steps(tx, turn.id, 0, [(StepKind.MESSAGE, dump_message(UserText("please")))], NOON)
        turns.settle(tx, thread, turn, waiting, NOON)
    assert count(engine, steps, entries) == [1, 0]

    with engine.begin() as connection:
        turns.settle(Transaction(connection), thread, turn, DONE, NOON)
    assert count(engine, steps, entries) == [0, 2]


def test_history_grows_at_its_end(engine: Engine) -> None:
    thread, turn = started(engine)
    with engine.begin() as connection:
        turns.settle(Transaction(connection), thread, turn, DONE, NOON)
    with engine.begin() as connection:
        thread, turn = begin(Transaction(connection), seq=2)
    assert (thread.entry_count, turn.number) == (2, 1)
    more = replace(DONE, entries=(UserText("more"), AssistantTurn("ok")))
    with engine.begin() as connection:
        tx = Transaction(connection)
        turns.settle(tx, thread, turn, more, NOON)
        assert stored(tx, thread.id) == DONE.entries + more.entries
        assert stored(tx, thread.id)[3:] == (AssistantTurn("ok"),)
        assert [record.number for record in turns.records(tx, thread.id)] == [0, 1]


def test_second_open_turn_of_a_thread_is_refused(engine: Engine) -> None:
    """Invariant 3."""
    started(engine)

    with pytest.raises(IntegrityError), engine.begin() as connection:
        begin(Transaction(connection), seq=2)


def test_second_open_question_of_a_thread_is_refused_until_the_first_is_closed(engine: Engine) -> None:
    """Invariant 4."""
    thread, turn = started(engine)
    first, second = question(thread, turn, "c1"), question(thread, turn, "c2")
    with engine.begin() as connection:
        approvals.add(Transaction(connection), first, HERE)

    with pytest.raises(IntegrityError), engine.begin() as connection:
        approvals.add(Transaction(connection), second, HERE)

    with engine.begin() as connection:
        tx = Transaction(connection)
        assert approvals.close(tx, first.id, ApprovalState.DENIED, ASKER, NOON)
        assert not approvals.close(tx, first.id, ApprovalState.APPROVED, ASKER, NOON)
        approvals.add(tx, second, HERE)
        assert approvals.open_of(tx, thread.id) == second
        decisions = approvals.decisions(tx, turn.id)
        assert {call: each.state for call, each in decisions.items()} == {
            "c1": ApprovalState.DENIED,
            "c2": ApprovalState.OPEN,
        }
        assert approvals.by_id(tx, first.id) == replace(first, state=ApprovalState.DENIED)
        assert approvals.asked_at(tx, second.id) == HERE


def test_question_is_due_from_its_expiry_on(engine: Engine) -> None:
    thread, turn = started(engine)
    pending = question(thread, turn)
    with engine.begin() as connection:
        tx = Transaction(connection)
        assert approvals.next_expiry(tx) is None
        approvals.add(tx, pending, HERE)
        assert approvals.next_expiry(tx) == pending.expires_at
        assert approvals.due(tx, pending.created_at) == []
        assert approvals.due(tx, pending.expires_at) == [pending]


def test_same_reply_cannot_be_added_twice(engine: Engine) -> None:
    """Invariant 3."""
    message = OutgoingMessage(address=HERE, text="hi")
    with engine.begin() as connection:
        outbox.add(Transaction(connection), message, NOON)

    with pytest.raises(IntegrityError), engine.begin() as connection:
        outbox.add(Transaction(connection), message, NOON)


def test_two_first_messages_make_one_thread(engine: Engine) -> None:
    with engine.begin() as connection:
        tx = Transaction(connection)
        first, second = resolve(tx), resolve(tx)

    assert first == second
    assert first.id == ids.thread_id(KEY, 0)


def test_new_thread_takes_the_key_over(engine: Engine) -> None:
    with engine.begin() as connection:
        tx = Transaction(connection)
        old = resolve(tx)
        new = conversations.open_thread(tx, KEY, HERE, old.chat_type, NOON, generation=1)
        assert resolve(tx) == new != old
        assert conversations.newest_generation(tx, KEY) == 1
        assert conversations.get(tx, old.id) == old


def test_thread_that_does_not_exist_cannot_be_taken_over(engine: Engine) -> None:
    with engine.begin() as connection:
        assert turns.advance(Transaction(connection), ids.thread_id(KEY, 9)) is None
