"""OpenAI's chat completions on the wire: requests as joined fragments, answers and stream chunks read from JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never

from agent.llm.base import Completion, CompletionRequest, FinishReason, ToolDefinition, Usage
from agent.llm.errors import TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ImageRef, ToolResult, UserText
from agent.llm.wire.calls import PartialCall, finished_calls, short_id, wire_arguments, wire_id, wire_name
from agent.llm.wire.fragments import Memo, encode_json, exact_decimal
from agent.llm.wire.pictures import Attached, images_of, pieces, visible
from channels.text import whole_text

NO_OUTPUT = "(no output)"  # providers refuse an empty tool result

_FINISH = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one model takes of the parameters that OpenAI's models disagree on. Learned from refusals."""

    limit_field: str = "max_tokens"
    temperature: bool = True
    stream_usage: bool = True
    reasoning_off: bool = False
    short_ids: bool = False

    def learn(self, param: str, message: str) -> Dialect | None:
        """The dialect to try after a 400 that complains of `param`, or None if it is not about these parameters."""
        complaint = f"{param} {message}"
        other_limit = "max_tokens" if self.limit_field == "max_completion_tokens" else "max_completion_tokens"
        if self.limit_field in complaint and (param == self.limit_field or other_limit in complaint):
            # OpenAI: "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            return replace(self, limit_field=other_limit)
        if "reasoning_effort" in complaint and not self.reasoning_off:
            # OpenAI: "Function tools with reasoning_effort are not supported for ... set reasoning_effort to 'none'"
            return replace(self, reasoning_off=True)
        if "temperature" in complaint and self.temperature:
            return replace(self, temperature=False)
        if "stream_options" in complaint and self.stream_usage:
            return replace(self, stream_usage=False)
        if "tool call id" in complaint.lower() and not self.short_ids:
            # Mistral: "Tool call id was ... but must be a-z, A-Z, 0-9, with a length of 9."
            return replace(self, short_ids=True)
        return None


# Reasoning models of OpenAI take neither; other names learn at their first refusal.
_REASONING = re.compile(r"o\d|gpt-[5-9](?!.*chat)")


def first_dialect(model: str, *, is_openai: bool) -> Dialect:
    """What to try first: OpenAI itself takes the newer limit for all its models, compatible servers know the older."""
    if not is_openai:
        return Dialect()
    return Dialect(limit_field="max_completion_tokens", temperature=_REASONING.match(model) is None)


class RequestEncoder:
    """Builds request bodies; keeps the encoded form of messages and tools from call to call."""

    def __init__(self, memory_bytes: int = 16 * 1024 * 1024) -> None:
        self._message = Memo(_encode_message, len, memory_bytes)
        self._message_with_short_ids = Memo(partial(_encode_message, id_of=short_id), len, memory_bytes)
        self._tool = Memo(_encode_tool, len, 1024 * 1024)

    def encode(self, request: CompletionRequest, model: str, dialect: Dialect, *, stream: bool) -> bytes:
        """The body of one call."""
        encode = self._message_with_short_ids if dialect.short_ids else self._message
        pictures = visible(request, "openai", model)
        parts = [
            _with_pictures(each, images, pictures) if (images := images_of(each)) else encode(each)
            for each in request.messages
        ]
        if request.system:
            parts.insert(0, encode_json({"role": "system", "content": request.system}))
        body = [b'{"model":', encode_json(model), b',"messages":[', b",".join(parts), b"]"]
        if request.tools:
            body += [b',"tools":[', b",".join([self._tool(tool) for tool in request.tools]), b'],"tool_choice":"auto"']
        body += [b",", encode_json(_parameters(request, dialect, stream=stream))[1:]]
        return b"".join(body)


def _parameters(request: CompletionRequest, dialect: Dialect, *, stream: bool) -> dict[str, object]:
    parameters: dict[str, object] = {dialect.limit_field: request.max_tokens}
    if dialect.temperature:
        parameters["temperature"] = exact_decimal(request.temperature)
    if dialect.reasoning_off and request.tools:
        parameters["reasoning_effort"] = "none"
    if stream:
        parameters["stream"] = True
        if dialect.stream_usage:
            parameters["stream_options"] = {"include_usage": True}
    return parameters


def _encode_message(message: ChatMessage, *, id_of: Callable[[str], str] = wire_id) -> bytes:
    match message:
        case UserText(text=text):
            return encode_json({"role": "user", "content": text})
        case AssistantTurn(text=text, calls=()):
            return encode_json({"role": "assistant", "content": text})
        case AssistantTurn(text=text, calls=calls):
            functions = [
                {
                    "id": id_of(call.id),
                    "type": "function",
                    "function": {"name": wire_name(call.name), "arguments": encode_json(wire_arguments(call)).decode()},
                }
                for call in calls
            ]
            return encode_json({"role": "assistant", "content": text or None, "tool_calls": functions})
        case ToolResult(call_id=call_id, text=text):
            return encode_json({"role": "tool", "tool_call_id": id_of(call_id), "content": text or NO_OUTPUT})
        case unreachable:
            assert_never(unreachable)


def _with_pictures(message: ChatMessage, images: Sequence[ImageRef], pictures: Mapping[str, bytes]) -> bytes:
    """A person's text with its pictures; a text alone where none goes along, which every server takes."""
    found = [message.text, *pieces(images, pictures)]
    texts = [piece for piece in found if isinstance(piece, str)]
    if len(texts) == len(found):
        return encode_json({"role": "user", "content": "\n".join(texts)})
    return b'{"role":"user","content":[%b]}' % b",".join(map(_part, found))


def _part(piece: str | Attached) -> bytes:
    match piece:
        case str():
            return encode_json({"type": "text", "text": piece})
        case Attached(media_type=media_type, data=data):
            return b'{"type":"image_url","image_url":{"url":"data:%b;base64,%b"}}' % (media_type, data)
        case unreachable:
            assert_never(unreachable)


def _encode_tool(tool: ToolDefinition) -> bytes:
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return encode_json({"type": "function", "function": function})


def decode_answer(body: bytes, history: Sequence[ChatMessage], model: str) -> Completion:
    """The completion in a whole answer. Raises TransientError if there is none in it."""
    collector = AnswerCollector()
    payload = _read_object(body)
    choice = _first(payload.get("choices"))
    collector.take_message(choice.get("message"))
    collector.take_facts(payload, choice)
    return collector.completion(history, model)


@dataclass(slots=True)
class AnswerCollector:
    """Puts an answer together from stream chunks."""

    done: bool = False
    _text: list[str] = field(default_factory=list)
    _calls: list[PartialCall] = field(default_factory=list)
    _by_index: dict[int, PartialCall] = field(default_factory=dict)
    _finish: str | None = None
    _usage: Usage = field(default_factory=Usage)
    _model: str = ""

    @property
    def finished(self) -> bool:
        """Whether the model has said why it stopped."""
        return self._finish is not None

    def take(self, data: bytes) -> str:
        """Add one event; gives the text it brought.

        Raises TransientError if it cannot be read, StreamError if it reports an error.
        """
        if data.strip() == b"[DONE]":
            self.done = True
            return ""
        return self.take_chunk(_read_object(data))

    def take_chunk(self, payload: dict[str, Any]) -> str:
        """Add one chunk that was already read; gives the text it brought. Raises StreamError if it reports an error."""
        if error := payload.get("error"):
            raise StreamError(error if isinstance(error, dict) else {"message": str(error)})
        choice = _first(payload.get("choices"))
        delta = choice.get("delta")
        text = ""
        if isinstance(delta, dict):
            text = _text_of(delta)
            if text:
                self._text.append(text)
            if calls := delta.get("tool_calls"):
                self._take_calls(calls)
        self.take_facts(payload, choice)
        return whole_text(text)

    def take_message(self, message: Any) -> None:
        """Add a whole message."""
        if not isinstance(message, dict):
            raise TransientError("the answer holds no message")
        self._text.append(_text_of(message))
        if calls := message.get("tool_calls"):
            self._take_calls(calls)

    def take_facts(self, payload: dict[str, Any], choice: dict[str, Any]) -> None:
        """Note finish reason, usage and model where the event tells them."""
        if reason := choice.get("finish_reason"):
            self._finish = str(reason)
        if usage := payload.get("usage"):
            self._usage = _usage_of(usage)
        if not self._model and isinstance(name := payload.get("model"), str):
            self._model = name

    def completion(self, history: Sequence[ChatMessage], model: str) -> Completion:
        """The finished answer. Raises TransientError if it ended without a finish reason."""
        if self._finish is None:
            raise TransientError("the answer ended early, without a finish reason")
        calls = finished_calls(self._calls, history)
        finish = _FINISH.get(self._finish, FinishReason.STOP)
        if finish in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        return Completion(whole_text("".join(self._text)), finish, calls, self._usage, self._model or model)

    def _take_calls(self, pieces: Any) -> None:
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._take_call(piece)

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        index, call_id, name = piece.get("index"), piece.get("id") or "", function.get("name") or ""
        call = self._by_index.get(index) if isinstance(index, int) else self._last()
        # Some servers number every call 0, or none: a second id, or a name without an index, begins another call.
        begins = call is None or (call_id and call.id and call_id != call.id) or (index is None and name)
        if call is None or begins:
            call = PartialCall()
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        call.id = call.id or str(call_id)
        call.name = call.name or str(name)
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments += arguments
        elif arguments:  # some servers send the object itself
            call.arguments += encode_json(arguments).decode()

    def _last(self) -> PartialCall | None:
        return self._calls[-1] if self._calls else None


class StreamError(Exception):
    """The provider reported an error in mid-stream; `error` is its object."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__("error event")
        self.error = error


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TransientError("the answer is no JSON") from error
    if not isinstance(payload, dict):
        raise TransientError("the answer is no JSON object")
    return payload


def _first(choices: Any) -> dict[str, Any]:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _text_of(message: dict[str, Any]) -> str:
    text = message.get("content") or message.get("refusal")
    if isinstance(text, list):  # Mistral gives parts
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, dict))
    return text if isinstance(text, str) else ""


def _usage_of(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_tokens=_count(details.get("cached_tokens")),
        cache_write_tokens=_count(details.get("cache_write_tokens")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
