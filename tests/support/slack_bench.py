"""A Slack channel at work against the fake, and what stands behind it in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from channels.base import Accepted, ChannelState
from channels.message import Address, IncomingMessage
from channels.settings import SlackSettings
from channels.slack import SlackChannel
from tests.support.builders import NOON
from tests.support.fake_slack import APP_TOKEN, BOT_TOKEN, FakeSlack

CHANNEL = Address(channel="slack", chat_id="C1")
DIRECT = Address(channel="slack", chat_id="D1")


class RestlessClock:
    """Time that passes only by sleeping, which takes none."""

    def __init__(self) -> None:
        self._now = NOON
        self.slept: list[timedelta] = []

    def now(self) -> Any:
        return self._now

    async def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration)
        self._now += duration
        await asyncio.sleep(0)

    def advance(self, duration: timedelta) -> None:
        self._now += duration


class Inbox:
    """Takes messages, when the gate is open, and fails on demand before that."""

    def __init__(self, note: str | None = None) -> None:
        self.taken: list[IncomingMessage] = []
        self.seen = 0
        self.failures = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._note = note

    async def accept(self, message: IncomingMessage) -> Accepted:
        self.seen += 1
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError(f"the store is away: {message.text}")
        self.taken.append(message)
        return Accepted(uuid4(), self._note)


def settings(slack: FakeSlack, **changes: Any) -> SlackSettings:
    values = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api_base_url": slack.api_base_url} | changes
    return SlackSettings.model_validate(values)


@asynccontextmanager
async def running(
    slack: FakeSlack,
    inbox: Inbox | None = None,
    clock: RestlessClock | None = None,
    heartbeat: timedelta = timedelta(seconds=10),
    **changes: Any,
) -> AsyncIterator[SlackChannel]:
    """A channel that is connected, and stopped at the end."""
    channel = SlackChannel(settings(slack, **changes), clock or RestlessClock(), heartbeat)
    accept = (inbox or Inbox()).accept
    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(accept))
        try:
            await until(lambda: channel.health.state is ChannelState.CONNECTED)
            yield channel
        finally:
            task.cancel()


async def until(holds: Callable[[], object]) -> None:
    """Give way to other tasks until something is so."""
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0)
