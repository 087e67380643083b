"""Anthropic's Messages on the wire: requests as joined fragments, answers and stream events read from JSON.

Turns alternate, so neighbours of one role become blocks of one message. A block's bytes depend on its own value alone
and blocks are only ever added at the end: what was sent before is a prefix of what is sent next, but for the moving
cache marks, which the provider leaves out of its comparison.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from agent.llm.base import Completion, CompletionRequest, FinishReason, ToolDefinition, Usage
from agent.llm.errors import TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ImageRef, ToolResult, UserText
from agent.llm.wire.calls import PartialCall, finished_calls, wire_arguments, wire_id, wire_name
from agent.llm.wire.fragments import Memo, encode_json, exact_decimal
from agent.llm.wire.pictures import Attached, images_of, pieces, visible
from channels.text import whole_text

NO_OUTPUT = "(no output)"
_MARK = b',"cache_control":{"type":"ephemeral"}}'

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "pause_turn": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
}

# Anthropic, "Migration guide": from Opus 4.7 and the fifth generation on, sampling parameters are refused and thinking
# is on by default. Thinking counts as output, so the limit needs room for it; only what is used is paid.
_THINKS = re.compile(r"claude-(?:opus-4-[78]|(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|preview))")
_ROOM_FOR_THINKING = 8192


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one model takes. Learned from refusals."""

    temperature: bool = True

    def learn(self, message: str) -> Dialect | None:
        """The dialect to try after a 400 with this message, or None if it is about something else."""
        return replace(self, temperature=False) if self.temperature and "temperature" in message else None


def first_dialect(model: str) -> Dialect:
    """What to try first."""
    return Dialect(temperature=_THINKS.match(model) is None)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A message as content blocks of one role, and as a turn of its own, which it mostly is."""

    role: bytes
    blocks: tuple[bytes, ...]
    turn: bytes


def _fragment(role: bytes, blocks: tuple[bytes, ...]) -> _Fragment:
    return _Fragment(role, blocks, _turn(role, blocks))


def _turn(role: bytes, blocks: Sequence[bytes]) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role, b",".join(blocks))


# The first turn has to be a user's.
_OPENING = _fragment(b"user", (encode_json({"type": "text", "text": "(The conversation goes on.)"}),))


class RequestEncoder:
    """Builds request bodies; keeps the encoded form of messages and tools from call to call."""

    def __init__(self, memory_bytes: int = 16 * 1024 * 1024) -> None:
        self._message = Memo(_encode_message, _weight, memory_bytes)
        self._tool = Memo(_encode_tool, len, 1024 * 1024)

    def encode(self, request: CompletionRequest, model: str, dialect: Dialect, *, stream: bool) -> bytes:
        """The body of one call."""
        body = [b'{"model":', encode_json(model)]
        tools = [self._tool(tool) for tool in request.tools]
        if request.system:
            system = encode_json({"type": "text", "text": request.system})
            body += [b',"system":[', _marked(system), b"]"]
        elif tools:
            tools[-1] = _marked(tools[-1])
        if tools:
            body += [b',"tools":[', b",".join(tools), b"]"]
        pictures = visible(request, "anthropic", model)
        fragments = [_with_pictures(self._message(each), images_of(each), pictures) for each in request.messages]
        body += [b',"messages":[', b",".join(_turns(fragments)), b"],"]
        body.append(encode_json(_parameters(request, model, dialect, stream=stream))[1:])
        return b"".join(body)


def _turns(fragments: Sequence[_Fragment]) -> list[bytes]:
    groups: list[list[_Fragment]] = []
    last_role = b""
    for fragment in fragments:
        if not fragment.blocks:
            continue
        if fragment.role == last_role:
            groups[-1].append(fragment)
        else:
            groups.append([fragment])
            last_role = fragment.role
    if groups and groups[0][0].role == b"assistant":
        groups.insert(0, [_OPENING])
    turns = [
        group[0].turn if len(group) == 1 else _turn(group[0].role, [block for part in group for block in part.blocks])
        for group in groups
    ]
    # Two moving marks: at the end, to be read next time, and where the previous call had its end, to be read now.
    # Anthropic, "Prompt caching": at most four marks; a read looks back twenty blocks from one.
    newest = [index for index in range(max(0, len(groups) - 4), len(groups)) if groups[index][0].role == b"user"]
    for index in newest[-2:]:
        blocks = [block for part in groups[index] for block in part.blocks]
        turns[index] = _turn(b"user", [*blocks[:-1], _marked(blocks[-1])])
    return turns


def _marked(block: bytes) -> bytes:
    return block[:-1] + _MARK


def _parameters(request: CompletionRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, object]:
    room = _ROOM_FOR_THINKING if _THINKS.match(model) else 0
    parameters: dict[str, object] = {"max_tokens": request.max_tokens + room}
    if dialect.temperature:
        parameters["temperature"] = exact_decimal(min(request.temperature, 1.0))
    if stream:
        parameters["stream"] = True
    return parameters


def _encode_message(message: ChatMessage) -> _Fragment:
    match message:
        case UserText(text=text):
            return _fragment(b"user", _text_block(text))
        case AssistantTurn(text=text, calls=calls):
            uses = tuple(
                encode_json(
                    {
                        "type": "tool_use",
                        "id": wire_id(call.id),
                        "name": wire_name(call.name),
                        "input": wire_arguments(call),
                    }
                )
                for call in calls
            )
            return _fragment(b"assistant", _text_block(text) + uses)
        case ToolResult(call_id=call_id, text=text, is_error=is_error):
            block: dict[str, object] = {"type": "tool_result", "tool_use_id": wire_id(call_id)}
            block["content"] = [{"type": "text", "text": text if text.strip() else NO_OUTPUT}]
            if is_error:
                block["is_error"] = True
            return _fragment(b"user", (encode_json(block),))
        case unreachable:
            assert_never(unreachable)


def _with_pictures(fragment: _Fragment, images: Sequence[ImageRef], pictures: Mapping[str, bytes]) -> _Fragment:
    if not images:
        return fragment
    return _fragment(fragment.role, (*fragment.blocks, *map(_picture_block, pieces(images, pictures))))


def _picture_block(piece: str | Attached) -> bytes:
    match piece:
        case str():
            return encode_json({"type": "text", "text": piece})
        case Attached(media_type=media_type, data=data):
            source = b'{"type":"base64","media_type":"%b","data":"%b"}' % (media_type, data)
            return b'{"type":"image","source":%b}' % source
        case unreachable:
            assert_never(unreachable)


def _text_block(text: str) -> tuple[bytes, ...]:
    # Blank text blocks are refused; a trailing blank of an assistant's text as well.
    return (encode_json({"type": "text", "text": text.rstrip()}),) if text.strip() else ()


def _encode_tool(tool: ToolDefinition) -> bytes:
    schema = dict(tool.parameters) or {"type": "object", "properties": {}}
    return encode_json({"name": tool.name, "description": tool.description, "input_schema": schema})


def _weight(fragment: _Fragment) -> int:
    return 2 * len(fragment.turn)


def decode_answer(body: bytes, history: Sequence[ChatMessage], model: str) -> Completion:
    """The completion in a whole answer. Raises TransientError if there is none in it."""
    payload = _read_object(body)
    collector = AnswerCollector()
    collector.take_message(payload)
    blocks = payload.get("content")
    if not isinstance(blocks, list):
        raise TransientError("the answer holds no content")
    for index, block in enumerate(blocks):
        collector.take_block(index, block)
    return collector.completion(history, model)


class StreamError(Exception):
    """The provider reported an error in mid-stream; `kind` is its type."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.message = message


@dataclass(slots=True)
class AnswerCollector:
    """Puts an answer together from stream events."""

    done: bool = False
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, PartialCall] = field(default_factory=dict)
    _stop: str | None = None
    _counts: dict[str, int] = field(default_factory=dict)
    _model: str = ""

    @property
    def finished(self) -> bool:
        """Whether the model has said why it stopped."""
        return self._stop is not None

    def take(self, data: bytes) -> str:
        """Add one event; gives the text it brought.

        Raises TransientError if it cannot be read, StreamError if it reports an error.
        """
        event = _read_object(data)
        match event.get("type"):
            case "content_block_delta":
                return self._take_delta(event)
            case "content_block_start":
                return self.take_block(event.get("index"), event.get("content_block"))
            case "message_start":
                self.take_message(event.get("message"))
            case "message_delta":
                self._take_end(event.get("delta"), event.get("usage"))
            case "message_stop":
                self.done = True
            case "error":
                error = event.get("error")
                error = error if isinstance(error, dict) else {}
                raise StreamError(str(error.get("type") or ""), str(error.get("message") or ""))
        return ""

    def take_message(self, message: Any) -> None:
        """Note a message's model, usage and, if it is whole, stop reason."""
        if isinstance(message, dict):
            self._model = str(message.get("model") or "")
            self._take_end(message, message.get("usage"))

    def take_block(self, index: Any, block: Any) -> str:
        """Add a content block, whole or beginning; gives its text. Thinking is not shown."""
        if not isinstance(block, dict):
            return ""
        if block.get("type") == "tool_use" and isinstance(index, int):
            given = block.get("input")
            arguments = encode_json(given).decode() if given else ""
            self._calls[index] = PartialCall(str(block.get("id") or ""), str(block.get("name") or ""), arguments)
            return ""
        return self._add(block.get("text")) if block.get("type") == "text" else ""

    def completion(self, history: Sequence[ChatMessage], model: str) -> Completion:
        """The finished answer. Raises TransientError if it ended without a stop reason."""
        if self._stop is None:
            raise TransientError("the answer ended early, without a stop reason")
        calls = finished_calls(self._calls.values(), history)
        finish = _FINISH.get(self._stop, FinishReason.STOP)
        if finish in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        return Completion(whole_text("".join(self._text)), finish, calls, self._usage(), self._model or model)

    def _take_delta(self, event: dict[str, Any]) -> str:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return ""
        if delta.get("type") == "input_json_delta":
            index = event.get("index")
            if isinstance(index, int) and (call := self._calls.get(index)):
                call.arguments += str(delta.get("partial_json") or "")
            return ""
        return self._add(delta.get("text")) if delta.get("type") == "text_delta" else ""

    def _add(self, text: Any) -> str:
        if not isinstance(text, str) or not text:
            return ""
        self._text.append(text)
        return whole_text(text)

    def _take_end(self, facts: Any, usage: Any) -> None:
        if isinstance(facts, dict) and (reason := facts.get("stop_reason")):
            self._stop = str(reason)
        if isinstance(usage, dict):
            # Counts are cumulative: a later one replaces an earlier one.
            self._counts |= {key: value for key, value in usage.items() if isinstance(value, int)}

    def _usage(self) -> Usage:
        read = self._counts.get("cache_read_input_tokens", 0)
        written = self._counts.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0) + read + written,
            output_tokens=self._counts.get("output_tokens", 0),
            cache_read_tokens=read,
            cache_write_tokens=written,
        )


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TransientError("the answer is no JSON") from error
    if not isinstance(payload, dict):
        raise TransientError("the answer is no JSON object")
    return payload
