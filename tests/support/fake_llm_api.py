"""A model server on a loopback socket that speaks OpenAI's chat completions and Anthropic's Messages, and can fail.

Which of the two a request speaks is told by its path. Replies are played in order; when none is left `Say("ok")` is.
Requests for vectors are answered by themselves, in `meanings`; `play_embeddings` puts failures before that.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call as the server sends it; `arguments` is its JSON text."""

    name: str
    arguments: str
    id: str = "call_abc123"


@dataclass(frozen=True)
class Say:
    """A proper answer. `pieces` are the text's chunks in a stream; a `finish` of None leaves the reason out."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = "default"
    pieces: tuple[str, ...] = ()
    late_end: bool = False  # the end of the stream's body comes in a packet of its own
    usage: Mapping[str, int] = field(default_factory=lambda: {"input": 12, "output": 5, "cached": 0, "written": 0})

    @property
    def chunks(self) -> tuple[str, ...]:
        return self.pieces or ((self.text,) if self.text else ())

    @property
    def whole(self) -> str:
        return "".join(self.chunks)


@dataclass(frozen=True)
class Fail:
    """An error answer."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class Break(Enum):
    """Ways a stream goes wrong after its first chunk, or instead of it."""

    DROP = auto()  # the socket is closed in the middle
    END_EARLY = auto()  # ends cleanly, without a finish reason
    NO_JSON = auto()  # a chunk that is no JSON
    STALL = auto()  # one chunk, then silence
    SILENCE = auto()  # headers, then silence
    PINGS = auto()  # keep-alives and nothing else
    NOT_SSE = auto()  # a web page with status 200
    ERROR_EVENT = auto()  # the provider reports overload inside the stream
    LINGER = auto()  # all is said, end mark included, and the connection stays open
    TOLD_THEN_DROP = auto()  # all is said, then the socket is closed without the end mark


Reply = Say | Fail | Break


@dataclass(frozen=True)
class ApiRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        parsed = json.loads(self.raw)
        assert isinstance(parsed, dict)
        return parsed


class FakeLLMApi:
    """Answers requests from a script and remembers them. Made by `fake_llm_api()`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[ApiRequest] = []
        self.connections = 0
        self.reached = asyncio.Event()
        self.left = asyncio.Event()
        self.models = Fail(200, {"data": [{"id": "model-b"}, {"id": "model-a"}]})
        self.meanings: tuple[frozenset[str], ...] = ()
        self._script: list[Reply] = []
        self._embedding_script: list[Fail | Break] = []

    def play(self, *replies: Reply) -> None:
        self._script.extend(replies)

    def play_embeddings(self, *replies: Fail | Break) -> None:
        """What goes wrong with the next requests for vectors: a failure, or silence."""
        self._embedding_script.extend(replies)

    @property
    def embedded(self) -> list[str]:
        """Every text that was sent to be embedded, oldest first."""
        return [text for request in self.requests if _is_embeddings(request) for text in request.body["input"]]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                request = await _read_request(reader)
                self.requests.append(request)
                self.reached.set()
                await self._answer(request, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, _Hangup):
            self.left.set()
        finally:
            writer.close()

    async def _answer(self, request: ApiRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.path.split("?")[0].endswith("/models"):
            _write_json(writer, self.models.status, self.models.body)
            return
        if _is_embeddings(request):
            await self._embed(request, reader, writer)
            return
        reply = self._script.pop(0) if self._script else Say("ok")
        anthropic = request.path.endswith("/messages")
        match reply:
            case Fail():
                _write_json(writer, reply.status, reply.body, reply.headers)
            case Say() if not request.body.get("stream"):
                _write_json(writer, 200, _anthropic_answer(reply) if anthropic else _openai_answer(reply))
            case Say():
                _begin_stream(writer)
                for event in _anthropic_events(reply) if anthropic else _openai_events(reply):
                    _write_chunk(writer, event)
                if reply.late_end:
                    await writer.drain()
                    await asyncio.sleep(0.02)
                _write_chunk(writer, b"")
            case Break():
                await self._break(reply, anthropic, reader, writer)

    async def _embed(self, request: ApiRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match self._embedding_script.pop(0) if self._embedding_script else None:
            case Fail() as failure:
                _write_json(writer, failure.status, failure.body, failure.headers)
            case Break():
                await self._wait_for_hangup(reader)
            case None:
                texts = request.body["input"]
                data = [{"index": index, "embedding": self._meaning(text)} for index, text in enumerate(texts)]
                usage = {"prompt_tokens": 10 * len(texts), "total_tokens": 10 * len(texts)}
                # Out of order: the index tells which is which.
                _write_json(writer, 200, {"object": "list", "data": data[::-1], "usage": usage})

    def _meaning(self, text: str) -> list[float]:
        """How often each meaning's words stand in the text, and a little of something that all texts share."""
        words = re.findall(r"\w+", text.casefold())
        return [*(float(sum(word in meaning for word in words)) for meaning in self.meanings), 0.1]

    async def _break(
        self, kind: Break, anthropic: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        whole = Say(pieces=("Hel", "lo"))
        events = list(_anthropic_events(whole) if anthropic else _openai_events(whole))
        beginning = events[:3] if anthropic else events[:1]  # up to the first text
        if kind is Break.NOT_SSE:
            page = b"<html>Welcome to the proxy</html>"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
            return
        _begin_stream(writer)
        if kind is Break.SILENCE:
            await self._wait_for_hangup(reader)
        if kind is Break.PINGS:
            await self._ping(writer, anthropic)
        told = {Break.TOLD_THEN_DROP: events[:-1], Break.LINGER: events}
        for event in told.get(kind, beginning):
            _write_chunk(writer, event)
        await writer.drain()
        match kind:
            case Break.DROP | Break.TOLD_THEN_DROP:
                raise _Hangup
            case Break.STALL | Break.LINGER:
                await self._wait_for_hangup(reader)
            case Break.NO_JSON:
                _write_chunk(writer, b'event: content_block_delta\ndata: {"oops": \n\n')
                for event in events[len(beginning) :]:
                    _write_chunk(writer, event)
            case Break.ERROR_EVENT:
                error = {"type": "overloaded_error", "code": 529, "message": "Overloaded, secret prompt"}
                _write_chunk(writer, _event({"type": "error", "error": error}, "error"))
            case _:
                pass
        _write_chunk(writer, b"")

    async def _ping(self, writer: asyncio.StreamWriter, anthropic: bool) -> None:
        ping = _event({"type": "ping"}, "ping") if anthropic else b": OPENROUTER PROCESSING\n\n"
        while True:
            _write_chunk(writer, ping)
            await writer.drain()
            await asyncio.sleep(0.01)

    async def _wait_for_hangup(self, reader: asyncio.StreamReader) -> None:
        await reader.read()
        raise _Hangup


def _is_embeddings(request: ApiRequest) -> bool:
    return request.path.split("?")[0].endswith("/embeddings")


class _Hangup(Exception):
    """This connection is over."""


@asynccontextmanager
async def fake_llm_api() -> AsyncIterator[FakeLLMApi]:
    """A running fake server."""
    api = FakeLLMApi("")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await api.serve(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> ApiRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return ApiRequest(method, path, headers, raw)


def _write_json(
    writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", "Content-Type: application/json", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def _begin_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"


def _openai_usage(say: Say) -> dict[str, Any]:
    return {
        "prompt_tokens": say.usage["input"],
        "completion_tokens": say.usage["output"],
        "total_tokens": say.usage["input"] + say.usage["output"],
        "prompt_tokens_details": {"cached_tokens": say.usage["cached"]},
    }


def _openai_finish(say: Say) -> str | None:
    return say.finish if say.finish != "default" else ("tool_calls" if say.calls else "stop")


def _openai_answer(say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.whole or None}
    if say.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in say.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _openai_finish(say)}
    return {"id": "c1", "model": "fake-model-1", "choices": [choice], "usage": _openai_usage(say)}


def _openai_events(say: Say) -> Iterable[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({"id": "c1", "model": "fake-model-1", "choices": [choice]})

    for piece in say.chunks:
        yield chunk({"content": piece})
    for index, call in enumerate(say.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        for part in (call.arguments[:4], call.arguments[4:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _openai_finish(say))
    yield _event({"id": "c1", "model": "fake-model-1", "choices": [], "usage": _openai_usage(say)})
    yield b"data: [DONE]\n\n"


def _anthropic_usage(say: Say) -> dict[str, int]:
    return {
        "input_tokens": say.usage["input"] - say.usage["cached"] - say.usage["written"],
        "cache_read_input_tokens": say.usage["cached"],
        "cache_creation_input_tokens": say.usage["written"],
    }


def _anthropic_stop(say: Say) -> str | None:
    words = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    if say.finish == "default":
        return "tool_use" if say.calls else "end_turn"
    return words.get(say.finish, say.finish) if say.finish else None


def _anthropic_answer(say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": say.whole}] if say.whole else []
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in say.calls
    ]
    usage = {**_anthropic_usage(say), "output_tokens": say.usage["output"]}
    return {
        "type": "message",
        "role": "assistant",
        "model": "fake-model-1",
        "content": content,
        "stop_reason": _anthropic_stop(say),
        "usage": usage,
    }


def _anthropic_events(say: Say) -> Iterable[bytes]:
    def named(name: str, **data: Any) -> bytes:
        return _event({"type": name, **data}, name)

    usage = {**_anthropic_usage(say), "output_tokens": 1}
    yield named("message_start", message={"model": "fake-model-1", "content": [], "stop_reason": None, "usage": usage})
    index = 0
    if say.chunks:
        yield named("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in say.chunks:
            yield named("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield named("content_block_stop", index=0)
        index = 1
    for offset, call in enumerate(say.calls, start=index):
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield named("content_block_start", index=offset, content_block=block)
        for part in (call.arguments[:4], call.arguments[4:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            yield named("content_block_delta", index=offset, delta=delta)
        yield named("content_block_stop", index=offset)
    yield named(
        "message_delta", delta={"stop_reason": _anthropic_stop(say)}, usage={"output_tokens": say.usage["output"]}
    )
    yield named("message_stop")
