"""Files on their way to Discord, through the real library over real sockets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from agent.store.blobs import Blob
from channels.base import Uncertain
from channels.discord_render import MAX_FILE_BYTES
from channels.errors import RateLimited, Rejected, Unavailable
from channels.message import Address, OutgoingMessage, ReplyKind
from tests.support.discord_bench import bench
from tests.support.fake_discord import DIRECT, GENERAL, THREAD, FakeDiscord, Uploaded
from tests.support.parts import PNG, Parts, claims, note, png


def message(*files: Blob, text: str = "", chat_id: str = DIRECT, **more: Any) -> OutgoingMessage:
    address = Address(channel="discord", chat_id=chat_id)
    given = tuple(each.file for each in files)
    return OutgoingMessage(address=address, kind=ReplyKind.MESSAGE, text=text, files=given, **more)


def order(fake: FakeDiscord, channel: str = DIRECT) -> list[str]:
    """What the chat shows of ours: texts, and names of files."""
    return [each["content"] or each["attachments"][0]["filename"] for each in fake.sent(channel)]


async def test_file_arrives_whole_in_its_thread_after_the_text() -> None:
    async with bench() as (fake, table):
        file = png("schön.png")
        last = await table.channel.send(message(file, text="see", chat_id=THREAD), Parts(files=[file]))

        assert order(fake, THREAD) == ["see", "schön.png"]
        assert fake.uploads[last] == [Uploaded("schön.png", "image/png", PNG)]


async def test_large_file_arrives_whole() -> None:
    file = Blob.of("large.bin", bytes(range(256)) * 20_000)
    async with bench() as (fake, table):
        last = await table.channel.send(message(file), Parts(files=[file]))

        assert [each.data for each in fake.uploads[last]] == [file.data]


async def test_file_pings_nobody_and_only_a_first_one_is_a_reply() -> None:
    async with bench() as (fake, table):
        question = await fake.say("a file, please", channel=GENERAL)
        files = [note("@everyone.txt"), note("two.txt", "2")]
        await table.channel.send(message(*files, chat_id=GENERAL, reply_to=question["id"]), Parts(files=files))

        bodies = [call.body for call in fake.made("POST", f"/channels/{GENERAL}/messages")]
        assert [body["allowed_mentions"]["parse"] for body in bodies] == [[], []]
        assert ["message_reference" in body for body in bodies] == [True, False]
        assert fake.pings == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_file_that_is_too_large_is_named_in_its_place(is_known: bool) -> None:
    large, small = note("large.txt", "x" * 1000), note("small.txt")
    first = claims(large, MAX_FILE_BYTES + 1) if is_known else large.file
    given = message(text="two").model_copy(update={"files": (first, small.file)})
    async with bench() as (fake, table):
        fake.most_bytes = 500
        await table.channel.send(given, Parts(files=[large, small]))

        text, notice, name = order(fake)
        assert (text, name) == ("two", "small.txt")
        assert "large.txt" in notice
        assert "too large" in notice or "up to" in notice


async def test_rate_limit_between_files_repeats_nothing() -> None:
    files = [note("one.txt"), note("two.txt", "2")]
    given, parts = message(*files, text="hi"), Parts(files=files)
    async with bench() as (fake, table):
        await table.channel.send(given.model_copy(update={"files": given.files[:1], "id": UUID(int=7)}), parts)
        parts.noted[:] = [fake.sent()[0]["id"], fake.sent()[1]["id"]]
        fake.flood("POST", "/messages", 2.0)
        with pytest.raises(RateLimited):
            await table.channel.send(given, parts)
        await table.channel.send(given, parts)

        assert order(fake) == ["hi", "one.txt", "two.txt"]


async def test_file_whose_answer_was_lost_is_sent_again_under_the_same_nonce() -> None:
    files = [note("one.txt"), note("two.txt", "2")]
    given, parts = message(*files), Parts(files=files)
    async with bench() as (fake, table):
        fake.fail("POST", "/messages", 502, after_work=True)
        with pytest.raises(Unavailable) as raised:
            await table.channel.send(given, parts)
        assert raised.value.maybe_sent
        assert await table.channel.settle(given, parts) is Uncertain.RESEND
        await table.channel.send(given, parts)

        assert order(fake) == ["one.txt", "two.txt"]


async def test_file_for_a_chat_that_is_gone_is_rejected_as_a_whole() -> None:
    file = note()
    async with bench() as (_, table):
        with pytest.raises(Rejected):
            await table.channel.send(message(file, chat_id="899999999999999999"), Parts(files=[file]))
