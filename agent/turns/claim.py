"""What a runner takes on when it takes over a thread. Runs inside the claiming transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agent.conversation.envelope import Envelope
from agent.conversation.thread_commands import HistoryCommand
from agent.model import ids
from agent.model.ids import ThreadId
from agent.model.session import Thread, Turn, TurnState
from agent.model.submission import Clear, Compact, Redo, Resume, Undo, parse_once, parse_submission
from agent.store import approvals, conversations, inbox, turns
from agent.store.base import Transaction
from agent.store.inbox import Lane, Waiting
from agent.store.turns import Journal
from channels.message import IncomingMessage

MERGE_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class ThreadTask:
    """A command that changes the thread's history, waiting its turn like a message."""

    thread: Thread
    waiting: Waiting
    command: HistoryCommand


def claim(thread_id: ThreadId, now: datetime, tx: Transaction) -> Envelope | ThreadTask | None:
    """Take a thread over: the turn that is open there, or what waits next. None if there is nothing to do."""
    thread = turns.advance(tx, thread_id)
    if thread is None:
        return None
    turn = turns.open_turn(tx, thread_id)
    if turn is None:
        return _begin(tx, thread, now)
    if turn.state is TurnState.WAITING:
        if approvals.open_of(tx, thread_id) is not None:
            return None
        turns.go_on(tx, thread, turn, now)
    messages = tuple(waiting.message for waiting in inbox.of_turn(tx, turn.id))
    return Envelope(thread, turn, messages, turns.journal(tx, turn.id), approvals.decisions(tx, turn.id))


def next_command(thread_id: ThreadId, tx: Transaction) -> tuple[Thread, Waiting] | None:
    """The next command that is answered beside the turns."""
    waiting = inbox.waiting(tx, thread_id, Lane.CONTROL, 1)
    thread = conversations.get(tx, thread_id)
    return (thread, waiting[0]) if waiting and thread else None


def in_one_breath(waiting: Sequence[Waiting]) -> Sequence[Waiting]:
    """The first message and those right after it that belong to it: plain texts of the same place."""
    taken: list[Waiting] = []
    for each in waiting:
        if taken and (each.message.address != taken[0].message.address or stands_alone(each.message)):
            break
        taken.append(each)
        if stands_alone(each.message):
            break
    return taken


def history_command(message: IncomingMessage) -> HistoryCommand | None:
    """The command a message holds, if it changes history."""
    match parse_submission(message):
        case (Undo() | Redo() | Resume() | Clear() | Compact()) as command:
            return command
        case _:
            return None


def stands_alone(message: IncomingMessage) -> bool:
    """Whether a message is served by itself, and never together with others."""
    return parse_once(message.text) is not None or history_command(message) is not None


def _begin(tx: Transaction, thread: Thread, now: datetime) -> Envelope | ThreadTask | None:
    taken = in_one_breath(inbox.waiting(tx, thread.id, Lane.TURN, MERGE_AT_MOST))
    if all(waiting.message.metadata.is_edit for waiting in taken):
        return None  # they are told with the person's next message
    if command := history_command(taken[0].message):
        return ThreadTask(thread, taken[0], command)
    turn = Turn(ids.turn_id(thread.id, taken[0].seq), thread.id, thread.turn_count, TurnState.RUNNING, now)
    messages = tuple(waiting.message for waiting in taken)
    turns.begin(tx, thread, turn, "\n".join(message.text for message in messages))
    inbox.take(tx, thread.id, turn.id, taken[0].seq, taken[-1].seq)
    return Envelope(thread, turn, messages, Journal((), frozenset(), 0), {})
