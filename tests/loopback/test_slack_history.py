"""Edits, earlier messages of a thread, and files on Slack, with the real SDK on real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from yarl import URL

from channels.download import MOST_BYTES
from channels.errors import Rejected, Unavailable
from channels.message import Attachment, AttachmentKind, IncomingMessage
from channels.slack import SlackChannel
from channels.slack_files import is_slack
from tests.support.builders import make_message
from tests.support.fake_slack import BOT_ID, BOT_TOKEN, BOT_USER, FakeSlack
from tests.support.slack_bench import Inbox, running, settings

CONTENT = bytes(range(256)) * 100
LIMIT = 1_000_000


async def test_an_edit_by_its_writer_is_handed_on_and_a_link_preview_is_not() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        said = slack.say(f"<@{BOT_USER}> see https://a.example")
        preview = slack.change(said, said["text"], attachments=[{"title": "A"}])
        edit = slack.change(said, f"<@{BOT_USER}> see https://b.example", by="U1")
        for event in (said, preview, edit, edit):
            await (await slack.deliver(event)).acked.wait()

    first, second, again = inbox.taken
    assert (first.text, second.text) == ("see https://a.example", "see https://b.example")
    assert [message.metadata.is_edit for message in inbox.taken] == [False, True, True]
    assert first.delivery_key == second.original_key
    assert first.delivery_key != second.delivery_key == again.delivery_key


async def asked(slack: FakeSlack, inbox: Inbox, **said: Any) -> IncomingMessage:
    await (await slack.deliver(slack.say(f"<@{BOT_USER}> which is cheaper?", **said))).acked.wait()
    return inbox.taken[-1]


async def test_what_was_said_in_a_thread_before_is_told_oldest_first() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        root = slack.say("A or B?")
        thread = {"thread_ts": root["ts"]}
        slack.say("elsewhere")
        slack.say("A costs 5 &amp; B 6", user="U2", **thread)
        slack.say("joined", subtype="channel_join", **thread)
        slack.say("a reminder", user="", bot_id="B7", subtype="bot_message", username="Reminder", **thread)
        slack.say("we spoke before", user=BOT_USER, bot_id=BOT_ID, **thread)
        message = await asked(slack, inbox, **thread)
        slack.say("said later", **thread)

        earlier = await channel.earlier(message, 10)
        newest = await channel.earlier(message, 2)

    assert [each.text for each in earlier] == ["A or B?", "A costs 5 & B 6", "a reminder", "we spoke before"]
    assert [each.sender.user_id for each in earlier] == ["U1", "U2", "B7", BOT_USER]
    assert [each.is_ours for each in earlier] == [False, False, False, True]
    assert earlier[2].sender.display_name == "Reminder"
    assert [each.sent_at for each in earlier] == sorted(each.sent_at for each in earlier)
    assert newest == earlier[-2:]


async def test_known_names_are_told() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        root = slack.say("A or B?")
        message = await asked(slack, inbox, thread_ts=root["ts"])
        await slack.until(lambda: slack.calls_of("users.info"))
        await (await slack.deliver(slack.say("hi", "D1"))).acked.wait()
        await (await slack.deliver(slack.say("hi", "D1"))).acked.wait()

        (first,) = await channel.earlier(message, 10)

    assert (first.sender.display_name, first.sender.username) == ("Alice", "alice")


async def test_a_long_thread_is_read_to_its_end() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        root = slack.say("0")
        for number in range(1, 450):
            slack.say(str(number), thread_ts=root["ts"])
        message = await asked(slack, inbox, thread_ts=root["ts"])

        earlier = await channel.earlier(message, 3)
        assert len(slack.calls_of("conversations.replies")) == 3

    assert [each.text for each in earlier] == ["447", "448", "449"]


async def test_nothing_was_said_before_outside_threads_and_slack_is_not_asked() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        opening = await asked(slack, inbox)
        direct = await asked(slack, inbox, channel="D1")
        press = make_message(channel="slack", chat_id="C1", thread_id="1.1", message_id="action:2.2:U1")

        for message in (opening, direct, press):
            assert await channel.earlier(message, 10) == ()
        assert not slack.calls_of("conversations.replies")


@pytest.mark.parametrize(
    "fault", [{"status": 503}, {"error": "missing_scope"}, {"status": 429, "error": "ratelimited", "retry_after": "9"}]
)
async def test_a_thread_that_cannot_be_read_is_empty(fault: dict[str, Any]) -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        message = await asked(slack, inbox, thread_ts=slack.say("A or B?")["ts"])
        slack.fail("conversations.replies", **fault)

        with capture_logs() as logs:
            assert await channel.earlier(message, 10) == ()

    assert any(entry["event"] == "slack_thread_not_read" for entry in logs)


async def test_a_thread_is_waited_for_no_longer_than_some_seconds() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        message = await asked(slack, inbox, thread_ts=slack.say("A or B?")["ts"])
        slack.hold["conversations.replies"] = asyncio.Event()

        async with asyncio.timeout(10):
            assert await channel.earlier(message, 10) == ()


async def test_nothing_is_told_while_the_channel_does_not_run() -> None:
    async with FakeSlack() as slack:
        message = make_message(channel="slack", chat_id="C1", thread_id="1.1", message_id="2.2")

        assert await SlackChannel(settings(slack)).earlier(message, 10) == ()


def attachment(address: str | None, size: int | None = None) -> Attachment:
    return Attachment(id="F1", kind=AttachmentKind.IMAGE, mime_type="image/png", size_bytes=size, source=address)


@pytest.mark.parametrize("tells_length", [True, False])
async def test_a_file_is_read_with_the_token_up_to_the_limit(tells_length: bool) -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.files["a.png"] = CONTENT
        slack.tells_length = tells_length
        upload = attachment(f"{slack.files_url}/a.png")

        assert await channel.fetch(upload, len(CONTENT)) == CONTENT
        with pytest.raises(Rejected, match="at most"):
            await channel.fetch(upload, len(CONTENT) - 1)

    assert slack.file_requests == [("a.png", f"Bearer {BOT_TOKEN}")] * 2


async def test_a_file_that_says_to_be_too_large_is_not_even_asked_for() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        with pytest.raises(Rejected):
            await channel.fetch(attachment(f"{slack.files_url}/a.png", MOST_BYTES + 1), 2 * MOST_BYTES)

    assert not slack.file_requests


async def test_a_file_that_needs_a_sign_in_names_the_missing_scope() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.files_need_sign_in = True

        with pytest.raises(Rejected, match="files:read"):
            await channel.fetch(attachment(f"{slack.files_url}/a.png"), LIMIT)


async def test_a_file_that_is_gone_is_refused_and_one_on_a_stopped_channel_is_for_later() -> None:
    async with FakeSlack() as slack:
        upload = attachment(f"{slack.files_url}/a.png")
        async with running(slack) as channel:
            with pytest.raises(Rejected):
                await channel.fetch(upload, LIMIT)
        with pytest.raises(Unavailable):
            await channel.fetch(upload, LIMIT)


async def test_the_token_is_shown_to_no_other_host() -> None:
    async with FakeSlack() as slack, FakeSlack() as other, running(slack) as channel:
        for address in (f"{other.files_url}/a.png", "not an address", "http://[", None):
            with pytest.raises(Rejected):
                await channel.fetch(attachment(address), LIMIT)

    assert not other.file_requests


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a.png", True),
        ("https://slack.com/a", True),
        ("https://api.example:8443/files/a", True),
        ("http://files.slack.com/a", False),
        ("https://files.slack.com:8080/a", False),
        ("https://api.example/files/a", False),
        ("https://evilslack.com/a", False),
        ("https://files.slack.com.evil.example/a", False),
        ("https://files.slack.com@evil.example/a", False),
        ("https://evil.example/?files.slack.com", False),
        ("//files.slack.com/a", False),
        ("", False),
    ],
)
def test_only_slacks_own_hosts_count(address: str, expected: bool) -> None:
    assert is_slack(URL(address), URL("https://api.example:8443/api/")) is expected
