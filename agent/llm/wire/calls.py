"""Tool calls between their JSON text, their ids on the wire, and our values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn
from uuid import uuid4

from agent.llm.messages import AssistantTurn, ChatMessage
from agent.model.tool_call import JsonValue, ToolCall
from channels.text import whole_text

# OpenAI and Anthropic: letters, digits, _ and -, at most 64.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# OpenAI: at most 40 characters; Anthropic: letters, digits, _ and -.
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
# Mistral.
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


@dataclass(slots=True)
class PartialCall:
    """A call that is still arriving."""

    id: str = ""
    name: str = ""
    arguments: str = ""


def finished_calls(parts: Iterable[PartialCall], history: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
    """The calls of one answer. An id that is empty, or was used before in this conversation, is replaced."""
    calls = [parse_call(whole_text(part.id), whole_text(part.name), whole_text(part.arguments)) for part in parts]
    if not calls:
        return ()
    used = {call.id for message in history if isinstance(message, AssistantTurn) for call in message.calls}
    unique: list[ToolCall] = []
    for call in calls:
        fresh = call if call.id and call.id not in used else replace(call, id=new_call_id())
        used.add(fresh.id)
        unique.append(fresh)
    return tuple(unique)


def parse_call(call_id: str, name: str, raw: str) -> ToolCall:
    """A call from its argument text; text that is no JSON object is kept in `malformed`. No text means no arguments."""
    if not raw.strip():
        return ToolCall(call_id, name)
    try:
        arguments = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return ToolCall(call_id, name, malformed=raw)
    if not isinstance(arguments, dict):
        return ToolCall(call_id, name, malformed=raw)
    if "\\ud" in raw.lower():  # an escaped surrogate, perhaps without its other half
        arguments = json.loads(whole_text(json.dumps(arguments, ensure_ascii=False)))
    return ToolCall(call_id, name, arguments)


def wire_arguments(call: ToolCall) -> JsonValue:
    """The arguments as sent back in the history: always an object, for servers refuse a history that holds less."""
    return dict(call.arguments) if call.malformed is None else {"unreadable_arguments": call.malformed}


def wire_name(name: str) -> str:
    """A tool's name in a form all providers take: a model may have invented one they refuse to read back."""
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def wire_id(call_id: str) -> str:
    """A call's id in a form nearly all providers take. A call and its result are mapped alike, today and tomorrow."""
    return call_id if _ID.fullmatch(call_id) else _digest(call_id)


def short_id(call_id: str) -> str:
    """The same for the strictest provider: nine letters and digits."""
    return call_id if _SHORT_ID.fullmatch(call_id) else _digest(call_id)


def new_call_id() -> str:
    """An id for a call that came without one: nine letters and digits, the strictest form among providers."""
    return uuid4().hex[:9]


def _digest(call_id: str) -> str:
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]


def _refuse_constant(name: str) -> NoReturn:
    # Python reads NaN and Infinity, no provider takes them back.
    raise ValueError(name)
