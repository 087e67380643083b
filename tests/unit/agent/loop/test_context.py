"""What a turn asks of the model."""

from __future__ import annotations

from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.llm.repair import NO_RESULT
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall

CALLS = (ToolCall("a", "look"), ToolCall("b", "look"))
FOUND = ToolResult("b", "look", "found")


def test_sound_messages_are_sent_as_they_are() -> None:
    history, added = (UserText("x"), AssistantTurn("y")), (UserText("z"),)

    request = ReasoningContext("", (), history, added).request()

    assert all(sent is kept for sent, kept in zip(request.messages, (*history, *added), strict=True))


def test_call_without_a_result_in_the_history_is_sent_as_interrupted() -> None:
    history = (UserText("x"), AssistantTurn("", CALLS), FOUND)

    request = ReasoningContext("", (), history, (UserText("and?"),)).request()

    lost = ToolResult("a", "look", NO_RESULT, is_error=True)
    assert tuple(request.messages) == (UserText("x"), AssistantTurn("", CALLS), lost, FOUND, UserText("and?"))


def test_nothing_empty_is_sent() -> None:
    history = (UserText("x"), AssistantTurn(""), UserText("y"))

    request = ReasoningContext("", (), history, (UserText("z"),)).request()

    assert tuple(request.messages) == (UserText("x"), UserText("y"), UserText("z"))
