"""What the Discord adapter hands to the agent, with the real SDK on real sockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from channels.base import ChannelState
from channels.message import AttachmentKind, ChatType
from tests.support.discord_bench import APPROVAL, bench
from tests.support.fake_discord import (
    ALICE,
    BORIS,
    BOT,
    BOT_ROLE,
    DIRECT,
    GENERAL,
    GROUP_DIRECT,
    GUILD,
    HELD_ROLE,
    OTHER_BOT_ROLE,
    THREAD,
)


async def test_direct_message_arrives_private_and_addressed() -> None:
    async with bench() as (fake, table):
        sent = await fake.say("  hello\nthere ")

        message = await table.next()

    assert message.text == "hello\nthere"
    assert message.message_id == sent["id"]
    assert (message.address.chat_id, message.address.thread_id) == (DIRECT, None)
    assert (message.sender.user_id, message.sender.display_name, message.sender.username) == (ALICE, "Alice", "alice")
    assert message.metadata.chat_type is ChatType.PRIVATE
    assert message.metadata.addressed_to_bot


@pytest.mark.parametrize("token", [f"<@{BOT}>", f"<@!{BOT}>"])
async def test_server_message_with_a_mention_is_addressed_and_the_mention_is_stripped(token: str) -> None:
    async with bench() as (fake, table):
        await fake.say(f"{token} what is <@{ALICE}> doing?", channel=GENERAL, mentions=[BOT, ALICE])

        message = await table.next()

    assert message.text == f"what is <@{ALICE}> doing?"
    assert message.metadata.chat_type is ChatType.GROUP
    assert message.metadata.addressed_to_bot
    assert message.metadata.chat_title == "Guild #general"


async def test_own_managed_role_counts_as_mention_and_other_roles_do_not() -> None:
    async with bench() as (fake, table):
        for role in (HELD_ROLE, OTHER_BOT_ROLE, BOT_ROLE):
            await fake.say(f"<@&{role}> help", channel=GENERAL, roles=[role])

        held, other, own = [await table.next() for _ in range(3)]

    assert not held.metadata.addressed_to_bot
    assert not other.metadata.addressed_to_bot
    assert own.metadata.addressed_to_bot
    assert own.text == "help"


async def test_reply_to_the_bot_is_addressed_and_reply_to_a_person_is_not() -> None:
    async with bench() as (fake, table):
        answer = await table.send("an answer", chat_id=GENERAL)
        other = await fake.say("chatter", channel=GENERAL)
        await fake.say("and then?", channel=GENERAL, replies_to=answer)
        await fake.say("indeed", channel=GENERAL, replies_to=other["id"])

        _, to_bot, to_person = [await table.next() for _ in range(3)]

    assert to_bot.metadata.is_reply_to_bot
    assert to_bot.metadata.addressed_to_bot
    assert to_bot.metadata.reply_to == answer
    assert not to_person.metadata.addressed_to_bot


async def test_trigger_all_addresses_every_server_message() -> None:
    async with bench(group_trigger="all") as (fake, table):
        await fake.say("anybody?", channel=GENERAL)

        assert (await table.next()).metadata.addressed_to_bot


async def test_slash_text_in_a_server_without_a_mention_is_not_addressed() -> None:
    async with bench() as (fake, table):
        await fake.say("/new", channel=GENERAL)

        assert not (await table.next()).metadata.addressed_to_bot


async def test_thread_is_a_chat_of_its_own() -> None:
    async with bench() as (fake, table):
        await fake.say(f"<@{BOT}> one", channel=GENERAL, mentions=[BOT])
        await fake.say(f"<@{BOT}> two", channel=THREAD, mentions=[BOT])

        in_channel, in_thread = await table.next(), await table.next()

    assert in_channel.external_thread_id == GENERAL
    assert in_thread.external_thread_id == THREAD
    assert in_thread.metadata.chat_type is ChatType.GROUP


@pytest.mark.parametrize("announced_by", ["channel_create", "message"])
async def test_group_direct_message_counts_as_group(announced_by: str) -> None:
    async with bench() as (fake, table):
        if announced_by == "channel_create":
            await fake.emit("CHANNEL_CREATE", {"id": GROUP_DIRECT, "type": 3, "recipients": []})
            await fake.say("hi all", channel=GROUP_DIRECT, channel_type=None)
        else:
            await fake.say("hi all", channel=GROUP_DIRECT)

        assert (await table.next()).metadata.chat_type is ChatType.GROUP


async def test_bots_webhooks_notices_and_empty_messages_are_skipped() -> None:
    async with bench() as (fake, table):
        await fake.say("own", author=BOT)
        await fake.say("hook", webhook_id="123456")
        await fake.say("joined", type=7)
        await fake.say(f"<@{BOT}>", channel=GENERAL, mentions=[BOT])
        await fake.say("", sticker_items=[{"id": "1", "name": "wave", "format_type": 1}])
        await fake.say("last")

        assert (await table.next()).text == "last"


async def test_attachment_without_text_is_taken() -> None:
    file = {
        "id": "42",
        "filename": "a.png",
        "url": "http://cdn/a.png",
        "proxy_url": "http://cdn/a.png",
        "size": 9,
        "content_type": "image/png",
    }
    async with bench() as (fake, table):
        await fake.say("", attachments=[file])

        (attachment,) = (await table.next()).attachments

    assert (attachment.kind, attachment.filename, attachment.size_bytes) == (AttachmentKind.IMAGE, "a.png", 9)
    assert attachment.source == "http://cdn/a.png"


async def test_message_delivered_twice_has_one_delivery_key() -> None:
    async with bench() as (fake, table):
        await fake.say("once")
        await fake.again()

        first, second = await table.next(), await table.next()

    assert first.delivery_key == second.delivery_key


async def test_messages_of_one_chat_are_accepted_in_order_and_chats_do_not_wait_for_each_other() -> None:
    async with bench() as (fake, table):
        release = asyncio.Event()
        accept = table.accept

        async def slow_in_general(message: Any) -> Any:
            if message.address.chat_id == GENERAL:
                await release.wait()
            return await accept(message)

        table.accept_with(slow_in_general)
        for number in range(20):
            await fake.say(f"{number}", channel=GENERAL)
        await fake.say("quick")

        assert (await table.next()).text == "quick"
        release.set()
        assert [(await table.next()).text for _ in range(20)] == [str(number) for number in range(20)]


async def test_unreadable_events_are_skipped_and_the_rest_goes_on() -> None:
    async with bench() as (fake, table):
        await fake.emit("MESSAGE_CREATE", {"id": "no number"})
        await fake.emit("INTERACTION_CREATE", {})
        await fake.emit("GUILD_UPDATE", {"id": GUILD})
        await fake.emit("SOMETHING_NEW", {"a": 1})
        await fake.say("still here")

        assert (await table.next()).text == "still here"
        assert len(fake.identifies) == 1


async def test_server_messages_without_content_show_the_missing_intent_in_health() -> None:
    async with bench() as (fake, table):
        await fake.say("", channel=GENERAL)
        await fake.say("a direct one")
        await table.next()

        assert table.channel.health.state is ChannelState.CONNECTED
        assert "Message Content Intent" in table.channel.health.reason

        await fake.say("readable again", channel=GENERAL)
        await table.next()

        assert table.channel.health.reason == ""


@pytest.mark.parametrize(("answer", "approved", "always"), [("y", True, False), ("a", True, True), ("n", False, False)])
async def test_button_is_acknowledged_and_becomes_a_structured_answer(
    answer: str, approved: bool, always: bool
) -> None:
    async with bench() as (fake, table):
        press = await fake.press(f"apr:{APPROVAL}:{answer}", channel=GENERAL, user=BORIS)

        message = await table.next()
        await fake.until(lambda: press["id"] in fake.responses)

    assert fake.responses[press["id"]] == {"type": 6}
    decision = {"request_id": str(APPROVAL), "approved": approved, "always": always}
    assert json.loads(message.text) == {"ExecApproval": decision}
    assert message.metadata.structured
    assert message.metadata.answers_approval == str(APPROVAL)
    assert message.message_id == f"interaction:{press['id']}"
    assert message.metadata.chat_type is ChatType.GROUP
    assert (message.sender.user_id, message.address.chat_id) == (BORIS, GENERAL)


async def test_button_in_a_direct_chat_is_private() -> None:
    async with bench() as (fake, table):
        await fake.press(f"apr:{APPROVAL}:y")

        assert (await table.next()).metadata.chat_type is ChatType.PRIVATE


async def test_expired_button_still_counts_once() -> None:
    async with bench() as (fake, table):
        await fake.press(f"apr:{APPROVAL}:y", expired=True)
        await fake.say("next")

        texts = [(await table.next()).metadata.structured for _ in range(2)]

    assert sorted(texts) == [False, True]
    assert table.accepted.empty()


async def test_button_delivered_twice_is_acknowledged_once_and_has_one_key() -> None:
    async with bench() as (fake, table):
        await fake.press(f"apr:{APPROVAL}:y")
        first = await table.next()
        await fake.until(lambda: len(fake.responses) == 1)
        await fake.again()
        second = await table.next()
        await fake.until(lambda: len(fake.made("POST", "/callback")) == 2)

    assert first.delivery_key == second.delivery_key
    assert len(fake.responses) == 1


async def test_button_is_acknowledged_while_acceptance_still_waits() -> None:
    async with bench() as (fake, table):
        release = asyncio.Event()
        accept = table.accept

        async def slow(message: Any) -> Any:
            await release.wait()
            return await accept(message)

        table.accept_with(slow)
        press = await fake.press(f"apr:{APPROVAL}:y")

        await fake.until(lambda: press["id"] in fake.responses)
        assert table.accepted.empty()
        release.set()
        await table.next()


async def test_note_of_an_acceptance_is_shown_to_the_one_who_pressed() -> None:
    async with bench() as (fake, table):
        table.note = "This request is closed."
        await fake.press(f"apr:{APPROVAL}:y", channel=GENERAL)
        await fake.until(lambda: bool(fake.notes))

    (note,) = fake.notes
    assert (note["method"], note["content"]) == ("POST", "This request is closed.")
    assert note["flags"] & 64
    assert note["allowed_mentions"]["parse"] == []


async def test_unknown_button_is_acknowledged_and_starts_nothing() -> None:
    async with bench() as (fake, table):
        press = await fake.press("something:else")
        await fake.until(lambda: press["id"] in fake.responses)
        await fake.say("next")

        assert (await table.next()).text == "next"


async def test_slash_command_becomes_its_text_and_leaves_no_thinking_sign() -> None:
    async with bench() as (fake, table):
        option = {"name": "name", "type": 3, "value": "large"}
        press = await fake.command("model", option, channel=GENERAL)

        message = await table.next()
        await fake.until(lambda: bool(fake.notes))

    assert message.text == "/model large"
    assert message.metadata.addressed_to_bot
    assert not message.metadata.structured
    assert fake.responses[press["id"]]["type"] == 5
    assert [note["method"] for note in fake.notes] == ["DELETE"]


async def test_slash_command_with_an_expired_token_still_runs_once() -> None:
    async with bench() as (fake, table):
        await fake.command("new", expired=True)

        assert (await table.next()).text == "/new"
        await fake.until(lambda: len(fake.made("POST", "/callback")) == 1)
        assert table.accepted.empty()
        assert table.channel.health.state is ChannelState.CONNECTED
