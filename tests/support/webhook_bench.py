"""A whole bot behind a web server that takes posts of other programs, and a program that signs them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from pydantic import SecretStr

from bot.web.webhook import WebhookPosts
from bot.webhook_desk import StoreDesk
from channels.webhook import WebhookChannel
from tests.support.bot import Bot
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM
from tests.support.web_bench import running_bench

SECRET = "the operator's long random text"


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    """The header that a body needs."""
    return {"X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"}


def a_file(data: bytes, filename: str = "notes.txt", **more: str) -> dict[str, str]:
    """One of `attachments`."""
    return {"filename": filename, "data_base64": base64.b64encode(data).decode()} | more


@dataclass(frozen=True)
class Answer:
    """What a program was told."""

    status: int
    data: Mapping[str, object]
    headers: Mapping[str, str]

    @property
    def said(self) -> str:
        """The reply, or what was wrong."""
        error = self.data.get("error")
        return str(error["message"]) if isinstance(error, dict) else str(self.data.get("response"))


@dataclass
class Caller:
    """Another program."""

    http: aiohttp.ClientSession
    bot: Bot
    channel: WebhookChannel

    async def post(self, **body: object) -> Answer:
        """One signed post."""
        return await self.send(json.dumps(body).encode())

    async def ask(self, content: str, **body: object) -> Answer:
        """One signed post that waits for its answer."""
        return await self.post(content=content, wait_for_response=True, **body)

    async def send(self, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """Any bytes, signed right unless told otherwise."""
        given = signed(body) if headers is None else headers
        async with self.http.post("/webhook", data=io.BytesIO(body), headers=given) as answer:
            return Answer(answer.status, await answer.json(), answer.headers)


@asynccontextmanager
async def calling(
    home: Path, llm: ScriptedLLM, *, clock: FakeClock | None = None, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Caller]:
    """A bot that takes posts, and a program that can make them."""
    given = {"WEBHOOK_SECRET": SECRET, "AGENT_LOCAL_TOOLS_FOR": "operator"} | dict(variables or {})
    bot = Bot(home, llm, clock=clock, variables=given)
    channel = WebhookChannel(bot.clock)
    bot.more["webhook"] = channel
    async with bot:
        channel.desk = desk = StoreDesk(bot.store, bot.clock)
        posts = WebhookPosts(channel, desk, SecretStr(SECRET), bot.clock)
        async with running_bench(routes=[posts.route]) as bench:
            connector = aiohttp.TCPConnector(limit=0)  # more may wait at once than a session's usual bound
            url, timeout = f"http://127.0.0.1:{bench.server.port}", aiohttp.ClientTimeout(total=10)
            async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as http:
                yield Caller(http, bot, channel)
