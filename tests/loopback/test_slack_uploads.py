"""Files on their way to Slack, through the real SDK over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from agent.store.blobs import Blob
from channels.base import Uncertain
from channels.errors import RateLimited, Rejected, Unavailable
from channels.message import Address, OutgoingMessage, ReplyKind
from channels.slack_uploads import MAX_FILE_BYTES
from tests.support.fake_slack import FakeSlack
from tests.support.parts import PNG, Parts, claims, note, png
from tests.support.slack_bench import CHANNEL, DIRECT, running


def message(*files: Blob, text: str = "", address: Address = DIRECT, **more: Any) -> OutgoingMessage:
    given = tuple(each.file for each in files)
    return OutgoingMessage(address=address, kind=ReplyKind.MESSAGE, text=text, files=given, **more)


def names(slack: FakeSlack, chat: str = "D1") -> list[str]:
    return [name for name, _, _ in slack.files_in(chat)]


async def test_file_arrives_whole_in_its_thread_after_the_text() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        start = slack.say("hello")["ts"]
        place = CHANNEL.model_copy(update={"thread_id": start})
        file = png("schön.png")
        await channel.send(message(file, text="see", address=place), Parts(files=[file]))

        assert slack.files_in("C1") == [("schön.png", PNG, start)]
        assert [(post.text, post.thread_ts) for post in slack.shown("C1")][1:] == [("see", start), ("", start)]
        assert slack.violations == []


async def test_large_file_arrives_whole() -> None:
    file = Blob.of("large.bin", bytes(range(256)) * 20_000)
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(message(file), Parts(files=[file]))

        assert slack.files_in("D1") == [("large.bin", file.data, None)]


async def test_several_files_without_text_arrive_in_order() -> None:
    files = [note("one.txt"), note("two.txt", "2"), png()]
    async with FakeSlack() as slack, running(slack) as channel:
        parts = Parts(files=files)
        last = await channel.send(message(*files), parts)

        assert names(slack) == ["one.txt", "two.txt", "chart.png"]
        assert last == "F3"


async def test_file_that_is_too_large_is_named_in_its_place() -> None:
    large, small = note("large.bin"), note("small.txt")
    given = OutgoingMessage(address=DIRECT, text="two", files=(claims(large, MAX_FILE_BYTES + 1), small.file))
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(given, Parts(files=[small]))

        texts = [post.text for post in slack.shown("D1")]
        assert texts[0] == "two"
        assert "large.bin" in texts[1]
        assert "1 GB" in texts[1]
        assert names(slack) == ["small.txt"]


async def test_app_without_the_scope_for_files_still_writes_and_says_what_it_needs() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("files.getUploadURLExternal", error="missing_scope", scope="files:write")
        file = note()
        await channel.send(message(file, text="hi"), Parts(files=[file]))

        texts = [post.text for post in slack.shown("D1")]
        assert texts[0] == "hi"
        assert "files:write" in texts[1]


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
async def test_rate_limit_between_files_repeats_nothing(method: str) -> None:
    files = [note("one.txt"), note("two.txt", "2")]
    given, parts = message(*files, text="hi"), Parts(files=files)
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(message(files[0]), Parts(files=files))
        slack.fail(method, status=429, error="ratelimited", retry_after="3")
        with pytest.raises(RateLimited):
            await channel.send(given, parts)
        await channel.send(given, parts)

        assert names(slack) == ["one.txt", "one.txt", "two.txt"]
        assert [post.text for post in slack.shown("D1")].count("hi") == 1


async def test_upload_that_breaks_shows_nothing_and_is_made_again() -> None:
    file = note()
    given, parts = message(file), Parts(files=[file])
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("upload", status=503)
        with pytest.raises(Unavailable) as raised:
            await channel.send(given, parts)
        await channel.send(given, parts)

        assert not raised.value.maybe_sent
        assert names(slack) == ["notes.txt"]


async def test_file_whose_answer_was_lost_is_found_and_not_sent_twice() -> None:
    files = [note("one.txt"), note("two.txt", "2")]
    given, parts = message(*files, text="hi"), Parts(files=files)
    async with FakeSlack() as slack:
        async with running(slack) as channel:
            slack.fail("files.completeUploadExternal", lose_answer=True)
            with pytest.raises(Unavailable) as raised:
                await channel.send(given, parts)
            assert raised.value.maybe_sent
        async with running(slack) as channel:  # the next process
            assert await channel.settle(given, parts) is Uncertain.RESEND
            await channel.send(given, parts)

        assert names(slack) == ["one.txt", "two.txt"]
        assert [post.text for post in slack.shown("D1")].count("hi") == 1


async def test_last_file_that_arrived_settles_the_message() -> None:
    file = note()
    given, parts = message(file), Parts(files=[file])
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("files.completeUploadExternal", lose_answer=True)
        with pytest.raises(Unavailable):
            await channel.send(given, parts)

        assert await channel.settle(given, parts) is Uncertain.SENT


async def test_upload_that_was_not_shown_before_a_crash_is_shown_after_it() -> None:
    file = note()
    given, parts = message(file), Parts(files=[file])
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("files.completeUploadExternal", status=503)
        with pytest.raises(Unavailable):
            await channel.send(given, parts)
        assert await channel.settle(given, parts) is Uncertain.RESEND
        await channel.send(given, parts)

        assert names(slack) == ["notes.txt"]
        assert len(slack.uploads) == 1


async def test_file_for_a_chat_that_is_gone_is_rejected_as_a_whole() -> None:
    file = note()
    nowhere = Address(channel="slack", chat_id="C404")
    async with FakeSlack() as slack, running(slack) as channel:
        with pytest.raises(Rejected):
            await channel.send(message(file, address=nowhere), Parts(files=[file]))
