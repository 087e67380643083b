"""The Discord adapter on a bench: against `FakeDiscord`, what it accepts in a queue, its clock in our hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from channels.base import Accept, Accepted
from channels.discord import DiscordChannel
from channels.message import Address, IncomingMessage, OutgoingMessage
from channels.settings import DiscordSettings
from tests.support.fake_discord import DIRECT, TOKEN, FakeDiscord
from tests.support.parts import Parts

_PATIENCE = 10.0


class ManualClock:
    """Time that stands until it is moved; sleeping moves it."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)
        self.slept: list[timedelta] = []

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    async def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration)
        self._now += duration
        await asyncio.sleep(0)


class Bench:
    """A channel and what it has accepted. `note` is what each acceptance says; `refusing` fails them instead."""

    def __init__(self, fake: FakeDiscord, **settings: Any) -> None:
        self.clock = ManualClock()
        self.channel = DiscordChannel(settings_for(fake, **settings), self.clock)
        self.accepted: asyncio.Queue[IncomingMessage] = asyncio.Queue()
        self.note: str | None = None
        self.refusing: Callable[[IncomingMessage], bool] = lambda _: False
        self._accept: Accept = self.accept

    def accept_with(self, accept: Accept) -> None:
        """Let another function take what comes from now on."""
        self._accept = accept

    async def accept(self, message: IncomingMessage) -> Accepted:
        await asyncio.sleep(0)
        if self.refusing(message):
            raise ConnectionAbortedError("the store is away")
        self.accepted.put_nowait(message)
        return Accepted(note=self.note)

    async def next(self) -> IncomingMessage:
        """The next accepted message."""
        async with asyncio.timeout(_PATIENCE):
            return await self.accepted.get()

    async def send(self, text: str, *sent: str, chat_id: str = DIRECT, **fields: Any) -> str:
        """Send one message of ours; `sent` are parts that have arrived before."""
        message = OutgoingMessage(address=Address(channel="discord", chat_id=chat_id), text=text, **fields)
        async with asyncio.timeout(_PATIENCE):
            return await self.channel.send(message, Parts(*sent))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The channel runs inside the block and is cancelled at its end."""
        task = asyncio.get_running_loop().create_task(self.channel.run(lambda message: self._accept(message)))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def settings_for(fake: FakeDiscord, **settings: Any) -> DiscordSettings:
    """Settings that point the adapter at the fake."""
    given = {"bot_token": SecretStr(TOKEN), "api_base_url": fake.api_url, "gateway_url": fake.gateway_url}
    return DiscordSettings(**(given | settings))


@asynccontextmanager
async def bench(**settings: Any) -> AsyncIterator[tuple[FakeDiscord, Bench]]:
    """A fake and a channel connected to it."""
    async with FakeDiscord().serve() as fake:
        table = Bench(fake, **settings)
        async with table.running():
            await fake.until(lambda: bool(fake.sessions))
            yield fake, table


MESSAGE = UUID("00000000-0000-4000-8000-00000000abcd")
APPROVAL = UUID("11111111-2222-4333-8444-555555555555")
