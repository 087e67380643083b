"""Frozen values to and from the text of a column, through pydantic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from pydantic import TypeAdapter

from agent.llm.messages import AssistantTurn, ChatMessage, ImageRef, ToolResult, UserText
from agent.model.tool_call import ToolCall
from channels.message import Address, IncomingMessage, OutgoingMessage


def dump_message(message: ChatMessage) -> str:
    """A history message as JSON; keys are short, since there are many."""
    match message:
        case UserText(text=text, images=()):
            return json.dumps({"u": text}, ensure_ascii=False)
        case UserText(text=text, images=images):
            return json.dumps({"u": text, "p": list(map(_dump_image, images))}, ensure_ascii=False)
        case AssistantTurn(text=text, calls=calls):
            return json.dumps({"a": text, "c": [_dump_call(call) for call in calls]}, ensure_ascii=False)
        case ToolResult(call_id=call_id, name=name, text=text, is_error=is_error):
            return json.dumps({"r": text, "i": call_id, "n": name, "e": is_error}, ensure_ascii=False)


def load_message(body: str) -> ChatMessage:
    """The message that `dump_message` wrote."""
    raw = json.loads(body)
    if "u" in raw:
        return UserText(raw["u"], tuple(_IMAGE.validate_python(image) for image in raw.get("p", ())))
    if "a" in raw:
        return AssistantTurn(raw["a"], tuple(_load_call(call) for call in raw["c"]))
    return ToolResult(raw["i"], raw["n"], raw["r"], raw["e"])


def _dump_image(image: ImageRef) -> dict[str, str | int]:
    return asdict(image)


def _dump_call(call: ToolCall) -> list[object]:
    return [call.id, call.name, dict(call.arguments), call.malformed]


def _load_call(raw: Sequence[object]) -> ToolCall:
    return _CALL.validate_python(dict(zip(("id", "name", "arguments", "malformed"), raw, strict=True)))


_CALL = TypeAdapter(ToolCall)
_IMAGE = TypeAdapter(ImageRef)
INCOMING = TypeAdapter(IncomingMessage)
OUTGOING = TypeAdapter(OutgoingMessage)
ADDRESS = TypeAdapter(Address)
