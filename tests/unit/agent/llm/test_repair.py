from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.repair import NO_RESULT, repair_history
from agent.model.tool_call import ToolCall

A, B = ToolCall("a", "look"), ToolCall("b", "look")
RESULT_A, RESULT_B = ToolResult("a", "look", "1"), ToolResult("b", "look", "2")


def is_acceptable(messages: tuple[ChatMessage, ...]) -> bool:
    """What providers demand, said another way than the code says it."""
    for index, message in enumerate(messages):
        if isinstance(message, AssistantTurn):
            following = messages[index + 1 : index + 1 + len(message.calls)]
            if [getattr(m, "call_id", None) for m in following] != [call.id for call in message.calls]:
                return False
        if isinstance(message, ToolResult):
            start = index
            while start >= 0 and isinstance(messages[start], ToolResult):
                start -= 1
            asker = messages[start] if start >= 0 else None
            if not isinstance(asker, AssistantTurn) or index - start > len(asker.calls):
                return False
        if isinstance(message, UserText) and not message.text.strip():
            return False
    return True


def test_sound_history_is_the_same_object() -> None:
    history = (UserText("x"), AssistantTurn("", (A, B)), RESULT_A, RESULT_B, AssistantTurn("done"))

    assert repair_history(history) is history


def test_missing_results_are_filled_as_interrupted() -> None:
    repaired = repair_history((UserText("x"), AssistantTurn("", (A, B)), RESULT_A, UserText("y")))

    assert repaired == (
        UserText("x"),
        AssistantTurn("", (A, B)),
        RESULT_A,
        ToolResult("b", "look", NO_RESULT, is_error=True),
        UserText("y"),
    )


def test_results_that_come_late_or_out_of_order_are_moved_to_their_call() -> None:
    repaired = repair_history((UserText("x"), AssistantTurn("", (A, B)), RESULT_B, UserText("y"), RESULT_A))

    assert repaired == (UserText("x"), AssistantTurn("", (A, B)), RESULT_A, RESULT_B, UserText("y"))


def test_orphan_result_becomes_a_user_text_that_keeps_its_words() -> None:
    repaired = repair_history((RESULT_A, UserText("y")))

    assert repaired == (UserText("[Result of look, whose call is no longer shown]\n1"), UserText("y"))


def test_empty_messages_go() -> None:
    assert repair_history((UserText("x"), AssistantTurn(""), UserText(" "))) == (UserText("x"),)


def test_result_of_an_id_used_twice_stays_with_its_own_call() -> None:
    history = (
        UserText("x"),
        AssistantTurn("", (A,)),
        AssistantTurn("", (A,)),
        ToolResult("a", "look", "second"),
    )

    assert repair_history(history) == (
        UserText("x"),
        AssistantTurn("", (A,)),
        ToolResult("a", "look", NO_RESULT, is_error=True),
        AssistantTurn("", (A,)),
        ToolResult("a", "look", "second"),
    )


MESSAGES = st.lists(
    st.sampled_from(
        [
            UserText("x"),
            UserText(""),
            AssistantTurn("t"),
            AssistantTurn(""),
            AssistantTurn("", (A,)),
            AssistantTurn("t", (A, B)),
            RESULT_A,
            RESULT_B,
        ]
    ),
    max_size=10,
)


@given(MESSAGES)
def test_every_history_becomes_acceptable_and_stays_so(messages: list[ChatMessage]) -> None:
    repaired = tuple(repair_history(messages))

    assert is_acceptable(repaired)
    assert repair_history(repaired) is repaired
