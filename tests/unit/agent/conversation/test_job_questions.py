"""Which job's question a typed word answers."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from agent.conversation.job_questions import Several, choose
from agent.model.approval import ConsentPlace, PendingApproval
from agent.model.ids import ApprovalId, ThreadId, TurnId, UserId
from channels.message import Address

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HERE = Address(channel="telegram", chat_id="1")
TOPIC = Address(channel="telegram", chat_id="1", thread_id="55")
ELSEWHERE = Address(channel="slack", chat_id="1")


def question() -> PendingApproval:
    return PendingApproval(
        id=ApprovalId(uuid4()),
        thread=ThreadId(uuid4()),
        turn=TurnId(uuid4()),
        call_id="c",
        tool="shell",
        description="",
        display={},
        requested_by=UserId("u"),
        channel="telegram",
        place=ConsentPlace("private"),
        may_be_always=True,
        created_at=NOW,
        expires_at=NOW + timedelta(minutes=5),
    )


def test_the_one_question_of_the_chat_is_meant() -> None:
    asked = question()

    assert choose([(question(), ELSEWHERE), (asked, HERE)], HERE) == asked
    assert choose([(asked, TOPIC)], HERE) == asked


def test_question_of_the_very_topic_goes_before_others_of_the_chat() -> None:
    asked = question()

    assert choose([(question(), HERE), (asked, TOPIC)], TOPIC) == asked


def test_several_are_not_guessed_and_none_is_none() -> None:
    assert choose([(question(), HERE), (question(), HERE)], HERE) == Several()
    assert choose([(question(), ELSEWHERE)], HERE) is None
