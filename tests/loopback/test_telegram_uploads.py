"""Files on their way to Telegram, through the real library over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from agent.store.blobs import Blob
from channels.base import Uncertain
from channels.errors import RateLimited, Rejected, Unavailable
from channels.message import Address, OutgoingMessage, ReplyKind
from channels.settings import UncertainSend
from channels.telegram import TelegramChannel
from channels.telegram_files import MAX_FILE_BYTES
from tests.support.fake_telegram import FakeTelegram, LeapingClock, Refusal, Uploaded, flood
from tests.support.parts import PNG, Parts, claims, note, png
from tests.support.telegram_bench import Inbox, settings

PRIVATE = Address(channel="telegram", chat_id="7")
TOPIC = Address(channel="telegram", chat_id="-100", thread_id="9")


def message(*files: Blob, text: str = "", address: Address = PRIVATE, **more: Any) -> OutgoingMessage:
    given = tuple(each.file for each in files)
    return OutgoingMessage(address=address, kind=ReplyKind.MESSAGE, text=text, files=given, **more)


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        server.topics.add((-100, 9))
        yield server


@asynccontextmanager
async def connected(
    fake: FakeTelegram, clock: LeapingClock | None = None, **more: Any
) -> AsyncIterator[TelegramChannel]:
    channel = TelegramChannel(settings(fake, **more), clock=clock or LeapingClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(Inbox().accept))
        await fake.wait(lambda: bool(fake.offsets))
        yield channel
        task.cancel()


def order(fake: FakeTelegram) -> list[str]:
    """What was sent, in order: texts, and names of files."""
    sent = []
    for call in fake.calls:
        if call.method.startswith("send") and not call.refused:
            file = call.params.get("photo") or call.params.get("document")
            sent.append(file.filename if file else call.params.get("text", ""))
    return sent


async def test_file_arrives_whole_in_its_topic_after_the_text(fake: FakeTelegram) -> None:
    file = note("naïve plan.txt", "ü\n")
    async with connected(fake) as channel:
        last = await channel.send(message(file, text="see", address=TOPIC), Parts(files=[file]))

    [sent] = fake.made("sendDocument")
    assert sent["document"] == Uploaded("naïve plan.txt", "text/plain", "ü\n".encode())
    assert sent["message_thread_id"] == "9"
    assert order(fake) == ["see", "naïve plan.txt"]
    assert (-100, int(last)) in fake.messages


async def test_large_file_arrives_whole(fake: FakeTelegram) -> None:
    file = Blob.of("large.bin", bytes(range(256)) * 20_000)
    async with connected(fake) as channel:
        await channel.send(message(file), Parts(files=[file]))

    [sent] = fake.made("sendDocument")
    assert sent["document"].data == file.data


async def test_file_without_text_is_the_reply_itself(fake: FakeTelegram) -> None:
    file = note()
    async with connected(fake) as channel:
        await channel.send(message(file, reply_to="5"), Parts(files=[file]))

    [sent] = fake.made("sendDocument")
    assert sent["reply_parameters"]["message_id"] == 5
    assert fake.made("sendMessage") == []


async def test_small_image_is_a_photo_and_a_gif_a_document(fake: FakeTelegram) -> None:
    files = [png(), Blob.of("moving.gif", b"GIF89a...")]
    async with connected(fake) as channel:
        await channel.send(message(*files), Parts(files=files))

    assert [sent["photo"].data for sent in fake.made("sendPhoto")] == [PNG]
    assert [sent["document"].filename for sent in fake.made("sendDocument")] == ["moving.gif"]


async def test_image_that_is_refused_as_a_photo_goes_as_a_document(fake: FakeTelegram) -> None:
    fake.refuse("sendPhoto", Refusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))
    file = png("long.png")
    async with connected(fake) as channel:
        await channel.send(message(file), Parts(files=[file]))

    assert order(fake) == ["long.png"]
    assert fake.made("sendDocument")


async def test_file_known_to_be_too_large_is_named_in_its_place_and_not_read(fake: FakeTelegram) -> None:
    large, small = note("large.bin"), note("small.txt")
    given = OutgoingMessage(
        address=PRIVATE, text="two files", files=(claims(large, MAX_FILE_BYTES + 1), small.file), kind=ReplyKind.MESSAGE
    )
    async with connected(fake) as channel:
        await channel.send(given, Parts(files=[small]))

    text, notice, name = order(fake)
    assert (text, name) == ("two files", "small.txt")
    assert "large.bin" in notice
    assert "50 MB" in notice


@pytest.mark.parametrize(
    "refusal",
    [Refusal(413, "Request Entity Too Large"), Refusal(400, "Bad Request: not enough rights to send documents")],
)
async def test_file_that_telegram_refuses_costs_that_file_alone(fake: FakeTelegram, refusal: Refusal) -> None:
    fake.refuse("sendDocument", refusal)
    files = [note("one.txt"), note("two.txt", "two")]
    async with connected(fake) as channel:
        await channel.send(message(*files, text="hi"), Parts(files=files))

    sent = order(fake)
    assert sent[0] == "hi"
    assert "one.txt" in sent[1]
    assert "was not sent" in sent[1]
    assert sent[2] == "two.txt"


async def test_file_for_a_chat_that_is_gone_is_rejected_as_a_whole(fake: FakeTelegram) -> None:
    gone = Refusal(400, "Bad Request: chat not found")
    fake.refuse("sendDocument", gone)
    fake.refuse("sendMessage", gone)
    file = note()
    async with connected(fake) as channel:
        with pytest.raises(Rejected):
            await channel.send(message(file), Parts(files=[file]))


async def test_file_whose_content_is_gone_is_named(fake: FakeTelegram) -> None:
    async with connected(fake) as channel:
        await channel.send(message(note("lost.txt")), Parts())

    [notice] = order(fake)
    assert "lost.txt" in notice


async def test_rate_limit_between_files_repeats_nothing(fake: FakeTelegram) -> None:
    clock, files = LeapingClock(), [note("one.txt"), note("two.txt", "2"), note("three.txt", "3")]
    fake.refuse("sendDocument", None, flood(7))
    given, parts = message(*files, text="hi"), Parts(files=files)
    async with connected(fake, clock) as channel:
        with pytest.raises(RateLimited) as raised:
            await channel.send(given, parts)
        assert raised.value.retry_after == timedelta(seconds=7)
        clock.advance(timedelta(seconds=8))
        await channel.send(given, parts)

    assert order(fake) == ["hi", "one.txt", "two.txt", "three.txt"]


async def test_next_process_goes_on_after_the_files_that_arrived(fake: FakeTelegram) -> None:
    files = [note("one.txt"), note("two.txt", "2")]
    given, parts = message(*files), Parts(files=files)
    fake.refuse("sendDocument", None, Refusal(0, "cut", processed=False))
    async with connected(fake) as channel:
        with pytest.raises(Unavailable) as raised:
            await channel.send(given, parts)
        assert raised.value.maybe_sent
    async with connected(fake, uncertain_send=UncertainSend.RESEND) as channel:
        assert await channel.settle(given, parts) is Uncertain.RESEND
        await channel.send(given, parts)

    assert order(fake) == ["one.txt", "two.txt"]
