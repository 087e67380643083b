"""What the Discord adapter posts, with the real SDK on real sockets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from channels.base import Uncertain
from channels.discord import DiscordChannel
from channels.errors import RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address, Choice, Draft, OutgoingMessage, ReplyKind
from tests.support.discord_bench import APPROVAL, MESSAGE, Bench, bench, settings_for
from tests.support.fake_discord import ALICE, BOT, DIRECT, GENERAL, FakeDiscord
from tests.support.parts import Parts

CHOICES = (
    Choice(label="Yes", data=f"apr:{APPROVAL}:y"),
    Choice(label="Always", data=f"apr:{APPROVAL}:a"),
    Choice(label="No", data=f"apr:{APPROVAL}:n"),
)


def draft(text: str = "", **fields: Any) -> Draft:
    return Draft(**({"id": MESSAGE, "address": Address(channel="discord", chat_id=DIRECT), "text": text} | fields))


async def test_answer_is_a_reply_and_notifies_nobody() -> None:
    async with bench() as (fake, table):
        question = await fake.say("?", channel=GENERAL)

        platform_id = await table.send(f"@everyone @here <@{ALICE}> <@&1>", chat_id=GENERAL, reply_to=question["id"])

    (message,) = fake.sent(GENERAL)
    assert message["id"] == platform_id
    assert message["message_reference"]["message_id"] == question["id"]
    assert fake.pings == []


@pytest.mark.parametrize("length", [1, 1900, 2000, 2001, 5200])
async def test_text_of_any_length_arrives_whole_and_in_order(length: int) -> None:
    text = "".join(f"{number:05d} " for number in range(length))[:length].strip()
    async with bench() as (fake, table):
        question = await fake.say("?")
        last = await table.send(text, reply_to=question["id"])

    parts = fake.sent()
    assert all(len(part["content"]) <= 2000 for part in parts)
    assert " ".join(part["content"].strip() for part in parts).split() == text.split()
    assert parts[-1]["id"] == last
    assert [bool(part.get("message_reference")) for part in parts] == [True] + [False] * (len(parts) - 1)


async def test_code_block_across_parts_is_closed_and_opened_again() -> None:
    lines = "\n".join(f"print({number:04d})" for number in range(200))
    async with bench() as (fake, table):
        await table.send(f"{'Before. ' * 180}\n\n```python\n{lines}\n```\n\n{'After. ' * 180}")

    contents = [message["content"] for message in fake.sent()]
    assert len(contents) > 2
    assert all(content.count("```") % 2 == 0 for content in contents)
    assert all(f"print({number:04d})" in "".join(contents) for number in range(200))


async def test_retry_starts_after_the_parts_that_arrived() -> None:
    text = "word " * 1000
    async with bench() as (fake, table):
        parts = Parts()
        message = OutgoingMessage(id=MESSAGE, address=Address(channel="discord", chat_id=DIRECT), text=text)
        fake.fail("POST", "/messages", 503, times=1)
        with pytest.raises(Unavailable) as fault:
            await table.channel.send(message, parts)
        await table.channel.send(message, parts)
        whole = [sent["content"] for sent in fake.sent()]

        calls = len(fake.made("POST", "/messages"))
        await table.channel.send(message, Parts(*parts.sent[:1]))

    assert fault.value.maybe_sent
    assert len(whole) == 3
    assert len(fake.made("POST", "/messages")) == calls + 2
    assert [sent["content"] for sent in fake.sent()] == whole


async def test_message_whose_answer_was_lost_is_posted_once() -> None:
    async with bench() as (fake, table):
        fake.fail("POST", "/messages", 502, after_work=True)
        with pytest.raises(Unavailable):
            await table.send("once", id=MESSAGE)

        platform_id = await table.send("once", id=MESSAGE)

    assert [message["id"] for message in fake.sent()] == [platform_id]


async def test_sending_cut_off_by_a_crash_is_repeated() -> None:
    async with FakeDiscord().serve() as fake:
        message = OutgoingMessage(address=Address(channel="discord", chat_id=DIRECT), text="x")

        assert await DiscordChannel(settings_for(fake)).settle(message, Parts()) is Uncertain.RESEND


async def test_choices_are_buttons_on_the_last_part() -> None:
    async with bench() as (fake, table):
        await table.send("word " * 500, choices=CHOICES)

    *first, last = fake.sent()
    (row,) = last["components"]
    assert [part["components"] for part in first] == [[]]
    assert [(b["label"], b["custom_id"], b["style"]) for b in row["components"]] == [
        ("Yes", CHOICES[0].data, 3),
        ("Always", CHOICES[1].data, 2),
        ("No", CHOICES[2].data, 4),
    ]


async def test_amendment_replaces_text_and_removes_buttons_without_notifying() -> None:
    async with bench() as (fake, table):
        prompt = await table.send("May I?", choices=CHOICES)

        platform_id = await table.send("@everyone Allowed by Alice.", kind=ReplyKind.AMENDMENT, edits=prompt)

    (message,) = fake.sent()
    assert platform_id == prompt
    assert (message["content"], message["components"]) == ("@everyone Allowed by Alice.", [])
    assert fake.pings == []


async def test_amendment_of_a_message_that_is_gone_is_dropped() -> None:
    async with bench() as (fake, table):
        assert await table.send("Allowed.", kind=ReplyKind.AMENDMENT, edits="123") == "123"

    assert fake.sent() == []


async def test_answer_whose_draft_is_gone_is_posted_anew() -> None:
    async with bench() as (fake, table):
        await table.send("the answer", edits="123")

    assert [message["content"] for message in fake.sent()] == ["the answer"]


async def test_rate_limit_is_reported_with_its_time_and_not_slept_through() -> None:
    async with bench() as (fake, table):
        fake.flood("POST", "/messages", 1800.5)
        with pytest.raises(RateLimited) as fault:
            await table.send("hello")

        await table.send("hello")

    assert fault.value.retry_after == timedelta(seconds=1800.5)
    assert len(fake.sent()) == 1


async def test_global_rate_limit_does_not_block_other_calls() -> None:
    async with bench() as (fake, table):
        fake.flood("POST", f"{GENERAL}/messages", 3600, is_global=True)
        with pytest.raises(RateLimited):
            await table.send("hello", chat_id=GENERAL)

        await table.send("hello")

    assert len(fake.sent()) == 1


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, 0, Unauthorized),
        (403, 50007, Rejected),
        (404, 10003, Rejected),
        (500, 0, Unavailable),
        (502, 0, Unavailable),
        (503, 0, Unavailable),
        (524, 0, Unavailable),
    ],
)
async def test_refusals_become_the_decision_they_call_for(status: int, code: int, expected: type[Exception]) -> None:
    async with bench() as (fake, table):
        fake.fail("POST", "/messages", status, code)

        with pytest.raises(expected):
            await table.send("hello")

    assert len(fake.made("POST", "/messages")) == 1


@pytest.mark.parametrize("code", [50035, 160002])
async def test_message_with_invalid_decorations_is_sent_plain(code: int) -> None:
    async with bench() as (fake, table):
        question = await fake.say("?")
        fake.fail("POST", "/messages", 400, code)

        await table.send("hello", reply_to=question["id"], choices=CHOICES)

    (message,) = fake.sent()
    assert (message["content"], message["components"]) == ("hello", [])


async def test_message_that_stays_invalid_is_rejected_after_two_attempts() -> None:
    async with bench() as (fake, table):
        fake.fail("POST", "/messages", 400, 50035, times=9)

        with pytest.raises(Rejected):
            await table.send("hello", reply_to="1")

    assert len(fake.made("POST", "/messages")) == 2


async def test_reply_to_a_deleted_question_or_a_button_is_sent_without_reference() -> None:
    async with bench() as (fake, table):
        await table.send("to a deleted one", reply_to="123")
        await table.send("to a press", reply_to="interaction:5")

    assert [message["content"] for message in fake.sent()] == ["to a deleted one", "to a press"]


async def test_blank_message_is_rejected_without_a_call() -> None:
    async with bench() as (fake, table):
        with pytest.raises(Rejected):
            await table.send(" \n ")

    assert fake.made("POST", "/messages") == []


async def test_sending_waits_for_the_connection() -> None:
    async with FakeDiscord().serve() as fake:
        table = Bench(fake)
        sending = asyncio.ensure_future(table.send("early"))
        await asyncio.sleep(0)
        assert not sending.done()

        async with table.running():
            await sending

    assert len(fake.sent()) == 1


async def test_private_chat_is_opened_by_user_id() -> None:
    async with bench() as (fake, table):
        assert await table.channel.open_private_chat(ALICE) == DIRECT
        for unknown in ("999", "@alice"):
            with pytest.raises(Rejected):
                await table.channel.open_private_chat(unknown)

    assert fake.made("POST", "/users/@me/channels")[0].body == {"recipient_id": ALICE}


async def test_typing_sign_is_renewed_after_eight_seconds_only() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        for seconds in (0, 1, 6.9, 0.1, 7.9):
            table.clock.advance(seconds)
            assert await table.channel.show(draft()) is None

    assert len(fake.made("POST", "/typing")) == 2


async def test_draft_is_one_message_edited_at_most_once_a_second_and_never_unchanged() -> None:
    async with bench() as (fake, table):
        question = await fake.say("?")
        await table.next()
        await table.send("connected")
        first = await table.channel.show(draft("One", reply_to=question["id"]))
        for seconds, text in ((0.9, "One two"), (0.1, "One"), (0, "One two"), (1, "One two"), (0.5, "One two three")):
            table.clock.advance(seconds)
            assert await table.channel.show(draft(text, platform_id=first)) == first

    _, message = fake.sent()
    assert message["id"] == first
    assert message["message_reference"]["message_id"] == question["id"]
    assert message["content"] == "One two three"
    assert len(fake.made("PATCH", "/messages")) == 2
    assert all(call.body["allowed_mentions"]["parse"] == [] for call in fake.made("PATCH", "/messages"))


async def test_draft_closes_its_fence_and_fits_one_message() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        await table.channel.show(draft("Look:\n```python\nprint(1)"))
        short = fake.sent()[-1]["content"]
        table.clock.advance(2)
        await table.channel.show(draft("```\n" + "line of code\n" * 400))

    long = fake.sent()[-1]["content"]
    assert short == "Look:\n```python\nprint(1)\n```"
    assert len(long) <= 2000
    assert long.count("```") == 2
    assert len(fake.sent()) == 2


async def test_draft_becomes_the_answer_and_is_not_touched_again() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        shown = await table.channel.show(draft("The answ"))
        assert shown is not None

        last = await table.send("The answer. " + "More. " * 400, id=MESSAGE, edits=shown)
        table.clock.advance(5)
        await table.channel.show(draft("The answ late", platform_id=shown))

    _, first, second = fake.sent()
    assert (first["id"], second["id"]) == (shown, last)
    assert first["content"].startswith("The answer. More.")
    assert "message_reference" not in second


async def test_finished_draft_is_not_edited_to_what_it_shows_already() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        shown = await table.channel.show(draft("The answer."))

        assert await table.send("The answer.", id=MESSAGE, edits=shown) == shown

    assert fake.made("PATCH", "/messages") == []


async def test_answer_waits_for_a_draft_edit_under_way() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        shown = await table.channel.show(draft("One"))
        table.clock.advance(2)
        release = fake.hold(f"/messages/{shown}")
        editing = asyncio.ensure_future(table.channel.show(draft("One two", platform_id=shown)))
        await fake.until(lambda: bool(fake.made("PATCH", "/messages")))

        sending = asyncio.ensure_future(table.send("One two three.", id=MESSAGE, edits=shown))
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(editing, sending)

    assert fake.sent()[-1]["content"] == "One two three."


async def test_draft_keeps_quiet_in_a_flood_wait_and_never_raises() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        shown = await table.channel.show(draft("One"))
        fake.flood("PATCH", "/messages", 20)
        for seconds, text in ((2, "One two"), (2, "One two three"), (15, "One two three four")):
            table.clock.advance(seconds)
            assert await table.channel.show(draft(text)) == shown
        calls = len(fake.made("PATCH", "/messages"))
        table.clock.advance(10)
        fake.fail("PATCH", "/messages", 404, 10008)
        assert await table.channel.show(draft("One two three four five")) == shown

    assert calls == 1
    assert len(fake.made("PATCH", "/messages")) == 2


async def test_draft_of_a_sleeping_channel_shows_nothing() -> None:
    async with FakeDiscord().serve() as fake:
        assert await DiscordChannel(settings_for(fake)).show(draft("One")) is None

    assert fake.calls == []


async def test_without_streaming_a_draft_is_only_a_typing_sign() -> None:
    async with bench(streaming=False) as (fake, table):
        await table.send("connected")

        assert await table.channel.show(draft("One")) is None

    assert len(fake.sent()) == 1
    assert len(fake.made("POST", "/typing")) == 1


async def test_two_drafts_in_one_chat_share_its_pace() -> None:
    async with bench() as (fake, table):
        await table.send("connected")
        await table.channel.show(draft("One"))
        await table.channel.show(draft("Another", id=uuid4()))

    assert [message["content"] for message in fake.sent()] == ["connected", "One"]
    assert all(message["author"]["id"] == BOT for message in fake.sent())
