"""Wording that people decide by: a question shows exactly what will run."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent.conversation import replies
from agent.model.approval import ApprovalState

TEXTS = st.text(alphabet=st.sampled_from("`~ \nab\r\t>#-[](:/.)\u2028\\<!")) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["command", "path", "content"]), TEXTS | VALUES, max_size=3)
QUESTIONS = st.sampled_from([replies.approval_question, replies.once_only_question])
ENDED = [state for state in ApprovalState if state is not ApprovalState.OPEN]


def shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def blocks(question: str) -> list[str]:
    """The code blocks of a question, as every adapter reads it."""
    return [token.content for token in MarkdownIt().parse(question) if token.type == "fence"]


def as_markdown_reads(text: str) -> str:
    # CommonMark 2.1 and 2.3: line ends are one character, NUL is replaced.
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


@given(ARGUMENTS, QUESTIONS)
def test_question_shows_every_argument_whole_and_as_code(arguments: dict[str, object], word: object) -> None:
    """Nothing of a call can pass for markup, or hide behind it. Invariant 4."""
    question = word("shell", "Run a command.", arguments)  # type: ignore[operator]  # one of QUESTIONS

    assert all(shown(value) in question for value in arguments.values())
    assert blocks(question) == [as_markdown_reads(shown(value)) + "\n" for value in arguments.values()]
    assert question.startswith("**Approval needed: shell**\n\nRun a command.")


@pytest.mark.parametrize("text", ["```\nrm -rf /\n```", "a\r```\rb", "x\n   ````` \ny", "`" * 40])
def test_backticks_do_not_end_the_block(text: str) -> None:
    assert blocks(replies.approval_question("shell", "Run.", {"command": text})) == [as_markdown_reads(text) + "\n"]


def test_call_that_is_asked_every_time_does_not_offer_always() -> None:
    assert "**always** to allow" not in replies.once_only_question("shell", "Run.", {"command": "rm x"})
    assert len(replies.approval_choices("x", may_be_always=False)) == 2
    assert len(replies.approval_choices("x", may_be_always=True)) == 3


@given(ARGUMENTS, QUESTIONS, st.sampled_from(ENDED))
def test_answered_question_keeps_what_was_asked_and_shows_the_decision(
    arguments: dict[str, object], word: object, state: ApprovalState
) -> None:
    question = word("shell", "Run a command.", arguments)  # type: ignore[operator]  # one of QUESTIONS
    line = replies.decision_line(state)

    amended = replies.amended_question(question, line)

    assert amended.endswith(line)
    assert "Reply **yes**" not in amended
    if amended != line:  # a long question gives way to the decision
        assert blocks(amended) == blocks(question)


def test_answered_question_keeps_arguments_that_read_like_its_last_line() -> None:
    question = replies.once_only_question("message", "Send.", {"text": "Hello\nReply soon\n\nReply now"})

    assert "Reply now" in replies.amended_question(question, "✅ Approved.")


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
