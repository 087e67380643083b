"""Files on Telegram, through the real library over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from channels.download import MOST_BYTES
from channels.errors import Rejected, Unavailable
from channels.message import Attachment, AttachmentKind
from channels.telegram import TelegramChannel
from tests.support.builders import make_message
from tests.support.fake_telegram import TOKEN, FakeTelegram, Refusal, flood
from tests.support.telegram_bench import Inbox, running, settings

CONTENT = bytes(range(256)) * 100
LIMIT = 1_000_000


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[FakeTelegram, TelegramChannel]]:
    async with FakeTelegram() as fake:
        fake.files["f1"] = CONTENT
        channel = TelegramChannel(settings(fake))
        async with running(channel, Inbox()):
            await fake.wait(lambda: bool(fake.offsets))
            yield fake, channel


def attachment(source: str | None = "f1", size: int | None = None) -> Attachment:
    return Attachment(id="u", kind=AttachmentKind.IMAGE, size_bytes=size, source=source)


@pytest.mark.parametrize("tells_length", [True, False])
async def test_file_is_read_whole_up_to_the_limit(tells_length: bool) -> None:
    async with connected() as (fake, channel):
        fake.tells_length = tells_length

        assert await channel.fetch(attachment(), len(CONTENT)) == CONTENT


@pytest.mark.parametrize("tells_length", [True, False])
async def test_file_that_is_larger_than_it_may_be_is_refused(tells_length: bool) -> None:
    async with connected() as (fake, channel):
        fake.tells_length = tells_length

        with pytest.raises(Rejected, match="at most"):
            await channel.fetch(attachment(), len(CONTENT) - 1)


@pytest.mark.parametrize("size", [LIMIT + 1, MOST_BYTES + 1])
async def test_file_that_says_to_be_too_large_is_not_even_asked_for(size: int) -> None:
    async with connected() as (fake, channel):
        with pytest.raises(Rejected):
            await channel.fetch(attachment(size=size), LIMIT if size < MOST_BYTES else 2 * MOST_BYTES)

        assert not fake.tried("getFile")


async def test_file_that_telegram_does_not_know_is_refused() -> None:
    async with connected() as (fake, channel):
        for source in ("other", None):
            with pytest.raises(Rejected):
                await channel.fetch(attachment(source), LIMIT)
        fake.refuse("file", Refusal(404, "gone"))
        with pytest.raises(Rejected):
            await channel.fetch(attachment(), LIMIT)


@pytest.mark.parametrize("path", ["/etc/passwd", "/var/lib/telegram-bot-api/documents/{}", ""])
async def test_file_of_the_machine_is_never_opened(path: str) -> None:
    async with connected() as (fake, channel):
        fake.file_path = path

        with pytest.raises(Rejected):
            await channel.fetch(attachment(), LIMIT)


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("getFile", flood(9)),
        ("getFile", Refusal(502, "Bad Gateway")),
        ("file", Refusal(502, "x")),
        ("file", Refusal(0, "cut")),  # the library below asks once more by itself
    ],
)
async def test_passing_fault_says_that_the_file_may_be_had_later(method: str, fault: Refusal) -> None:
    async with connected() as (fake, channel):
        fake.refuse(method, *[fault] * (1 if fault.status else 2))

        with structlog.testing.capture_logs() as logs, pytest.raises(Unavailable) as caught:
            await channel.fetch(attachment(), LIMIT)

        assert await channel.fetch(attachment(), LIMIT) == CONTENT
    told = [str(caught.getrepr(style="long", chain=True)), repr(logs)]
    assert not any(TOKEN.split(":")[1] in text for text in told)


async def test_file_cannot_be_had_while_the_channel_does_not_run() -> None:
    async with FakeTelegram() as fake:
        with pytest.raises(Unavailable):
            async with asyncio.timeout(5):
                await TelegramChannel(settings(fake)).fetch(attachment(), LIMIT)


async def test_bots_are_shown_no_history() -> None:
    async with connected() as (_, channel):
        assert await channel.earlier(make_message(), 10) == ()
