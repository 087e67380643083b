"""A Telegram channel at work against the fake, and what stands behind it in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic import SecretStr

from channels.base import Accepted
from channels.message import IncomingMessage
from channels.settings import TelegramSettings
from channels.telegram import TelegramChannel
from tests.support.fake_telegram import TOKEN, FakeTelegram


class Inbox:
    """Accepts messages; `fail` makes it raise for some."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.messages: list[IncomingMessage] = []
        self.fail: Callable[[IncomingMessage], bool] = lambda _: False
        self.before: Callable[[IncomingMessage], Awaitable[None]] | None = None
        self.note: str | None = None
        self._changed = asyncio.Condition()

    async def accept(self, message: IncomingMessage) -> Accepted:
        if self.before is not None:
            await self.before(message)
        if self.fail(message):
            raise ConnectionError("the store is away")
        async with self._changed:
            self.messages.append(message)
            self.texts.append(message.text)
            self._changed.notify_all()
        return Accepted(note=self.note)

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.texts) >= count)


def settings(fake: FakeTelegram, **more: Any) -> TelegramSettings:
    return TelegramSettings(bot_token=SecretStr(TOKEN), api_base_url=fake.base_url, **more)


@asynccontextmanager
async def running(channel: TelegramChannel, inbox: Inbox) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(inbox.accept))
        yield
        task.cancel()
