"""Turns, their journal, and the history they add to. Whatever a runner writes here is fenced by the thread's epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import RowMapping, bindparam, delete, insert, select, update

from agent.errors import Fenced
from agent.llm.messages import ChatMessage, ToolResult
from agent.model.history import HistoryView
from agent.model.ids import ThreadId, TurnId
from agent.model.session import Thread, ThreadState, Turn, TurnState
from agent.store import checkpoints, conversations
from agent.store.base import Transaction
from agent.store.codec import dump_message, load_message
from agent.store.sql import upsert
from agent.store.tables import archive, entries, steps, threads, turns

_ADVANCE = (
    update(threads)
    .where(threads.c.id == bindparam("thread"))
    .values(epoch=threads.c.epoch + 1)
    .returning(threads.c.epoch)
)
_OPEN = select(turns).where(turns.c.thread_id == bindparam("thread"), turns.c.finished_at.is_(None))
_BEGIN = insert(turns)
_PROCESSING = (
    update(threads)
    .where(threads.c.id == bindparam("thread"))
    .values(state=bindparam("new_state"), turn_count=bindparam("count"), updated_at=bindparam("now"))
)
_PLACE = select(threads.c.epoch, threads.c.view, threads.c.entry_count).where(threads.c.id == bindparam("thread"))
_SETTLE_THREAD = (
    update(threads)
    .where(threads.c.id == bindparam("thread"), threads.c.epoch == bindparam("fence"))
    .values(
        state=bindparam("new_state"),
        entry_count=bindparam("new_count"),
        view=bindparam("new_view"),
        updated_at=bindparam("now"),
        title=bindparam("new_title"),
    )
)
_SETTLE_TURN = (
    update(turns)
    .where(turns.c.id == bindparam("turn"))
    .values(
        state=bindparam("new_state"),
        response=bindparam("new_response"),
        error=bindparam("new_error"),
        finished_at=bindparam("end"),
    )
)
_ADD_ENTRIES = insert(entries)
_ADD_STEPS = insert(steps)
_STEPS = select(steps.c.kind, steps.c.body).where(steps.c.turn_id == bindparam("turn")).order_by(steps.c.number)
_CLEAR_STEPS = delete(steps).where(steps.c.turn_id == bindparam("turn"))
_ENTRIES = (
    select(entries.c.body)
    .where(
        entries.c.thread_id == bindparam("thread"),
        entries.c.position >= bindparam("start"),
        entries.c.position < bindparam("end"),
    )
    .order_by(entries.c.position)
)


class StepKind(StrEnum):
    """`MESSAGE`: something the turn's context holds. `BEGUN`: a call was started; its body is the call's id."""

    MESSAGE = "message"
    BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class Journal:
    """What an open turn has done so far. `begun` are calls without a result: their outcome is unknown."""

    messages: tuple[ChatMessage, ...]
    begun: frozenset[str]
    length: int


def advance(tx: Transaction, thread: ThreadId) -> Thread | None:
    """Take the thread over: whoever ran it before is fenced off. None if there is no such thread."""
    if tx.connection.execute(_ADVANCE, {"thread": thread}).first() is None:
        return None
    return conversations.get(tx, thread)


def open_turn(tx: Transaction, thread: ThreadId) -> Turn | None:
    """The turn of a thread that is running or waiting."""
    row = tx.connection.execute(_OPEN, {"thread": thread}).mappings().first()
    return None if row is None else _turn(row)


def begin(tx: Transaction, thread: Thread, turn: Turn, user_input: str) -> None:
    """A new turn of an idle thread."""
    tx.connection.execute(
        _BEGIN,
        {
            "id": turn.id,
            "thread_id": thread.id,
            "number": turn.number,
            "state": TurnState.RUNNING,
            "user_input": user_input,
            "started_at": turn.started_at,
        },
    )
    tx.connection.execute(
        _PROCESSING,
        {
            "thread": thread.id,
            "new_state": ThreadState.PROCESSING,
            "count": turn.number + 1,
            "now": turn.started_at,
        },
    )


def go_on(tx: Transaction, thread: Thread, turn: Turn, now: datetime) -> None:
    """An answered turn runs again."""
    tx.connection.execute(update(turns).where(turns.c.id == turn.id).values(state=TurnState.RUNNING))
    tx.connection.execute(
        _PROCESSING,
        {"thread": thread.id, "new_state": ThreadState.PROCESSING, "count": thread.turn_count, "now": now},
    )


def request_stop(tx: Transaction, turn: TurnId) -> None:
    """Note durably that the turn is to stop: a lost signal delays it, never loses it."""
    tx.connection.execute(update(turns).where(turns.c.id == turn).values(stop_requested=True))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread's history stands: its view, and the position of the next message."""

    view: HistoryView
    next_position: int


def is_to_stop(tx: Transaction, turn: TurnId) -> bool:
    """Whether a stop was asked for, perhaps after the turn was claimed."""
    return bool(tx.connection.execute(select(turns.c.stop_requested).where(turns.c.id == turn)).scalar())


def fenced_place(tx: Transaction, thread: ThreadId, epoch: int) -> Place:
    """Where the history stands; raises Fenced if somebody has taken the thread over since `epoch`."""
    row = tx.connection.execute(_PLACE, {"thread": thread}).first()
    if row is None or row.epoch != epoch:
        raise Fenced
    return Place(HistoryView.load(row.view), row.entry_count)


def add_steps(tx: Transaction, turn: TurnId, start: int, added: Sequence[tuple[StepKind, str]], now: datetime) -> None:
    """Write journal steps, the first with number `start`."""
    if added:
        tx.connection.execute(
            _ADD_STEPS,
            [
                {"turn_id": turn, "number": start + index, "kind": kind, "body": body, "at": now}
                for index, (kind, body) in enumerate(added)
            ],
        )


def journal(tx: Transaction, turn: TurnId) -> Journal:
    """What a turn has done so far."""
    messages: list[ChatMessage] = []
    begun: set[str] = set()
    rows = tx.connection.execute(_STEPS, {"turn": turn}).all()
    for row in rows:
        match StepKind(row.kind):
            case StepKind.MESSAGE:
                messages.append(load_message(row.body))
            case StepKind.BEGUN:
                begun.add(row.body)
    return Journal(tuple(messages), frozenset(begun), len(rows))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn leaves its thread. `entries` are added to the history; none while it waits."""

    thread_state: ThreadState
    turn_state: TurnState
    entries: tuple[ChatMessage, ...] = ()
    response: str | None = None
    error: str | None = None
    title: str = ""


def settle(tx: Transaction, thread: Thread, turn: Turn, ending: Ending, now: datetime) -> HistoryView:
    """Commit what a runner did, and give the history it leaves.

    Raises Fenced, and so leaves nothing behind, if the runner was overtaken.
    """
    place = fenced_place(tx, thread.id, thread.epoch)
    view = place.view.with_added(place.next_position, len(ending.entries))
    values = {
        "thread": thread.id,
        "fence": thread.epoch,
        "new_state": ending.thread_state,
        "new_count": place.next_position + len(ending.entries),
        "new_view": view.dump(),
        "now": now,
        "new_title": thread.title or ending.title,
    }
    if not tx.connection.execute(_SETTLE_THREAD, values).rowcount:
        raise Fenced
    add_entries(tx, thread.id, turn.id, place.next_position, ending.entries)
    tx.connection.execute(
        _SETTLE_TURN,
        {
            "turn": turn.id,
            "new_state": ending.turn_state,
            "new_response": ending.response,
            "new_error": ending.error,
            "end": None if ending.turn_state.is_open else now,
        },
    )
    if not ending.turn_state.is_open:
        tx.connection.execute(_CLEAR_STEPS, {"turn": turn.id})
        checkpoints.before_turn(tx, turn, place.view, now)
    return view


def add_entries(tx: Transaction, thread: ThreadId, turn: UUID, start: int, messages: Sequence[ChatMessage]) -> None:
    """Store messages from position `start` on; a view decides whether models see them."""
    if messages:
        rows = [
            {"thread_id": thread, "position": start + index, "turn_id": turn, "body": dump_message(message)}
            for index, message in enumerate(messages)
        ]
        tx.connection.execute(_ADD_ENTRIES, rows)


def change_view(tx: Transaction, thread: Thread, view: HistoryView, now: datetime, *, added: int = 0) -> None:
    """Let the thread's history be `view`, behind the fence; `added` messages were stored for it."""
    place = fenced_place(tx, thread.id, thread.epoch)
    values = {"view": view.dump(), "entry_count": place.next_position + added, "updated_at": now}
    tx.connection.execute(update(threads).where(threads.c.id == thread.id).values(values))


def rest(tx: Transaction, thread: Thread) -> None:
    """A thread without an open turn is idle, however its last turn ended."""
    tx.connection.execute(update(threads).where(threads.c.id == thread.id).values(state=ThreadState.IDLE))


def history(tx: Transaction, thread: ThreadId, view: HistoryView) -> tuple[ChatMessage, ...]:
    """The messages of a view, in its order."""
    return tuple(
        load_message(body)
        for start, end in view.spans
        for body in tx.connection.execute(_ENTRIES, {"thread": thread, "start": start, "end": end}).scalars()
    )


def owners(tx: Transaction, thread: ThreadId, view: HistoryView) -> list[UUID]:
    """Which turn each message of a view belongs to, in its order."""
    found: list[UUID] = []
    for start, end in view.spans:
        rows = tx.connection.execute(
            select(entries.c.turn_id)
            .where(entries.c.thread_id == thread, entries.c.position >= start, entries.c.position < end)
            .order_by(entries.c.position)
        )
        found += rows.scalars()
    return found


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as a page shows it."""

    id: TurnId
    number: int
    state: TurnState
    user_input: str
    response: str | None
    error: str | None
    started_at: datetime
    finished_at: datetime | None


def records(tx: Transaction, thread: ThreadId, limit: int = 200) -> Sequence[TurnRecord]:
    """The last turns of a thread, oldest first."""
    rows = tx.connection.execute(
        select(turns).where(turns.c.thread_id == thread).order_by(turns.c.number.desc()).limit(limit)
    ).mappings()
    return [
        TurnRecord(
            TurnId(row["id"]),
            row["number"],
            TurnState(row["state"]),
            row["user_input"],
            row["response"],
            row["error"],
            row["started_at"],
            row["finished_at"],
        )
        for row in reversed(list(rows))
    ]


def messages_of(tx: Transaction, thread: ThreadId, turn: TurnId) -> tuple[ChatMessage, ...]:
    """What a finished turn added to the history, in order."""
    rows = tx.connection.execute(
        select(entries.c.body)
        .where(entries.c.thread_id == thread, entries.c.turn_id == turn)
        .order_by(entries.c.position)
    )
    return tuple(load_message(body) for body in rows.scalars())


def tool_calls(tx: Transaction, thread: ThreadId, of: Sequence[TurnId]) -> dict[TurnId, list[ToolResult]]:
    """The results of the tool calls of these turns, in order."""
    rows = tx.connection.execute(
        select(entries.c.turn_id, entries.c.body)
        .where(entries.c.thread_id == thread, entries.c.turn_id.in_(of), entries.c.body.startswith('{"r"'))
        .order_by(entries.c.position)
    )
    found: dict[TurnId, list[ToolResult]] = {}
    for row in rows:
        message = load_message(row.body)
        assert isinstance(message, ToolResult)
        found.setdefault(TurnId(row.turn_id), []).append(message)
    return found


def unfinished(tx: Transaction) -> Sequence[ThreadId]:
    """Threads with a turn that was running when the process ended."""
    rows = tx.connection.execute(
        select(turns.c.thread_id).where(turns.c.finished_at.is_(None), turns.c.state == TurnState.RUNNING)
    )
    return [ThreadId(thread) for thread in rows.scalars()]


# -- whole tool outputs --------------------------------------------------------------------------------------------
def stash(tx: Transaction, thread: ThreadId, call_id: str, tool: str, body: str, now: datetime) -> None:
    """Keep the whole of an output that is shown cut."""
    upsert(tx, archive, {"thread_id": thread, "call_id": call_id, "tool": tool, "body": body, "at": now})


def stashed(tx: Transaction, thread: ThreadId, call_id: str) -> str | None:
    """The whole output of an earlier call of this thread."""
    return tx.connection.execute(
        select(archive.c.body).where(archive.c.thread_id == thread, archive.c.call_id == call_id)
    ).scalar()


def _turn(row: RowMapping) -> Turn:
    return Turn(
        id=TurnId(row["id"]),
        thread=ThreadId(row["thread_id"]),
        number=row["number"],
        state=TurnState(row["state"]),
        started_at=row["started_at"],
        stop_requested=row["stop_requested"],
    )
