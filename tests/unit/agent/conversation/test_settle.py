"""From an outcome to what is stored and said. Whatever happened, the history is one that every provider takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation import replies, settle
from agent.conversation.envelope import Envelope
from agent.conversation.settle import Settlement
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.repair import repair_history
from agent.loop.agentic_loop import Exhausted, Failed, Finish, LoopOutcome, NeedApproval, Responded, Stopped
from agent.loop.context import ReasoningContext
from agent.model import ids
from agent.model.approval import ApprovalState
from agent.model.session import ThreadState, Turn, TurnState
from agent.model.tool_call import ToolCall
from agent.store.turns import Journal
from channels.message import ChatType, ReplyKind
from tests.support.builders import NOON, make_message, make_thread

DAY = timedelta(hours=24)
THREAD = make_thread().id
TURN = Turn(ids.turn_id(THREAD, 1), THREAD, 0, TurnState.RUNNING, NOON)


def make_envelope(chat_type: ChatType = ChatType.PRIVATE, text: str = "please") -> Envelope:
    message = make_message(text, user="5", chat_id="5", chat_type=chat_type, message_id="m1")
    thread = make_thread(chat_type)
    return Envelope(thread, TURN, (message,), Journal((), frozenset(), 0), {})


def make_context(*added: ChatMessage) -> ReasoningContext:
    return ReasoningContext("system", (), (), (UserText("please"), *added))


@st.composite
def contexts(draw: st.DrawFn) -> ReasoningContext:
    """What a turn may hold when it ends: rounds of calls with their results, the last perhaps with some still open."""
    added: list[ChatMessage] = []
    numbers = iter(range(1000))
    for _ in range(draw(st.integers(0, 3))):
        made = tuple(ToolCall(f"c{next(numbers)}", "shell", {}) for _ in range(draw(st.integers(1, 3))))
        added.append(AssistantTurn(draw(st.sampled_from(["", "I look"])), made))
        added += [ToolResult(one.id, one.name, "done", draw(st.booleans())) for one in made]
        if draw(st.booleans()):
            added.append(UserText("[system note] smaller steps"))
    if draw(st.booleans()):
        made = tuple(ToolCall(f"c{next(numbers)}", "shell", {}) for _ in range(draw(st.integers(1, 3))))
        done = draw(st.integers(0, len(made)))
        added.append(AssistantTurn("", made))
        added += [ToolResult(one.id, one.name, "done") for one in made[:done]]
    return make_context(*added)


ENDED: dict[str, Callable[[Envelope, ReasoningContext], Settlement]] = {
    "failed": lambda e, c: settle.failed(e, c, "it broke"),
    "stopped": lambda e, c: settle.stopped(e, c, dropped=0),
    "outcome failed": lambda e, c: settle.settle(e, Finish(Failed("no"), c), NOON, DAY),
    "outcome exhausted": lambda e, c: settle.settle(e, Finish(Exhausted(51), c), NOON, DAY),
    "outcome stopped": lambda e, c: settle.settle(e, Finish(Stopped(), c), NOON, DAY),
    "denied": lambda e, c: settle.not_released(e, c, ApprovalState.DENIED),
    "expired": lambda e, c: settle.not_released(e, c, ApprovalState.EXPIRED),
    "cancelled": lambda e, c: settle.not_released(e, c, ApprovalState.CANCELLED),
}


@given(contexts(), st.sampled_from(sorted(ENDED)), st.sampled_from(ChatType))
def test_however_a_turn_ends_its_history_is_sound_and_keeps_what_was_done(
    context: ReasoningContext, how: str, chat_type: ChatType
) -> None:
    settlement = ENDED[how](make_envelope(chat_type), context)

    entries = settlement.ending.entries
    assert repair_history(entries) is entries  # each call has its result right after it, nothing is empty
    assert entries[: len(context.added)] == context.added
    assert not settlement.ending.turn_state.is_open
    assert settlement.question is None
    assert len(settlement.replies) == 1


@given(contexts().filter(lambda context: not context.open_calls), st.sampled_from(ChatType), st.text())
def test_an_answer_ends_a_sound_history(context: ReasoningContext, chat_type: ChatType, text: str) -> None:
    finish = Finish(Responded(text or "x"), context)

    settlement = settle.settle(make_envelope(chat_type), finish, NOON, DAY)

    assert settlement.ending.turn_state is TurnState.COMPLETE
    assert settlement.ending.thread_state is ThreadState.IDLE
    assert settlement.ending.entries[-1] == AssistantTurn(settlement.ending.response or "")


@pytest.mark.parametrize("outcome", [Responded("hi"), Exhausted(5), Failed("no"), Stopped()])
def test_the_same_outcome_settles_the_same_way(outcome: LoopOutcome) -> None:
    envelope, finish = make_envelope(), Finish(outcome, make_context())

    assert settle.settle(envelope, finish, NOON, DAY) == settle.settle(envelope, finish, NOON, DAY)


def test_stop_names_what_was_done_and_what_was_not_finished() -> None:
    both = AssistantTurn("", (ToolCall("a", "write_file", {}), ToolCall("b", "shell", {})))
    context = make_context(both, ToolResult("a", "write_file", "done"))

    settlement = settle.stopped(make_envelope(), context, dropped=2)

    text = settlement.replies[0].text
    assert "Already done and not undone: write_file." in text
    assert "Not finished: shell." in text
    assert "2 waiting messages dropped" in text
    assert settlement.ending.thread_state is ThreadState.INTERRUPTED


def test_question_keeps_the_turn_open_and_journals_what_it_holds() -> None:
    call = ToolCall("a", "shell", {"command": "ls"})
    context = make_context(AssistantTurn("", (call,)))
    need = NeedApproval(call, "Run a command.", {"command": "ls"}, may_be_always=True)

    settlement = settle.settle(make_envelope(), Finish(need, context), NOON, DAY)

    assert settlement.ending.turn_state is TurnState.WAITING
    assert settlement.ending.thread_state is ThreadState.AWAITING_APPROVAL
    assert settlement.ending.entries == ()
    assert settlement.journal == context.added
    assert settlement.question is not None
    assert settlement.question.expires_at == NOON + DAY
    assert settlement.question.requested_by == "telegram:5"
    assert [choice.data for choice in settlement.replies[0].choices] == [
        f"apr:{settlement.question.id}:{word}" for word in "yan"
    ]
    assert all(len(choice.data.encode()) <= 64 for choice in settlement.replies[0].choices)


@pytest.mark.parametrize("chat_type", [chat_type for chat_type in ChatType if chat_type.is_shared])
def test_silence_in_a_shared_chat_is_kept_and_not_said(chat_type: ChatType) -> None:
    settlement = settle.settle(make_envelope(chat_type), Finish(Responded("NO_REPLY"), make_context()), NOON, DAY)

    assert settlement.replies == ()
    assert settlement.ending.turn_state is TurnState.COMPLETE
    assert settlement.ending.response == "NO_REPLY"


def test_silence_in_private_becomes_words() -> None:
    settlement = settle.settle(make_envelope(), Finish(Responded("NO_REPLY."), make_context()), NOON, DAY)

    assert settlement.replies[0].text == replies.EMPTY_ANSWER
    assert settlement.ending.response == replies.EMPTY_ANSWER


def test_reply_points_at_the_question_in_a_shared_chat_only() -> None:
    shared, private = (
        settle.settle(make_envelope(chat_type), Finish(Responded("hi"), make_context()), NOON, DAY).replies[0]
        for chat_type in (ChatType.GROUP, ChatType.PRIVATE)
    )

    assert shared.reply_to == "m1"
    assert private.reply_to is None


def test_two_runs_of_one_turn_give_their_answer_the_same_id() -> None:
    """A turn's reply exists once. Invariant 3."""
    envelope, finish = make_envelope(), Finish(Responded("x"), make_context())

    first = settle.settle(envelope, finish, NOON, DAY)
    second = settle.settle(replace(envelope, thread=replace(envelope.thread, epoch=2)), finish, NOON + DAY, DAY)

    assert first.replies[0].id == second.replies[0].id
    assert first.replies[0].kind is ReplyKind.ANSWER


def test_title_is_one_bounded_line_of_the_first_message() -> None:
    settlement = settle.failed(make_envelope(text="a\n\nb " + "c" * 100), make_context(), "no")

    assert settlement.ending.title == "a b " + "c" * (settle.TITLE_LENGTH - 4)
