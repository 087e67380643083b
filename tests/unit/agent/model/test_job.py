"""The states of a job, and who sees which job."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InvalidTransition
from agent.model.ids import JobId, ThreadId, UserId
from agent.model.job import Job, JobLimits, JobOrigin, JobState, JobViewer, check_transition, may_go
from channels.message import Address, ChatType

S = JobState
ALLOWED = {
    (S.PENDING, S.IN_PROGRESS), (S.PENDING, S.CANCELLED), (S.PENDING, S.FAILED),
    (S.IN_PROGRESS, S.COMPLETED), (S.IN_PROGRESS, S.FAILED), (S.IN_PROGRESS, S.STUCK), (S.IN_PROGRESS, S.CANCELLED),
    (S.COMPLETED, S.COMPLETED), (S.COMPLETED, S.SUBMITTED), (S.COMPLETED, S.FAILED),
    (S.SUBMITTED, S.ACCEPTED), (S.SUBMITTED, S.FAILED),
    (S.STUCK, S.IN_PROGRESS), (S.STUCK, S.FAILED), (S.STUCK, S.CANCELLED),
}  # fmt: skip


@given(st.sampled_from(JobState), st.sampled_from(JobState))
def test_only_the_transitions_of_the_table_are_allowed(before: JobState, after: JobState) -> None:
    if (before, after) in ALLOWED:
        check_transition(before, after)
    else:
        with pytest.raises(InvalidTransition):
            check_transition(before, after)


@given(st.lists(st.sampled_from(JobState), max_size=30))
def test_no_sequence_of_wishes_leads_out_of_an_end_or_back_into_waiting(wishes: list[JobState]) -> None:
    state = S.PENDING
    for wish in wishes:
        was_over = state in (S.FAILED, S.CANCELLED, S.ACCEPTED)
        if may_go(state, wish):
            assert not was_over
            assert wish is not S.PENDING
            state = wish


def test_only_jobs_that_run_or_hang_hold_a_slot() -> None:
    assert [state for state in JobState if state.holds_slot] == [S.IN_PROGRESS, S.STUCK]


def job(user: str = "telegram:1", chat: str = "-100") -> Job:
    return Job(
        id=JobId(uuid4()),
        user=UserId(user),
        thread=ThreadId(uuid4()),
        title="t",
        description="d",
        state=S.PENDING,
        origin=JobOrigin(Address(channel="telegram", chat_id=chat), ChatType.GROUP, "1"),
        model=None,
        limits=JobLimits(),
        allowed_tools=None,
        reports=True,
        metadata={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_person_sees_own_jobs_alone_and_a_shared_chat_those_of_that_chat() -> None:
    me, here = UserId("telegram:1"), Address(channel="telegram", chat_id="-100", thread_id="5")

    assert JobViewer(me).sees(job())
    assert not JobViewer(me).sees(job(user="telegram:2"))
    assert JobViewer(me, here).sees(job())
    assert not JobViewer(me, here).sees(job(chat="1"))
    assert not JobViewer(me, here).sees(job(user="telegram:2"))
    assert JobViewer(None).sees(job(user="telegram:2"))
