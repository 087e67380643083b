"""Telegram's updates, through the real library over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import structlog

from channels.base import ChannelHealth, ChannelState, ReportsMigration
from channels.errors import Unauthorized
from channels.message import IncomingMessage
from channels.settings import GroupTrigger
from channels.telegram import TelegramChannel
from tests.support.fake_telegram import CONFLICT, TOKEN, FakeTelegram, LeapingClock, Refusal, flood
from tests.support.telegram_bench import Inbox, running, settings


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
def clock() -> LeapingClock:
    return LeapingClock()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


async def test_offset_moves_only_after_the_message_was_accepted(fake: FakeTelegram, inbox: Inbox) -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def pause(_: IncomingMessage) -> None:
        reached.set()
        await go.wait()

    inbox.before = pause
    update = fake.said("hello")
    async with running(TelegramChannel(settings(fake)), inbox):
        await fake.push(update)
        await reached.wait()

        assert fake.offsets == [0]

        go.set()
        await fake.wait(lambda: fake.offsets[-1] == update["update_id"] + 1)
    assert inbox.texts == ["hello"]


async def test_message_that_could_not_be_stored_comes_again(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock
) -> None:
    channel = TelegramChannel(settings(fake), clock=clock)
    states: list[ChannelHealth] = []

    def fail_twice(_: IncomingMessage) -> bool:
        states.append(channel.health)
        return len(states) <= 2

    inbox.fail = fail_twice
    await fake.push(fake.said("first"), fake.said("second"))
    async with running(channel, inbox):
        await inbox.wait_for(2)

    assert inbox.texts == ["first", "second"]
    assert len(clock.slept) == 2


async def test_update_that_never_can_be_accepted_does_not_block_others(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock
) -> None:
    inbox.fail = lambda message: message.text == "poison"
    async with running(TelegramChannel(settings(fake), clock=clock), inbox):
        await fake.push(fake.said("poison", chat_id=1), fake.said("good", chat_id=2))
        await inbox.wait_for(1)
        for number in range(2, 4):
            await fake.push(fake.said(f"good {number}", chat_id=2))
            await inbox.wait_for(number)
        last = fake.said("after", chat_id=1)
        await fake.push(last)
        await inbox.wait_for(4)
        await fake.wait(lambda: fake.offsets[-1] == last["update_id"] + 1)

    assert inbox.texts == ["good", "good 2", "good 3", "after"]


async def test_store_outage_loses_no_message(fake: FakeTelegram, inbox: Inbox, clock: LeapingClock) -> None:
    inbox.fail = lambda _: len(clock.slept) < 12
    await fake.push(fake.said("one", chat_id=1), fake.said("two", chat_id=2))
    async with running(TelegramChannel(settings(fake), clock=clock), inbox):
        await inbox.wait_for(2)

    assert sorted(inbox.texts) == ["one", "two"]


@pytest.mark.parametrize(
    "broken",
    [
        {"message": None},
        {"message": {"message_id": "x", "from": {"id": 1, "is_bot": False}, "chat": {"id": 7}, "text": "?", "date": 1}},
        {"message": {"message_id": 1, "from": {"id": 1, "is_bot": False}, "chat": {"id": 7}, "text": ["?"], "date": 1}},
        {"message": {"message_id": 1, "from": {"id": 1, "is_bot": False}, "chat": [], "text": "x", "date": 10**20}},
        {
            "message": {
                "message_id": 1,
                "from": {"id": 1, "is_bot": False},
                "chat": {"id": 7},
                "text": "x",
                "date": 10**30,
            }
        },
        {"callback_query": 5},
    ],
)
async def test_broken_update_takes_no_neighbour_with_it(
    fake: FakeTelegram, inbox: Inbox, broken: dict[str, Any]
) -> None:
    first, middle, last = fake.said("first"), fake.update(**broken), fake.said("last")
    await fake.push(first, middle, last)
    async with running(TelegramChannel(settings(fake)), inbox):
        await fake.wait(lambda: fake.offsets[-1:] == [last["update_id"] + 1])

    assert inbox.texts == ["first", "last"]


async def test_messages_of_a_chat_stay_in_order_while_chats_do_not_wait_for_each_other(
    fake: FakeTelegram, inbox: Inbox
) -> None:
    go = asyncio.Event()

    async def hold_slow(message: IncomingMessage) -> None:
        if message.text == "slow 1":
            await go.wait()

    inbox.before = hold_slow
    await fake.push(fake.said("slow 1", chat_id=1), fake.said("slow 2", chat_id=1), fake.said("quick", chat_id=2))
    async with running(TelegramChannel(settings(fake)), inbox):
        await inbox.wait_for(1)
        go.set()
        await inbox.wait_for(3)

    assert inbox.texts == ["quick", "slow 1", "slow 2"]


async def test_conflict_is_waited_out_and_shown(fake: FakeTelegram, inbox: Inbox) -> None:
    seen: list[ChannelHealth] = []

    class WatchingClock(LeapingClock):
        async def sleep(self, duration: timedelta) -> None:
            seen.append(channel.health)
            await super().sleep(duration)

    clock = WatchingClock()
    channel = TelegramChannel(settings(fake), clock=clock)
    fake.refuse("getUpdates", CONFLICT, CONFLICT, CONFLICT, CONFLICT)
    await fake.push(fake.said("still here"))
    async with running(channel, inbox):
        await inbox.wait_for(1)
        assert channel.health.state is ChannelState.CONNECTED

    assert {health.state for health in seen} == {ChannelState.DEGRADED}
    assert all("conflict" in health.reason for health in seen)
    assert clock.slept == sorted(clock.slept)
    assert len(clock.slept) == 4


async def test_flood_wait_of_polling_is_kept(fake: FakeTelegram, inbox: Inbox, clock: LeapingClock) -> None:
    fake.refuse("getUpdates", flood(17))
    await fake.push(fake.said("later"))
    async with running(TelegramChannel(settings(fake), clock=clock), inbox):
        await inbox.wait_for(1)

    assert clock.slept == [timedelta(seconds=17)]


async def test_network_faults_are_waited_out(fake: FakeTelegram, inbox: Inbox, clock: LeapingClock) -> None:
    fake.refuse("getMe", Refusal(502, "Bad Gateway"))
    fake.refuse("getUpdates", Refusal(0, "cut"), Refusal(500, "Internal Server Error"))
    await fake.push(fake.said("hello"))
    async with running(TelegramChannel(settings(fake), clock=clock), inbox):
        await inbox.wait_for(1)

    assert len(clock.slept) == 3


async def test_webhook_of_an_earlier_installation_is_removed_without_dropping_updates(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock
) -> None:
    fake.webhook = {"url": "https://old.example"}
    await fake.push(fake.said("waiting"))
    async with running(TelegramChannel(settings(fake), clock=clock), inbox):
        await inbox.wait_for(1)

    assert fake.made("deleteWebhook") == [{}]


@pytest.mark.parametrize("status", [401, 404])
async def test_refused_token_is_final_and_wakes_waiting_senders(status: int, fake: FakeTelegram, inbox: Inbox) -> None:
    channel = TelegramChannel(settings(fake))
    fake.refuse("getMe", Refusal(status, "no"))

    with pytest.raises(Unauthorized):
        await channel.run(inbox.accept)

    assert channel.health.state is ChannelState.OFF
    assert "TELEGRAM_BOT_TOKEN" in channel.health.reason


async def test_menu_is_registered_and_its_failure_is_no_obstacle(fake: FakeTelegram, inbox: Inbox) -> None:
    fake.refuse("setMyCommands", Refusal(400, "Bad Request: BOT_COMMAND_INVALID"))
    await fake.push(fake.said("hello"))
    async with running(TelegramChannel(settings(fake), commands=(("help", "What I can do"),)), inbox):
        await inbox.wait_for(1)

    assert fake.tried("setMyCommands") == [{"commands": [{"command": "help", "description": "What I can do"}]}]


async def test_pressed_button_answers_its_approval_and_is_acknowledged(fake: FakeTelegram, inbox: Inbox) -> None:
    approval = str(uuid4())
    inbox.note = "Approved"
    await fake.push(fake.pressed(f"apr:{approval}:a", message_id=55, query="q9"))
    async with running(TelegramChannel(settings(fake)), inbox):
        await fake.wait(lambda: bool(fake.tried("answerCallbackQuery")))

    (message,) = inbox.messages
    assert json.loads(message.text) == {"ExecApproval": {"request_id": approval, "approved": True, "always": True}}
    assert message.metadata.structured
    assert message.metadata.answers_approval == approval
    assert message.message_id == "callback:q9"
    assert fake.made("answerCallbackQuery") == [{"callback_query_id": "q9", "text": "Approved"}]


async def test_every_button_is_acknowledged_also_stale_and_foreign_ones(fake: FakeTelegram, inbox: Inbox) -> None:
    await fake.push(
        fake.pressed("something:else", query="foreign"), fake.pressed("apr:x:y", query="stale"), fake.said("next")
    )
    fake.buttons.discard("stale")
    async with running(TelegramChannel(settings(fake)), inbox):
        await fake.wait(lambda: len(fake.tried("answerCallbackQuery")) == 2)
        await inbox.wait_for(1)

    assert inbox.texts == ["next"]


async def test_album_is_one_message_also_if_it_arrives_in_pieces(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock
) -> None:
    def picture(number: int, caption: str | None, **more: Any) -> dict[str, Any]:
        photo = [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "file_size": 9, "width": 1, "height": 1}]
        return fake.said(None, chat_id=-5, media_group_id="g", photo=photo, caption=caption, **more)

    mention = [{"type": "mention", "offset": 0, "length": 8}]
    first, second = picture(1, "one"), picture(2, None)
    third = picture(3, "@our_bot three", caption_entities=mention)

    class ArrivingClock(LeapingClock):
        async def sleep(self, duration: timedelta) -> None:
            if third not in fake.updates:
                await fake.push(second, third)
            await super().sleep(duration)

    await fake.push(first)
    async with running(TelegramChannel(settings(fake), clock=ArrivingClock()), inbox):
        await inbox.wait_for(1)
        await fake.wait(lambda: fake.offsets[-1] == third["update_id"] + 1)

    (message,) = inbox.messages
    assert message.text == "[1] one\n[3] three"
    assert [attachment.source for attachment in message.attachments] == ["f1", "f2", "f3"]
    assert message.metadata.addressed_to_bot


@pytest.mark.parametrize("chat_id", [-5, 7])
async def test_album_is_one_message_though_others_speak_while_it_arrives(
    fake: FakeTelegram, inbox: Inbox, chat_id: int
) -> None:
    def picture(number: int) -> dict[str, Any]:
        photo = [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "file_size": 9, "width": 1, "height": 1}]
        return fake.said(None, chat_id=-5, media_group_id="g", photo=photo)

    first, other, second = picture(1), fake.said("hello", chat_id=chat_id), picture(2)

    class ArrivingClock(LeapingClock):
        async def sleep(self, duration: timedelta) -> None:
            if second not in fake.updates:
                await fake.push(second)
            await super().sleep(duration)

    await fake.push(first, other)
    async with running(TelegramChannel(settings(fake), clock=ArrivingClock()), inbox):
        await inbox.wait_for(2)
        await fake.wait(lambda: fake.offsets[-1] == second["update_id"] + 1)

    assert sorted(len(message.attachments) for message in inbox.messages) == [0, 2]


async def test_edit_is_handed_on_as_such_also_if_only_metadata_changed(fake: FakeTelegram, inbox: Inbox) -> None:
    said = fake.said("/new")
    edits = [fake.edited(said, "/new"), fake.edited(said, "/new thing")]
    with structlog.testing.capture_logs() as logs:
        await fake.push(said, *edits)
        async with running(TelegramChannel(settings(fake)), inbox):
            await inbox.wait_for(3)

    assert [message.metadata.is_edit for message in inbox.messages] == [False, True, True]
    assert {message.original_key for message in inbox.messages} == {inbox.messages[0].delivery_key}
    assert len({message.delivery_key for message in inbox.messages}) == 3
    assert sum(entry["event"] == "edit_received" for entry in logs) == 2


async def test_migration_is_reported_by_both_chats_before_it_is_confirmed(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock
) -> None:
    reports: list[tuple[str, str]] = []

    async def on_migration(old: str, new: str) -> None:
        reports.append((old, new))
        if len(reports) == 1:
            raise ConnectionError("the store is away")

    channel = TelegramChannel(settings(fake), clock=clock)
    assert isinstance(channel, ReportsMigration)
    channel.on_migration = on_migration
    notices = (
        fake.said(None, chat_id=-5, migrate_to_chat_id=-1005),
        fake.said(None, chat_id=-1005, migrate_from_chat_id=-5),
    )
    last = fake.said("after", chat_id=-1005)
    await fake.push(*notices, last)
    async with running(channel, inbox):
        await fake.wait(lambda: fake.offsets[-1:] == [last["update_id"] + 1])

    assert reports == [("-5", "-1005")] * 3
    assert inbox.texts == ["after"]


async def test_migration_that_nobody_listens_to_is_no_obstacle(fake: FakeTelegram, inbox: Inbox) -> None:
    await fake.push(fake.said(None, chat_id=-5, migrate_to_chat_id=-1005), fake.said("after"))
    async with running(TelegramChannel(settings(fake)), inbox):
        await inbox.wait_for(1)

    assert inbox.texts == ["after"]


async def test_privacy_mode_is_said_where_all_messages_are_expected(inbox: Inbox) -> None:
    async with FakeTelegram(reads_all=False) as fake:
        channel = TelegramChannel(settings(fake, group_trigger=GroupTrigger.ALL))
        async with running(channel, inbox):
            await fake.wait(lambda: bool(fake.offsets))

            assert "/setprivacy" in channel.health.reason


async def test_token_appears_in_no_log_and_no_error(
    fake: FakeTelegram, inbox: Inbox, clock: LeapingClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    channel = TelegramChannel(settings(fake), clock=clock)
    fake.refuse("getMe", Refusal(0, "cut"), Refusal(502, "Bad Gateway"), Refusal(401, "Unauthorized"))
    with structlog.testing.capture_logs() as logs, pytest.raises(Unauthorized) as caught:
        await channel.run(inbox.accept)

    told = [str(caught.getrepr(style="long", chain=True)), repr(logs), caplog.text, repr(channel.health)]
    assert not any(TOKEN.split(":")[1] in text for text in told)
