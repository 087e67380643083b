"""A Telegram server and a model server on loopback, as lean as can be, so that what is measured is the bot."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "123456789:AAF4keTelegramTokenForLoopbackTests0"
_ME = {"id": 123456789, "is_bot": True, "first_name": "Bench", "username": "bench_bot", "can_join_groups": True}


@dataclass
class Platform:
    """Both servers. `model_seconds` is how long the model takes."""

    model_seconds: float = 0.0
    first_poll: float | None = None
    answered: dict[int, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    prompts: list[bytes] = field(default_factory=list)
    keep_prompts: bool = False
    model_calls: int = 0

    def __post_init__(self) -> None:
        self._updates: deque[dict[str, Any]] = deque()
        self._wake = asyncio.Event()
        self._heard = asyncio.Condition()
        self._id = 0
        self._message = 0

    async def __aenter__(self) -> Platform:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", f"/bot{TOKEN}/{{method}}", self._telegram)
        app.router.add_post("/v1/chat/completions", self._model)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wake.set()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, user: int, text: str) -> float:
        """A private message; gives the instant it was said."""
        self._id += 1
        chat = {"id": user, "type": "private", "first_name": f"U{user}"}
        sender = {"id": user, "is_bot": False, "first_name": f"U{user}"}
        message = {"message_id": self._id, "from": sender, "chat": chat, "date": int(time.time()), "text": text}
        self._updates.append({"update_id": self._id, "message": message})
        self._wake.set()
        return time.perf_counter()

    async def heard(self, user: int, count: int, seconds: float = 30) -> float:
        """The instant at which `user` got the `count`-th answer."""
        async with asyncio.timeout(seconds), self._heard:
            await self._heard.wait_for(lambda: len(self.answered[user]) >= count)
        return self.answered[user][count - 1][0]

    async def _telegram(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"].lower()
        if method == "getupdates":
            return await self._poll(await _params(request))
        if method == "sendmessage":
            params = await _params(request)
            user = int(params["chat_id"])
            self.answered[user].append((time.perf_counter(), str(params["text"])))
            async with self._heard:
                self._heard.notify_all()
            self._message += 1
            chat = {"id": user, "type": "private", "first_name": "U"}
            return _json(
                {"message_id": self._message, "date": 1, "chat": chat, "from": _ME, "text": str(params["text"])}
            )
        return _json(_ME if method == "getme" else True)

    async def _poll(self, params: dict[str, Any]) -> web.StreamResponse:
        if self.first_poll is None:
            self.first_poll = time.perf_counter()
        offset = int(params.get("offset") or 0)
        while self._updates and self._updates[0]["update_id"] < offset:
            self._updates.popleft()
        if not self._updates:
            self._wake.clear()
            try:
                async with asyncio.timeout(min(10, float(params.get("timeout") or 0))):
                    await self._wake.wait()
            except TimeoutError:
                pass
        return _json([self._updates[i] for i in range(min(100, len(self._updates)))])

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": "bench", "object": "model"}]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.model_calls += 1
        if self.keep_prompts:
            self.prompts.append(raw)
        if self.model_seconds:
            await asyncio.sleep(self.model_seconds)
        text = f"answer {self.model_calls}"
        if b'"stream":true' in raw or b'"stream": true' in raw:
            return await _stream(request, text)
        return web.json_response(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 1,
                "model": "bench",
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
        )


async def _stream(request: web.Request, text: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}},
    ]
    body = b"".join(b"data: " + json.dumps(base | chunk).encode() + b"\n\n" for chunk in chunks)
    await response.write(body + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _params(request: web.Request) -> dict[str, Any]:
    params: dict[str, Any] = dict(request.query)
    if request.method == "POST":
        if request.content_type == "application/json":
            params.update(json.loads(await request.read() or b"{}"))
        else:
            params.update(await request.post())
    return params


def _json(result: object) -> web.Response:
    response = web.Response(body=json.dumps({"ok": True, "result": result}).encode())
    response.headers["Content-Type"] = "application/json"
    return response
