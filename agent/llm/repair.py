"""A history every provider accepts: each call directly followed by its result, nothing empty, nothing without its call.

An interruption, a crash or a compaction may leave a history that providers refuse, for good, at each later request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import ToolCall

NO_RESULT = "interrupted: no result was recorded"


def repair_history(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """`messages` if they are sound, the very same object; else a sound copy that reuses every sound message.

    Results stand after the turn that asked, in its order; missing ones say that they were interrupted. Results without
    a call become user texts, empty messages go.
    """
    return messages if _is_sound(messages) else tuple(_repaired(messages))


def _is_sound(messages: Sequence[ChatMessage]) -> bool:
    awaited: Sequence[ToolCall] = ()
    position = 0
    for message in messages:
        if isinstance(message, ToolResult):
            if position >= len(awaited) or awaited[position].id != message.call_id:
                return False
            position += 1
            continue
        if position < len(awaited) or _is_empty(message):
            return False
        awaited, position = (message.calls, 0) if isinstance(message, AssistantTurn) else ((), 0)
    return position == len(awaited)


def _repaired(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    taken: set[int] = set()
    for index, message in enumerate(messages):
        match message:
            case ToolResult():
                if index not in taken:
                    yield UserText(
                        f"[Result of {message.name}, whose call is no longer shown]\n{message.text}".rstrip()
                    )
            case AssistantTurn(calls=calls) if calls:
                yield message
                results = _results_after(messages, index, calls)
                taken |= results.keys()
                by_call = {result.call_id: result for result in results.values()}
                for call in calls:
                    yield by_call.get(call.id) or ToolResult(call.id, call.name, NO_RESULT, is_error=True)
            case AssistantTurn() | UserText():
                if not _is_empty(message):
                    yield message
            case unreachable:
                assert_never(unreachable)


def _results_after(messages: Sequence[ChatMessage], index: int, calls: Sequence[ToolCall]) -> dict[int, ToolResult]:
    """Results of `calls`, by position: up to the next turn that asks for one of the same ids, which owns later ones."""
    wanted = {call.id for call in calls}
    found: dict[int, ToolResult] = {}
    for later in range(index + 1, len(messages)):
        message = messages[later]
        if isinstance(message, AssistantTurn) and any(call.id in wanted for call in message.calls):
            break
        if isinstance(message, ToolResult) and message.call_id in wanted:
            wanted.discard(message.call_id)
            found[later] = message
            if not wanted:
                break
    return found


def _is_empty(message: UserText | AssistantTurn) -> bool:
    rest = message.calls if isinstance(message, AssistantTurn) else message.images
    return not message.text.strip() and not rest
