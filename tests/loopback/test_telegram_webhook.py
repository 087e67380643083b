"""Telegram's updates by webhook, through the real library over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from channels.base import ChannelHealth, ChannelState
from channels.pacing import Clock
from channels.settings import TelegramMode
from channels.telegram import TelegramChannel
from channels.telegram_albums import AlbumLost
from tests.support.fake_telegram import FakeTelegram, LeapingClock, Refusal
from tests.support.telegram_bench import Inbox, running, settings

SECRET = "hook-secret"


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def hooked(fake: FakeTelegram, clock: Clock | None, *commands: tuple[str, str]) -> TelegramChannel:
    return TelegramChannel(
        settings(
            fake,
            mode=TelegramMode.WEBHOOK,
            webhook_url="https://bot.example/telegram/hook",
            webhook_secret=SecretStr(SECRET),
        ),
        clock=clock,
        commands=commands,
    )


@asynccontextmanager
async def with_webhook(fake: FakeTelegram, inbox: Inbox, clock: Clock | None = None) -> AsyncIterator[TelegramChannel]:
    channel = hooked(fake, clock)
    async with running(channel, inbox):
        await fake.wait(lambda: bool(fake.webhook))
        yield channel


async def test_webhook_is_registered_with_its_secret(fake: FakeTelegram, inbox: Inbox) -> None:
    fake.refuse("setWebhook", Refusal(409, "Conflict: terminated by setWebhook request"))
    async with with_webhook(fake, inbox) as channel:
        assert channel.webhook_path == "/telegram/hook"

    assert fake.webhook["url"] == "https://bot.example/telegram/hook"
    assert fake.webhook["secret_token"] == SECRET
    assert fake.webhook["allowed_updates"] == ["message", "edited_message", "callback_query"]


@pytest.mark.parametrize("secret", [None, "", "wrong", "\udcff"])
async def test_webhook_refuses_wrong_secrets(secret: str | None, fake: FakeTelegram, inbox: Inbox) -> None:
    async with with_webhook(fake, inbox) as channel:
        assert await channel.handle_webhook(json.dumps(fake.said("hi")).encode(), secret) == 401

    assert inbox.texts == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff", b'{"update_id": "x"}'])
async def test_webhook_refuses_what_is_no_update(body: bytes, fake: FakeTelegram, inbox: Inbox) -> None:
    async with with_webhook(fake, inbox) as channel:
        assert await channel.handle_webhook(body, SECRET) == 400


async def test_webhook_confirms_after_accepting(fake: FakeTelegram, inbox: Inbox) -> None:
    async with with_webhook(fake, inbox) as channel:
        assert await channel.handle_webhook(json.dumps(fake.said("hi")).encode(), SECRET) == 200
        assert await channel.handle_webhook(json.dumps(fake.update(message=3)).encode(), SECRET) == 200
        inbox.fail = lambda _: True
        with pytest.raises(ConnectionError):
            await channel.handle_webhook(json.dumps(fake.said("lost?")).encode(), SECRET)

    assert inbox.texts == ["hi"]


class HeldClock(LeapingClock):
    """A clock whose sleeps end when they are let; `waiting` is set once somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()

    async def sleep(self, duration: timedelta) -> None:
        self.waiting.set()
        await self.go.wait()
        await super().sleep(duration)


def album(fake: FakeTelegram) -> list[dict[str, Any]]:
    def picture(number: int, caption: str | None) -> dict[str, Any]:
        photo = [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "file_size": 9, "width": 1, "height": 1}]
        return fake.said(None, media_group_id="g", photo=photo, caption=caption)

    return [picture(1, "one"), picture(2, None), picture(3, "three")]


async def deliver(channel: TelegramChannel, update: dict[str, Any]) -> int:
    return await channel.handle_webhook(json.dumps(update).encode(), SECRET)


async def test_album_in_requests_of_its_own_is_one_message_in_its_order(fake: FakeTelegram, inbox: Inbox) -> None:
    clock, (first, second, third) = HeldClock(), album(fake)
    async with with_webhook(fake, inbox, clock) as channel, asyncio.TaskGroup() as group:
        requests = [group.create_task(deliver(channel, update)) for update in (third, first, second)]
        await clock.waiting.wait()
        await asyncio.sleep(0)  # the other two requests have begun
        assert not inbox.messages
        clock.go.set()

    (message,) = inbox.messages
    assert [request.result() for request in requests] == [200, 200, 200]
    assert message.text == "[1] one\n[3] three"
    assert [attachment.source for attachment in message.attachments] == ["f1", "f2", "f3"]


async def test_picture_delivered_again_is_no_message_of_its_own(fake: FakeTelegram, inbox: Inbox) -> None:
    clock, pictures = HeldClock(), album(fake)
    async with with_webhook(fake, inbox, clock) as channel:
        async with asyncio.TaskGroup() as group:
            for update in pictures:
                group.create_task(deliver(channel, update))
            await clock.waiting.wait()
            await asyncio.sleep(0)
            clock.go.set()

        assert await deliver(channel, pictures[2]) == 200

    assert len(inbox.messages) == 1


async def test_album_that_was_not_accepted_is_refused_whole_and_comes_again(fake: FakeTelegram, inbox: Inbox) -> None:
    clock, pictures = HeldClock(), album(fake)
    inbox.fail = lambda _: True

    async def outcome(channel: TelegramChannel, update: dict[str, Any]) -> str:
        try:
            return str(await deliver(channel, update))
        except (ConnectionError, AlbumLost) as error:
            return type(error).__name__

    async with with_webhook(fake, inbox, clock) as channel:
        for expected in (["AlbumLost", "AlbumLost", "ConnectionError"], ["200"] * 3):
            clock.waiting.clear()
            async with asyncio.TaskGroup() as group:
                requests = [group.create_task(outcome(channel, update)) for update in pictures]
                await clock.waiting.wait()
                await asyncio.sleep(0)
                clock.go.set()
            clock.go.clear()
            assert sorted(request.result() for request in requests) == expected
            inbox.fail = lambda _: False

    assert len(inbox.messages) == 1


async def test_edit_by_webhook_is_handed_on_as_such(fake: FakeTelegram, inbox: Inbox) -> None:
    said = fake.said("helo")
    async with with_webhook(fake, inbox) as channel:
        await deliver(channel, said)
        await deliver(channel, fake.edited(said, "hello"))

    assert inbox.texts == ["helo", "hello"]
    assert [message.metadata.is_edit for message in inbox.messages] == [False, True]


async def test_webhook_that_telegram_refuses_is_shown_until_it_is_registered(fake: FakeTelegram, inbox: Inbox) -> None:
    seen: list[ChannelHealth] = []

    class WatchingClock(LeapingClock):
        async def sleep(self, duration: timedelta) -> None:
            seen.append(channel.health)
            await super().sleep(duration)

    refusal = "Bad Request: bad webhook: HTTPS url must be provided for webhook"
    fake.refuse("setWebhook", Refusal(400, refusal), Refusal(0, "cut"))
    channel = hooked(fake, WatchingClock(), ("help", "What I can do"))
    async with running(channel, inbox):
        await fake.wait(lambda: bool(fake.made("setMyCommands")))
        assert channel.health.state is ChannelState.CONNECTED

    assert [health.state for health in seen] == [ChannelState.DEGRADED] * 2
    assert "https url must be provided" in seen[0].reason
