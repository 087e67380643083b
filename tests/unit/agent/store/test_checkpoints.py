"""Points to go back to and forward to again, beside two plain lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from agent.model import ids
from agent.model.history import HistoryView
from agent.model.ids import ThreadId, TurnId
from agent.model.session import Turn, TurnState
from agent.store import checkpoints
from agent.store.base import Transaction
from agent.store.checkpoints import MOST_UNDO, Kind
from agent.store.tables import metadata
from tests.support.builders import NOON
from tests.unit.agent.store.rows import KEY

HERE = ids.thread_id(KEY, 0)
ELSEWHERE = ids.thread_id(KEY, 1)


@contextmanager
def rows() -> Iterator[Transaction]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        metadata.create_all(connection)
        yield Transaction(connection)
    engine.dispose()


@pytest.fixture
def tx() -> Iterator[Transaction]:
    with rows() as opened:
        yield opened


def view(number: int) -> HistoryView:
    """A history that no other number has."""
    return HistoryView(((0, number),)) if number else HistoryView()


def end_turn(tx: Transaction, number: int, thread: ThreadId = HERE) -> None:
    """Turn `number` has ended; the history before it was `view(number)`."""
    turn = Turn(TurnId(uuid4()), thread, number, TurnState.RUNNING, NOON)
    checkpoints.before_turn(tx, turn, view(number), NOON)


def points(tx: Transaction, kind: Kind = Kind.UNDO, thread: ThreadId = HERE) -> list[HistoryView]:
    """The points of a thread, oldest first."""
    return [point.view for point in reversed(checkpoints.listing(tx, thread, kind))]


def test_twenty_points_are_kept_and_the_oldest_goes_first(tx: Transaction) -> None:
    for number in range(MOST_UNDO + 5):
        end_turn(tx, number)

    assert MOST_UNDO == 20
    assert points(tx) == [view(number) for number in range(5, 25)]


def test_points_say_which_turn_they_lie_before(tx: Transaction) -> None:
    end_turn(tx, 0)
    end_turn(tx, 1)

    newest, oldest = checkpoints.listing(tx, HERE)
    assert (newest.turn_number, newest.description) == (1, "before turn 2")
    assert (oldest.turn_number, oldest.description) == (0, "before turn 1")


def test_limit_is_a_threads_own(tx: Transaction) -> None:
    end_turn(tx, 7, ELSEWHERE)
    for number in range(MOST_UNDO + 5):
        end_turn(tx, number)

    assert points(tx, thread=ELSEWHERE) == [view(7)]


def test_undoing_everything_and_redoing_it_keeps_every_point(tx: Transaction) -> None:
    for number in range(MOST_UNDO):
        end_turn(tx, number)
    present = view(MOST_UNDO)
    for _ in range(MOST_UNDO):
        point = checkpoints.undo(tx, HERE, present, NOON)
        assert point is not None
        present = point.view
    assert checkpoints.undo(tx, HERE, present, NOON) is None
    for _ in range(MOST_UNDO):
        point = checkpoints.redo(tx, HERE, present, NOON)
        assert point is not None
        present = point.view

    assert present == view(MOST_UNDO)
    assert points(tx) == [view(number) for number in range(MOST_UNDO)]


def test_point_of_another_thread_or_one_forward_is_no_point_to_resume(tx: Transaction) -> None:
    end_turn(tx, 0)
    end_turn(tx, 1)
    end_turn(tx, 0, ELSEWHERE)
    checkpoints.undo(tx, HERE, view(2), NOON)
    foreign, forward = checkpoints.listing(tx, ELSEWHERE)[0], checkpoints.listing(tx, HERE, Kind.REDO)[0]

    assert checkpoints.restore(tx, HERE, foreign.id) is None
    assert checkpoints.restore(tx, HERE, forward.id) is None
    assert checkpoints.restore(tx, HERE, uuid4()) is None
    assert (points(tx), points(tx, Kind.REDO)) == ([view(0)], [view(2)])


def test_point_can_be_resumed_once(tx: Transaction) -> None:
    end_turn(tx, 0)
    point = checkpoints.listing(tx, HERE)[0]

    assert checkpoints.restore(tx, HERE, point.id) == point
    assert checkpoints.restore(tx, HERE, point.id) is None


def test_clearing_leaves_other_threads_alone(tx: Transaction) -> None:
    end_turn(tx, 0)
    end_turn(tx, 1)
    end_turn(tx, 0, ELSEWHERE)
    checkpoints.undo(tx, HERE, view(2), NOON)
    checkpoints.clear(tx, HERE)

    assert (points(tx), points(tx, Kind.REDO)) == ([], [])
    assert points(tx, thread=ELSEWHERE) == [view(0)]


steps = st.one_of(
    st.sampled_from(("turn", "turn", "turn", "undo", "undo", "redo", "clear")),
    st.integers(0, 25),
)


@given(st.lists(steps, max_size=60))
def test_any_way_back_and_forth_is_that_of_two_lists(walk: list[str | int]) -> None:
    undo: list[HistoryView] = []
    redo: list[HistoryView] = []
    present, turns = view(0), 0
    with rows() as tx:
        for step in walk:
            match step:
                case "turn":
                    turns += 1
                    turn = Turn(TurnId(uuid4()), HERE, turns, TurnState.RUNNING, NOON)
                    checkpoints.before_turn(tx, turn, present, NOON)
                    undo, redo, present = [*undo, present][-MOST_UNDO:], [], view(turns)
                case "undo":
                    point = checkpoints.undo(tx, HERE, present, NOON)
                    assert (point is None) == (not undo)
                    if point:
                        redo.append(present)
                        present = undo.pop()
                        assert point.view == present
                case "redo":
                    point = checkpoints.redo(tx, HERE, present, NOON)
                    assert (point is None) == (not redo)
                    if point:
                        undo.append(present)
                        present = redo.pop()
                        assert point.view == present
                case "clear":
                    checkpoints.clear(tx, HERE)
                    undo, redo, present = [], [], view(0)
                case int() as at if undo:
                    at %= len(undo)
                    wanted = list(reversed(checkpoints.listing(tx, HERE)))[at]
                    restored = checkpoints.restore(tx, HERE, wanted.id)
                    assert restored is not None
                    assert restored.view == undo[at]
                    present, undo, redo = undo[at], undo[:at], []
                case _:
                    pass
            assert points(tx) == undo
            assert points(tx, Kind.REDO) == redo
