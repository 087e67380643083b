"""Edits, earlier messages of a thread, files and catching up on Discord, with the real SDK on real sockets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs
from yarl import URL

from channels.base import CatchesUp
from channels.discord_files import is_discord
from channels.download import MOST_BYTES
from channels.errors import Rejected, Unavailable
from channels.message import Attachment, AttachmentKind, ChatType
from tests.support.builders import make_message
from tests.support.discord_bench import Bench, bench
from tests.support.fake_discord import (
    ALICE,
    BORIS,
    BOT,
    DIRECT,
    GENERAL,
    GROUP_DIRECT,
    THREAD,
    FakeDiscord,
    snowflake_at,
)

CONTENT = bytes(range(256)) * 100
LIMIT = 1_000_000


async def test_edit_by_its_writer_is_handed_on_as_such() -> None:
    async with bench() as (fake, table):
        said = await fake.say(f"<@{BOT}> helo", channel=GENERAL, mentions=[BOT])
        await fake.edit(said, f"<@{BOT}> hello")
        await fake.again()

        first, edit, again = [await table.next() for _ in range(3)]

    assert (edit.text, edit.metadata.is_edit, first.metadata.is_edit) == ("hello", True, False)
    assert edit.metadata.addressed_to_bot
    assert edit.original_key == first.delivery_key
    assert edit.delivery_key == again.delivery_key != first.delivery_key


@pytest.mark.parametrize("whole", [True, False])
async def test_link_preview_is_no_edit(whole: bool) -> None:
    async with bench() as (fake, table):
        said = await fake.say("see https://a.example")
        await fake.preview(said, whole=whole)
        await fake.say("next")

        with capture_logs() as logs:
            assert [(await table.next()).text for _ in range(2)] == ["see https://a.example", "next"]

    assert not any(entry["event"] == "discord_event_skipped" for entry in logs)


async def test_preview_after_an_edit_has_the_key_of_the_edit() -> None:
    async with bench() as (fake, table):
        said = await fake.say("see")
        await fake.edit(said, "see https://a.example")
        await fake.preview(said, whole=True)

        _, edit, preview = [await table.next() for _ in range(3)]

    assert edit.delivery_key == preview.delivery_key


async def test_edits_of_bots_and_of_ourselves_are_ignored() -> None:
    async with bench() as (fake, table):
        own = await fake.say("draft", author=BOT)
        await fake.edit(own, "draft and more")
        await fake.edit(await fake.say("hook", webhook_id="123456"), "hook again")
        await fake.edit(await fake.say("x", channel=GENERAL, mentions=[BOT], offline=True), f"<@{BOT}>")
        await fake.say("next")

        assert (await table.next()).text == "next"


async def test_edit_of_an_old_message_does_not_make_its_chat_known() -> None:
    async with bench() as (fake, table):
        await fake.edit(await fake.say("old", offline=True), "older")
        await table.next()

        assert table.channel.last_seen == {}


async def test_what_was_said_in_a_thread_before_is_told_oldest_first_with_its_beginning() -> None:
    async with bench() as (fake, table):
        await fake.say("the secret word is plum", channel=GENERAL)
        start = await fake.say("A or B?", channel=GENERAL)
        await table.next(), await table.next()
        await fake.say("", channel=THREAD, type=21, referenced_message=start, offline=True)
        await fake.say("A costs 5", channel=THREAD, author=BORIS, offline=True)
        await fake.say("pinned", channel=THREAD, type=6, offline=True)
        await fake.say("we spoke before", channel=THREAD, author=BOT, offline=True)
        await fake.say(f"<@{BOT}> which is cheaper?", channel=THREAD, mentions=[BOT])
        message = await table.next()
        await fake.say("said later", channel=THREAD)

        earlier = await table.channel.earlier(message, 500)
        newest = await table.channel.earlier(message, 1)

    assert [each.text for each in earlier] == ["A or B?", "A costs 5", "we spoke before"]
    assert [each.sender.user_id for each in earlier] == [ALICE, BORIS, BOT]
    assert [each.sender.display_name for each in earlier[:2]] == ["Alice", "Boris"]
    assert [each.is_ours for each in earlier] == [False, False, True]
    assert newest == earlier[-1:]


async def test_channels_and_direct_chats_tell_nothing_of_before() -> None:
    async with bench() as (fake, table):
        for channel in (GENERAL, DIRECT, GROUP_DIRECT):
            await fake.say("the secret word is plum", channel=channel)
            await fake.say(f"<@{BOT}> which word?", channel=channel, mentions=[BOT])
        messages = [await table.next() for _ in range(6)]

        for message in messages:
            assert await table.channel.earlier(message, 10) == ()
        assert not fake.made("GET", "/messages")


@pytest.mark.parametrize("status", [403, 429, 503])
@pytest.mark.parametrize("path", [f"/channels/{THREAD}", f"/channels/{THREAD}/messages"])
async def test_thread_that_cannot_be_read_is_empty(status: int, path: str) -> None:
    async with bench() as (fake, table):
        await fake.say(f"<@{BOT}> hi", channel=THREAD, mentions=[BOT])
        message = await table.next()
        if status == 429:
            fake.flood("GET", path, 9)
        else:
            fake.fail("GET", path, status)

        with capture_logs() as logs:
            assert await table.channel.earlier(message, 10) == ()

    assert any(entry["event"] == "discord_thread_not_read" for entry in logs)


async def test_nothing_is_told_while_the_channel_does_not_run() -> None:
    async with FakeDiscord().serve() as fake:
        message = make_message(channel="discord", chat_id=THREAD, message_id="1", chat_type=ChatType.GROUP)

        assert await Bench(fake).channel.earlier(message, 10) == ()


async def test_new_process_catches_up_where_the_old_one_ended() -> None:
    async with bench() as (fake, table):
        await fake.say("seen")
        await fake.say("seen too", channel=GROUP_DIRECT, mentions=[BOT])
        await table.next(), await table.next()
        assert isinstance(table.channel, CatchesUp)
        await fake.until(lambda: len(table.channel.last_seen) == 2)
        kept = dict(table.channel.last_seen)
        await fake.say("missed", offline=True)
        await fake.say(f"<@{BOT}> missed too", channel=GROUP_DIRECT, mentions=[BOT], offline=True)
        await fake.say("own", author=BOT, offline=True)
        await fake.say(f"<@{BOT}> nobody knew this chat", channel=GENERAL, mentions=[BOT], offline=True)

        fresh = Bench(fake)
        fresh.channel.resume_after(kept)
        async with fresh.running():
            missed = [await fresh.next() for _ in range(2)]
            await fake.say("live")
            live = await fresh.next()

    assert [message.text for message in missed] == ["missed", "missed too"]
    assert [message.metadata.chat_type for message in missed] == [ChatType.PRIVATE, ChatType.GROUP]
    assert live.text == "live"


async def test_much_that_is_too_old_does_not_hide_what_is_recent() -> None:
    async with FakeDiscord().serve() as fake:
        long_ago = datetime.now(UTC) - timedelta(hours=3)
        for second in range(110):
            sent_at = long_ago + timedelta(seconds=second)
            await fake.say("too old", id=snowflake_at(sent_at), timestamp=sent_at.isoformat(), offline=True)
        for number in range(30):
            await fake.say(f"missed {number}", offline=True)
        fresh = Bench(fake)
        fresh.channel.resume_after({DIRECT: f"{snowflake_at(long_ago - timedelta(hours=1))}::1"})
        async with fresh.running():
            missed = [(await fresh.next()).text for _ in range(30)]

    assert missed == [f"missed {number}" for number in range(30)]


@pytest.mark.parametrize("status", [429, 503])
async def test_passing_fault_hides_nothing_that_was_missed(status: int) -> None:
    async with bench() as (fake, table):
        await fake.say("seen")
        await fake.say("seen", channel=GROUP_DIRECT, mentions=[BOT])
        await table.next(), await table.next()
        await fake.until(lambda: len(table.channel.last_seen) == 2)
        await fake.say("missed", offline=True)
        await fake.say("missed too", channel=GROUP_DIRECT, mentions=[BOT], offline=True)
        path = f"/channels/{DIRECT}/messages"
        fake.flood("GET", path, 1) if status == 429 else fake.fail("GET", path, status)

        fresh = Bench(fake)
        fresh.channel.resume_after(table.channel.last_seen)
        async with fresh.running():
            missed = {(await fresh.next()).text for _ in range(2)}

    assert missed == {"missed", "missed too"}


async def test_chat_that_may_not_be_read_is_asked_for_once() -> None:
    async with bench() as (fake, table):
        await fake.say("seen")
        await table.next()
        await fake.until(lambda: len(table.channel.last_seen) == 1)
        fake.fail("GET", f"/channels/{DIRECT}/messages", 403)

        fresh = Bench(fake)
        fresh.channel.resume_after(table.channel.last_seen)
        async with fresh.running():
            await fake.until(lambda: len(fake.sessions) == 2)
            await fake.say("live")
            await fresh.next()

    assert len(fake.made("GET", f"/channels/{DIRECT}/messages")) == 1


async def test_group_that_was_announced_once_is_no_private_chat_for_the_next_process() -> None:
    async with bench() as (fake, table):
        await fake.emit("CHANNEL_CREATE", {"id": GROUP_DIRECT, "type": 3, "recipients": []})
        await fake.say("hi", channel=GROUP_DIRECT, channel_type=None, mentions=[BOT])
        await table.next()
        await fake.until(lambda: bool(table.channel.last_seen))
        await fake.say("missed", channel=GROUP_DIRECT, channel_type=None, mentions=[BOT], offline=True)

        fresh = Bench(fake)
        fresh.channel.resume_after(table.channel.last_seen)
        async with fresh.running():
            assert (await fresh.next()).metadata.chat_type is ChatType.GROUP


@pytest.mark.parametrize("kept", [{DIRECT: ""}, {DIRECT: "x:y:z"}, {DIRECT: "1:2"}, {"../x": "1::"}, {DIRECT: "١::"}])
async def test_last_seen_that_cannot_be_read_is_left_out(kept: Mapping[str, str]) -> None:
    async with FakeDiscord().serve() as fake:
        channel = Bench(fake).channel
        channel.resume_after(kept)

        assert channel.last_seen == {}


def attachment(address: str | None, size: int | None = None) -> Attachment:
    return Attachment(id="1", kind=AttachmentKind.IMAGE, size_bytes=size, source=address)


def origin(fake: FakeDiscord) -> str:
    return str(URL(fake.api_url).origin())


@pytest.mark.parametrize("tells_length", [True, False])
async def test_file_is_read_without_the_token_up_to_the_limit(tells_length: bool) -> None:
    async with FakeDiscord().serve() as fake:
        fake.files["a.png"] = CONTENT
        fake.tells_length = tells_length
        channel, upload = Bench(fake).channel, attachment(f"{origin(fake)}/files/a.png?ex=1&hm=2")

        assert await channel.fetch(upload, len(CONTENT)) == CONTENT
        with pytest.raises(Rejected, match="at most"):
            await channel.fetch(upload, len(CONTENT) - 1)

    assert not any("Authorization" in headers for headers in fake.file_headers)


async def test_file_that_is_gone_or_too_large_is_refused() -> None:
    async with FakeDiscord().serve() as fake:
        channel, address = Bench(fake).channel, f"{origin(fake)}/files/a.png"

        with pytest.raises(Rejected, match="404"):
            await channel.fetch(attachment(address), LIMIT)
        with pytest.raises(Rejected, match="at most"):
            await channel.fetch(attachment(address, MOST_BYTES + 1), 2 * MOST_BYTES)
        assert len(fake.file_headers) == 1


async def test_file_of_a_server_that_is_away_is_for_later() -> None:
    async with FakeDiscord().serve() as fake:
        channel, address = Bench(fake).channel, f"{origin(fake)}/files/a.png"

    with pytest.raises(Unavailable):
        await channel.fetch(attachment(address), LIMIT)


async def test_other_hosts_are_asked_for_nothing() -> None:
    async with FakeDiscord().serve() as fake, FakeDiscord().serve() as other:
        channel = Bench(fake).channel
        for address in (f"{origin(other)}/files/a.png", "not an address", "http://[", None):
            with pytest.raises(Rejected):
                await channel.fetch(attachment(address), LIMIT)

    assert not other.file_headers


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://cdn.discordapp.com/attachments/1/2/a.png?ex=1&is=2&hm=3&", True),
        ("https://media.discordapp.net/attachments/1/2/a.png", True),
        ("http://cdn.discordapp.com/a", False),
        ("https://cdn.discordapp.com:8443/a", False),
        ("https://cdn.discordapp.com.evil.example/a", False),
        ("https://cdn.discordapp.com@evil.example/a", False),
        ("https://127.0.0.1/a", False),
        ("/a", False),
    ],
)
def test_only_discords_own_file_hosts_count(address: str, expected: Any) -> None:
    assert is_discord(URL(address), None) is expected
