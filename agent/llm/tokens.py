"""Estimates of tokens, good enough to decide when a conversation has to be shortened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.wire.fragments import Memo

MESSAGE_OVERHEAD = 4
# Anthropic, "Vision": a picture of full size weighs about 1,600 tokens.
PICTURE_TOKENS = 1_600


def estimate_tokens(text: str) -> int:
    """Tokens of a text: 1.3 a word, or one for four characters, whichever is more (languages without spaces)."""
    return max(len(text.split()) * 13 // 10, len(text) // 4)


def estimate_message(message: ChatMessage) -> int:
    """Tokens of a message, tool arguments included."""
    match message:
        case UserText(text=text, images=images):
            return estimate_tokens(text) + MESSAGE_OVERHEAD + PICTURE_TOKENS * len(images)
        case ToolResult(text=text):
            return estimate_tokens(text) + MESSAGE_OVERHEAD
        case AssistantTurn(text=text, calls=calls):
            return (
                MESSAGE_OVERHEAD
                + estimate_tokens(text)
                + sum(
                    estimate_tokens(call.name)
                    + estimate_tokens(call.malformed or json.dumps(dict(call.arguments), ensure_ascii=False))
                    + MESSAGE_OVERHEAD
                    for call in calls
                )
            )
        case unreachable:
            assert_never(unreachable)


class TokenEstimator:
    """Estimates whole histories; each message object is counted once."""

    def __init__(self, messages_kept: int = 100_000) -> None:
        self._message = Memo(estimate_message, lambda _: 1, messages_kept)

    def estimate(self, messages: Sequence[ChatMessage], system: str = "") -> int:
        """Tokens of a request: the system text and all messages."""
        return sum(map(self._message, messages)) + (estimate_tokens(system) + MESSAGE_OVERHEAD if system else 0)
