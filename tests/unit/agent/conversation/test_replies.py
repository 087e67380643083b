"""Wording that people decide by: a question shows exactly what will run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent.conversation import replies
from agent.model.approval import ApprovalState, ConsentPlace, PendingApproval
from agent.model.ids import ApprovalId, ThreadId, TurnId, UserId
from tests.support.builders import NOON

TEXTS = st.text(alphabet=st.sampled_from("`~ \nab\r\t>#-[](:/.)\u2028\\<!")) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ENDED = [state for state in ApprovalState if state is not ApprovalState.OPEN]
PENDING = PendingApproval(
    id=ApprovalId(UUID(int=7)),
    thread=ThreadId(UUID(int=1)),
    turn=TurnId(UUID(int=2)),
    call_id="call_1",
    tool="shell",
    description="Run a command.",
    display={"command": "ls"},
    requested_by=UserId("telegram:5"),
    channel="telegram",
    place=ConsentPlace("private"),
    may_be_always=True,
    created_at=NOON,
    expires_at=NOON + timedelta(hours=24),
)
PENDINGS = st.builds(
    lambda display, may_be_always: replace(PENDING, display=display, may_be_always=may_be_always),
    st.dictionaries(st.sampled_from(["command", "path", "content"]), TEXTS | VALUES, max_size=3),
    st.booleans(),
)


def shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def blocks(question: str) -> list[str]:
    """The code blocks of a question, as every adapter reads it."""
    return [token.content for token in MarkdownIt().parse(question) if token.type == "fence"]


def as_markdown_reads(text: str) -> str:
    # CommonMark 2.1 and 2.3: line ends are one character, NUL is replaced.
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


@given(PENDINGS)
def test_question_shows_every_argument_whole_and_as_code(pending: PendingApproval) -> None:
    """Nothing of a call can pass for markup, or hide behind it. Invariant 4."""
    question = replies.question(pending)

    values = list(pending.display.values())
    assert all(shown(value) in question for value in values)
    assert blocks(question) == [as_markdown_reads(shown(value) + "\n") for value in values]
    assert question.startswith("**Approval needed: shell**\n\nRun a command.")


@pytest.mark.parametrize("text", ["```\nrm -rf /\n```", "a\r```\rb", "x\n   ````` \ny", "`" * 40])
def test_backticks_do_not_end_the_block(text: str) -> None:
    assert blocks(replies.question(replace(PENDING, display={"command": text}))) == [as_markdown_reads(text + "\n")]


def test_long_argument_is_not_cut() -> None:
    assert "x" * 20_000 in replies.question(replace(PENDING, display={"command": "x" * 20_000}))


def test_call_that_is_asked_every_time_does_not_offer_always() -> None:
    assert "allow this tool from now on" in replies.question(PENDING)
    assert "allow this tool from now on" not in replies.question(replace(PENDING, may_be_always=False))
    assert len(replies.approval_choices("x", may_be_always=False)) == 2
    assert len(replies.approval_choices("x", may_be_always=True)) == 3


@given(PENDINGS, st.sampled_from(ENDED))
def test_answered_question_shows_what_was_asked_and_the_decision(
    pending: PendingApproval, state: ApprovalState
) -> None:
    line = replies.decision_line(state)

    answered = replies.answered_question(pending, line)

    assert answered.startswith("**shell**")
    assert answered.endswith(line)
    assert "Reply **yes**" not in answered
    assert blocks(answered) in ([], blocks(replies.question(pending)))  # a long one gives way to the decision


def test_answered_question_keeps_arguments_that_read_like_its_last_line() -> None:
    pending = replace(PENDING, display={"text": "Hello\nReply soon\n\nReply now"})

    assert "Reply now" in replies.answered_question(pending, "✅ Approved.")


@given(PENDINGS)
def test_parameters_as_plain_text_hold_every_value_whole(pending: PendingApproval) -> None:
    assert all(shown(value) in replies.parameters(pending) for value in pending.display.values())


@pytest.mark.parametrize("state", ENDED)
def test_model_and_user_are_told_how_a_question_ended(state: ApprovalState) -> None:
    assert replies.decision_line(state)
    if state is not ApprovalState.APPROVED:
        assert replies.denied_result(state).startswith("Not run")
        assert "shell" in replies.denied_note(["shell"], state)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 seconds"), (1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (7200, "2 hours"), (172_800, "2 days")],
)
def test_duration_is_told_in_the_largest_unit_that_fits(seconds: int, words: str) -> None:
    assert replies.within(timedelta(seconds=seconds)) == words
