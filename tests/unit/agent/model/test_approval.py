"""Only the right person's yes, in the right place, to the very question, in time, releases a call. Invariant 4."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.approval import (
    Answer,
    ApprovalState,
    ConsentPlace,
    Decided,
    NotDecided,
    PendingApproval,
    decide,
)
from agent.model.ids import OPERATOR, ApprovalId, ThreadId, TurnId, UserId
from channels.message import Address, ChatType
from tests.support.builders import NOON

ASKER = UserId("telegram:5")
PENDING = PendingApproval(
    id=ApprovalId(UUID(int=7)),
    thread=ThreadId(UUID(int=1)),
    turn=TurnId(UUID(int=2)),
    call_id="call_1",
    tool="shell",
    description="Run a command.",
    display={"command": "ls"},
    requested_by=ASKER,
    channel="telegram",
    place=ConsentPlace("private"),
    may_be_always=True,
    created_at=NOON,
    expires_at=NOON + timedelta(hours=24),
)
YES = Answer(ASKER, "telegram", approved=True, always=False)

USERS = st.sampled_from([ASKER, OPERATOR, UserId("telegram:6"), UserId("slack:5"), UserId("")])
CHANNELS = st.sampled_from(["telegram", "slack", "discord", "web", "console", ""])
NAMED = st.sampled_from([None, UUID(int=7), UUID(int=8)])
ANSWERS = st.builds(Answer, USERS, CHANNELS, st.booleans(), st.booleans(), NAMED)
PENDINGS = st.builds(
    replace,
    st.just(PENDING),
    state=st.sampled_from(ApprovalState),
    may_be_always=st.booleans(),
    channel=st.sampled_from(["telegram", "slack", "web"]),
    requested_by=st.sampled_from([ASKER, OPERATOR]),
)
MOMENTS = st.sampled_from(
    [NOON, NOON + timedelta(hours=24, microseconds=-1), NOON + timedelta(hours=24), NOON + timedelta(days=9)]
)


@given(PENDINGS, ANSWERS, MOMENTS)
def test_nothing_is_released_for_the_wrong_person_place_question_or_time(
    pending: PendingApproval, answer: Answer, now: datetime
) -> None:
    decided = decide(pending, answer, now)

    may_answer = (
        answer.user == pending.requested_by
        and answer.names in (None, pending.id)
        and (answer.channel == pending.channel or answer.channel in ("web", "console"))
        and pending.state is ApprovalState.OPEN
        and now < pending.expires_at
    )
    if not may_answer:
        assert isinstance(decided, NotDecided)
        assert decided.reason
    else:
        state = ApprovalState.APPROVED if answer.approved else ApprovalState.DENIED
        assert decided == Decided(state, answer.approved and answer.always and pending.may_be_always)


@pytest.mark.parametrize("state", [state for state in ApprovalState if state is not ApprovalState.OPEN])
def test_a_settled_question_stays_as_it_is(state: ApprovalState) -> None:
    assert isinstance(decide(replace(PENDING, state=state), YES, NOON), NotDecided)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ApprovalState.EXPIRED, "That question has expired; nothing was run."),
        (ApprovalState.CANCELLED, "That question was cancelled; nothing was run."),
    ],
)
def test_a_question_that_nobody_answered_is_not_called_answered(state: ApprovalState, reason: str) -> None:
    assert decide(replace(PENDING, state=state), YES, NOON) == NotDecided(reason)


def test_an_answer_counts_until_the_question_expires_and_no_longer() -> None:
    assert isinstance(decide(PENDING, YES, PENDING.expires_at - timedelta(microseconds=1)), Decided)
    assert isinstance(decide(PENDING, YES, PENDING.expires_at), NotDecided)


def test_an_always_that_denies_is_not_remembered() -> None:
    answer = Answer(ASKER, "telegram", approved=False, always=True)

    assert decide(PENDING, answer, NOON) == Decided(ApprovalState.DENIED, remember=False)


def test_an_always_to_a_call_that_is_asked_every_time_counts_once() -> None:
    answer = replace(YES, always=True)

    decided = decide(replace(PENDING, may_be_always=False), answer, NOON)

    assert decided == Decided(ApprovalState.APPROVED, remember=False)


@pytest.mark.parametrize("channel", ["web", "console"])
def test_the_operators_own_surfaces_settle_a_question_asked_elsewhere(channel: str) -> None:
    asked = replace(PENDING, requested_by=OPERATOR)

    assert isinstance(decide(asked, Answer(OPERATOR, channel, approved=True, always=False), NOON), Decided)


def test_an_always_holds_in_all_private_chats_or_in_one_shared_chat() -> None:
    here, there = Address(channel="telegram", chat_id="-1"), Address(channel="telegram", chat_id="-2")
    slack = Address(channel="slack", chat_id="-1")

    assert ConsentPlace.of(here, ChatType.PRIVATE) == ConsentPlace.of(slack, ChatType.PRIVATE)
    shared = {ConsentPlace.of(address, ChatType.UNKNOWN) for address in (here, there, slack)}
    assert len(shared) == 3
    assert ConsentPlace.of(here, ChatType.PRIVATE) not in shared
