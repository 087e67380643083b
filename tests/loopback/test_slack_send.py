from __future__ import annotations

import asyncio
import html
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from channels.base import Uncertain
from channels.errors import RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address, Choice, Draft, OutgoingMessage, ReplyKind
from tests.support.fake_slack import BOT_USER, FakeSlack, Post
from tests.support.parts import Parts
from tests.support.slack_bench import CHANNEL, DIRECT, RestlessClock, running

CHOICES = (Choice(label="Yes", data="y"), Choice(label="No", data="n"))


def paragraphs(count: int) -> str:
    return "\n\n".join(f"Paragraph {number} " + "word " * 60 for number in range(count))


def answer(text: str = "hello", address: Address = DIRECT, **extra: Any) -> OutgoingMessage:
    return OutgoingMessage(address=address, text=text, **extra)


def ours(slack: FakeSlack, channel: str = "D1") -> list[Post]:
    return [post for post in slack.shown(channel) if post.user == BOT_USER]


def numbers(posts: list[Post]) -> list[int]:
    return [int(piece.split(" ", 1)[0]) for post in posts for piece in post.text.split("Paragraph ")[1:]]


async def test_every_part_of_an_answer_goes_to_its_thread() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        thread = slack.say("question")["ts"]
        address = CHANNEL.model_copy(update={"thread_id": thread})
        for message in (
            answer(paragraphs(30), address),
            answer("Run?", address, kind=ReplyKind.APPROVAL, choices=CHOICES),
            answer("failed", address, kind=ReplyKind.ERROR),
        ):
            await channel.send(message, Parts())

    posts = ours(slack, "C1")
    assert len(posts) > 4
    assert {post.thread_ts for post in posts} == {thread}


@pytest.mark.parametrize("size", [2900, 3100, 12500, 45000])
async def test_a_long_answer_arrives_complete_and_in_order(size: int) -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n" + "x < y\n" * 50 + "```\n\n" + paragraphs(size // 320)
    async with FakeSlack() as slack, running(slack) as channel:
        last = await channel.send(answer(text), Parts())

    posts = ours(slack)
    assert numbers(posts) == list(range(size // 320))
    assert all(post.text.count("```") % 2 == 0 for post in posts)
    assert last == posts[-1].ts
    assert not slack.violations


async def test_after_a_rate_limit_sending_goes_on_with_the_part_that_failed() -> None:
    message, parts = answer(paragraphs(40)), Parts()
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer("before"), Parts())
        slack.hold["chat.postMessage"] = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(_limited(channel.send(message, parts)))
            await slack.until(lambda: len(slack.calls_of("chat.postMessage")) == 2)
            slack.hold["chat.postMessage"].set()
            await slack.until(lambda: len(parts.noted) == 1)
            slack.fail("chat.postMessage", status=429, error="ratelimited", retry_after="7")
            waited = await sending
        await channel.send(message, parts)

    assert waited == timedelta(seconds=7)
    assert numbers(ours(slack)) == list(range(40))


async def _limited(sending: Any) -> timedelta:
    try:
        await sending
    except RateLimited as error:
        return error.retry_after
    return timedelta()


async def test_a_rate_limit_without_a_stated_wait_is_still_a_wait() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", error="ratelimited")
        with pytest.raises(RateLimited) as limited:
            await channel.send(answer(), Parts())

    assert limited.value.retry_after > timedelta(seconds=1)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"error": "channel_not_found"}, Rejected),
        ({"error": "is_archived"}, Rejected),
        ({"error": "restricted_action"}, Rejected),
        ({"error": "an_error_of_tomorrow"}, Rejected),
        ({"error": "token_revoked"}, Unauthorized),
        ({"error": "missing_scope", "scope": "chat:write"}, Unauthorized),
        ({"error": "internal_error"}, Unavailable),
        ({"status": 503}, Unavailable),
    ],
)
async def test_each_refusal_becomes_the_error_that_tells_what_to_do(
    fault: dict[str, Any], expected: type[Exception]
) -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", **fault)
        with pytest.raises(expected) as raised:
            await channel.send(answer(), Parts())

    assert ours(slack) == []
    assert len(slack.calls_of("chat.postMessage")) == 1
    if fault.get("scope"):
        assert "chat:write" in str(raised.value)


async def test_a_lost_answer_may_have_been_sent_and_is_not_sent_again_by_itself() -> None:
    message = answer()
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", lose_answer=True)
        with pytest.raises(Unavailable) as lost:
            await channel.send(message, Parts())
        settled = await channel.settle(message, Parts())

    assert lost.value.maybe_sent
    assert len(ours(slack)) == 1
    assert settled is Uncertain.SENT


@pytest.mark.parametrize("code", ["msg_too_long", "invalid_blocks"])
async def test_refused_formatting_is_sent_once_more_in_plain_pieces(code: str) -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", error=code)
        await channel.send(answer("**bold** <!here> " + paragraphs(10), choices=CHOICES), Parts())

    posts = ours(slack)
    assert len(posts) > 1
    assert "*bold*" not in posts[0].text
    assert numbers(posts) == list(range(10))
    assert not slack.violations


async def test_plain_pieces_that_arrived_are_not_sent_again() -> None:
    message, parts = answer(paragraphs(11)), Parts()
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", error="msg_too_long")
        slack.hold["chat.postMessage"] = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(_limited(channel.send(message, parts)))
            await slack.until(lambda: slack.calls_of("chat.postMessage"))
            slack.hold["chat.postMessage"].set()
            await slack.until(lambda: parts.noted)
            slack.fail("chat.postMessage", status=429, error="ratelimited", retry_after="1")
            assert await sending == timedelta(seconds=1)
        await channel.send(message, parts)

    assert numbers(ours(slack)) == list(range(11))


async def test_an_empty_message_is_rejected() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        with pytest.raises(Rejected):
            await channel.send(answer(" \n"), Parts())

    assert not slack.calls_of("chat.postMessage")


async def test_buttons_stand_below_the_last_part_of_a_long_question() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer(paragraphs(20), kind=ReplyKind.APPROVAL, choices=CHOICES), Parts())

    *before, last = ours(slack)
    assert before
    assert not any(post.buttons for post in before)
    assert [button["value"] for button in last.buttons] == ["y", "n"]
    assert numbers([*before, last]) == list(range(20))


@pytest.mark.parametrize("size", [2800, 3300, 3850, 4100])
async def test_a_question_of_any_length_fits_the_sections_of_slack(size: int) -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer("word " * (size // 5), choices=CHOICES), Parts())

    posts = ours(slack)
    assert len(posts[-1].buttons) == 2
    assert "".join(post.text for post in posts).count("word") == size // 5
    assert len(slack.calls_of("chat.postMessage")) == len(posts)


async def test_an_amendment_takes_the_buttons_away() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        asked = await channel.send(answer("Run?", choices=CHOICES), Parts())
        edited = await channel.send(answer("Run? Approved.", kind=ReplyKind.AMENDMENT, edits=asked), Parts())

    (post,) = ours(slack)
    assert (edited, post.text, post.buttons) == (asked, "Run? Approved.", [])


async def test_an_amendment_of_a_message_that_is_gone_is_dropped() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer("Approved.", kind=ReplyKind.AMENDMENT, edits="1.1"), Parts())

    assert ours(slack) == []


async def test_the_final_answer_replaces_its_draft_and_continues_below() -> None:
    message = answer(paragraphs(30))
    async with FakeSlack() as slack, running(slack) as channel:
        shown = await channel.show(Draft(id=message.id, address=DIRECT, text="Paragraph"))
        await channel.send(message.model_copy(update={"edits": shown}), Parts())

    posts = ours(slack)
    assert posts[0].ts == shown
    assert numbers(posts) == list(range(30))


async def test_a_draft_nobody_told_the_sender_about_is_replaced_too() -> None:
    message = answer("done")
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.show(Draft(id=message.id, address=DIRECT, text="do"))
        await channel.send(message, Parts())

    assert [post.text for post in ours(slack)] == ["done"]


async def test_a_draft_whose_posting_was_cut_off_does_not_stay_behind() -> None:
    message = answer("done")
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("chat.postMessage", lose_answer=True)
        assert await channel.show(Draft(id=message.id, address=DIRECT, text="do")) is None
        await channel.send(message, Parts())

    assert [post.text for post in ours(slack)] == ["done"]


async def test_an_answer_whose_draft_was_deleted_is_posted() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer("done", edits="1.1"), Parts())

    assert [post.text for post in ours(slack)] == ["done"]


async def test_drafts_are_shown_at_most_once_a_second_and_only_if_changed() -> None:
    clock, number = RestlessClock(), uuid4()
    async with FakeSlack() as slack, running(slack, clock=clock) as channel:
        shown = await channel.show(Draft(id=number, address=DIRECT, text="one"))
        await channel.show(Draft(id=number, address=DIRECT, text="one two", platform_id=shown))
        clock.advance(timedelta(seconds=1))
        await channel.show(Draft(id=number, address=DIRECT, text="one", platform_id=shown))
        assert not slack.calls_of("chat.update")
        again = await channel.show(Draft(id=number, address=DIRECT, text="one two three", platform_id=shown))

    assert again == shown
    assert [post.text for post in ours(slack)] == ["one two three"]
    assert len(slack.calls_of("chat.update")) == 1


async def test_no_draft_is_shown_while_slack_asks_to_wait_or_after_the_answer() -> None:
    clock, message = RestlessClock(), answer("done")
    async with FakeSlack() as slack, running(slack, clock=clock) as channel:
        slack.fail("chat.postMessage", status=429, error="ratelimited", retry_after="30")
        assert await channel.show(Draft(id=message.id, address=DIRECT, text="d")) is None
        clock.advance(timedelta(seconds=29))
        assert await channel.show(Draft(id=message.id, address=DIRECT, text="do")) is None
        assert len(slack.calls_of("chat.postMessage")) == 1
        await channel.send(message, Parts())
        clock.advance(timedelta(seconds=60))
        await channel.show(Draft(id=message.id, address=DIRECT, text="don"))

    assert [post.text for post in ours(slack)] == ["done"]


async def test_nothing_is_shown_early_where_streaming_is_off() -> None:
    async with FakeSlack() as slack, running(slack, streaming=False) as channel:
        assert await channel.show(Draft(id=uuid4(), address=DIRECT, text="one")) is None

    assert not ours(slack)


async def test_the_status_line_is_set_below_threads_and_given_up_where_it_is_refused() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        thread = CHANNEL.model_copy(update={"thread_id": slack.say("question")["ts"]})
        await channel.show(Draft(id=uuid4(), address=DIRECT))
        await channel.show(Draft(id=uuid4(), address=thread))
        slack.fail("assistant.threads.setStatus", error="missing_scope")
        await channel.show(Draft(id=uuid4(), address=thread))
        await channel.show(Draft(id=uuid4(), address=thread))

    assert len(slack.calls_of("assistant.threads.setStatus")) == 2


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_cut_off_delivery_goes_on_after_the_parts_that_are_found(in_thread: bool) -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        thread = slack.say("question", "D1")["ts"] if in_thread else None
        message = answer(paragraphs(40), DIRECT.model_copy(update={"thread_id": thread}))
        await channel.send(message, Parts())
        whole = ours(slack)
        del slack.posts["D1", whole[-1].ts]
        parts = Parts(whole[0].ts)

        settled = await channel.settle(message, parts)
        assert settled is Uncertain.RESEND
        await channel.send(message, parts)

    assert len(ours(slack)) == len(whole) > 2
    assert numbers(ours(slack)) == list(range(40))


async def test_a_draft_is_not_taken_for_the_answer_when_a_delivery_is_settled() -> None:
    message = answer("done")
    async with FakeSlack() as slack, running(slack) as channel:
        shown = await channel.show(Draft(id=message.id, address=DIRECT, text="do"))
        final = message.model_copy(update={"edits": shown})
        assert await channel.settle(final, Parts()) is Uncertain.RESEND
        await channel.send(final, Parts())
        assert await channel.settle(final, Parts()) is Uncertain.SENT


async def test_posts_of_others_with_our_metadata_do_not_count_as_sent() -> None:
    message = answer("done")
    async with FakeSlack() as slack, running(slack) as channel:
        forged = slack.say("done", "D1", user="U2")
        slack.posts["D1", forged["ts"]].metadata = {
            "event_type": "optimclaw",
            "event_payload": {"id": str(message.id), "part": 0},
        }

        assert await channel.settle(message, Parts()) is Uncertain.RESEND


async def test_a_long_chat_is_looked_through_page_by_page_but_not_for_ever() -> None:
    message = answer("done")
    async with FakeSlack() as slack, running(slack) as channel:
        for _ in range(300):
            slack.say("chatter", "D1")
        await channel.send(message, Parts())
        assert await channel.settle(message, Parts()) is Uncertain.SENT
        for _ in range(2000):
            slack.say("chatter", "D1")
        assert await channel.settle(answer("other"), Parts()) is Uncertain.SKIP


async def test_a_delivery_that_cannot_be_looked_up_is_not_repeated() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        slack.fail("conversations.history", status=500)
        assert await channel.settle(answer(), Parts()) is Uncertain.SKIP
        assert await channel.settle(answer(address=Address(channel="slack", chat_id="C9")), Parts()) is Uncertain.SKIP


async def test_a_private_chat_is_opened_by_user_id() -> None:
    async with FakeSlack() as slack, running(slack) as channel:
        assert await channel.open_private_chat("U2") == "D2"
        with pytest.raises(Rejected):
            await channel.open_private_chat("U404")


async def test_nothing_in_an_answer_pings_anybody() -> None:
    text = "@everyone <!channel> <@U1> `<!here>` **@here** [x](https://a.example/<!here>)"
    async with FakeSlack() as slack, running(slack) as channel:
        await channel.send(answer(text), Parts())
        await channel.send(answer(text, choices=CHOICES), Parts())

    assert not slack.violations
    assert "<!channel>" in html.unescape(ours(slack)[0].text)
