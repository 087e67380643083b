"""What a thread may do next: a closed table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InvalidTransition
from agent.model.session import ThreadEvent, ThreadState, TurnState, next_state


def answer(state: ThreadState, event: ThreadEvent) -> ThreadState | InvalidTransition:
    try:
        return next_state(state, event)
    except InvalidTransition as error:
        return error


EVENTS = st.lists(st.sampled_from(ThreadEvent), max_size=30)


@given(EVENTS)
def test_no_sequence_of_events_leads_to_an_undefined_state(events: list[ThreadEvent]) -> None:
    state = ThreadState.IDLE
    for event in events:
        after = answer(state, event)
        if isinstance(after, InvalidTransition):
            assert (after.state, after.event) == (state, event)
        else:
            assert isinstance(after, ThreadState)
            assert after is not state
            state = after


@pytest.mark.parametrize("state", ThreadState)
def test_every_state_can_be_left_and_reached(state: ThreadState) -> None:
    assert any(isinstance(answer(state, event), ThreadState) for event in ThreadEvent)
    assert any(answer(other, event) is state for other in ThreadState for event in ThreadEvent)


@pytest.mark.parametrize("state", [s for s in ThreadState if s not in (ThreadState.IDLE, ThreadState.INTERRUPTED)])
def test_input_is_taken_by_a_thread_at_rest_only(state: ThreadState) -> None:
    with pytest.raises(InvalidTransition):
        next_state(state, ThreadEvent.INPUT)


@pytest.mark.parametrize("event", [ThreadEvent.APPROVED, ThreadEvent.DENIED])
@pytest.mark.parametrize("state", [s for s in ThreadState if s is not ThreadState.AWAITING_APPROVAL])
def test_an_answer_means_nothing_where_nothing_was_asked(state: ThreadState, event: ThreadEvent) -> None:
    with pytest.raises(InvalidTransition):
        next_state(state, event)


def test_an_approved_call_goes_on_and_a_denied_one_rests() -> None:
    assert next_state(ThreadState.AWAITING_APPROVAL, ThreadEvent.APPROVED) is ThreadState.PROCESSING
    assert next_state(ThreadState.AWAITING_APPROVAL, ThreadEvent.DENIED) is ThreadState.IDLE


def test_only_running_and_waiting_turns_are_open() -> None:
    assert [state for state in TurnState if state.is_open] == [TurnState.RUNNING, TurnState.WAITING]
