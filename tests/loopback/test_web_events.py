"""The event stream over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from channels.message import Address, Choice, Draft, OutgoingMessage, ReplyKind, StepState, ToolStep
from channels.web import EventHub, EventName, WebChannel
from tests.support.parts import Parts
from tests.support.web_bench import BEARER, TOKEN, Bench, running_bench

MAIN = Address(channel="web", chat_id="main")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as running:
        yield running


async def say(channel: WebChannel, text: str, kind: ReplyKind = ReplyKind.ANSWER) -> OutgoingMessage:
    message = OutgoingMessage(address=MAIN, text=text, kind=kind)
    await channel.send(message, Parts())
    return message


@pytest.mark.parametrize(("headers", "query"), [(BEARER, ""), ({}, f"?token={TOKEN}")])
async def test_an_answer_reaches_a_connected_page(bench: Bench, headers: dict[str, str], query: str) -> None:
    async with bench.events(headers, query) as events:
        message = await say(bench.channel, "Grüße\nline two")
        seen = await events.next()

    assert events.answer.headers["Content-Type"].startswith("text/event-stream")
    assert seen.name == "response"
    assert (seen.data["text"], seen.data["conversation"]) == ("Grüße\nline two", "main")
    assert seen.data["message_id"] == str(message.id)


async def test_a_wrong_token_in_the_query_opens_nothing(bench: Bench) -> None:
    async with bench.events({}, "?token=wrong") as events:
        assert events.status == 401


async def test_sending_succeeds_with_nobody_connected(bench: Bench) -> None:
    message = OutgoingMessage(address=MAIN, text="hi")

    assert await bench.channel.send(message, Parts()) == str(message.id)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ReplyKind.ANSWER, "response"),
        (ReplyKind.NOTICE, "response"),
        (ReplyKind.ERROR, "error"),
        (ReplyKind.FINDING, "heartbeat"),
        (ReplyKind.AMENDMENT, "status"),
    ],
)
async def test_each_kind_of_reply_has_its_event(bench: Bench, kind: ReplyKind, name: str) -> None:
    async with bench.events() as events:
        await say(bench.channel, "hi", kind)
        seen = await events.next()

    assert (seen.name, seen.data["kind"], seen.data["text"]) == (name, kind.value, "hi")


async def test_an_approval_question_carries_its_id_the_whole_command_and_the_allowed_answers(bench: Bench) -> None:
    request_id, command = str(uuid4()), "echo " + "x" * 5000
    choices = tuple(Choice(label=word, data=f"apr:{request_id}:{mark}") for word, mark in (("Yes", "y"), ("No", "n")))
    question = OutgoingMessage(
        address=MAIN, kind=ReplyKind.APPROVAL, text=f"shell: {command}", choices=choices, approval_id=request_id
    )

    async with bench.events() as events:
        await bench.channel.send(question, Parts())
        seen = await events.next()

    assert seen.name == "approval_needed"
    assert seen.data["request_id"] == request_id
    assert seen.data["actions"] == ["approve", "deny"]
    assert command in str(seen.data["text"])


async def test_drafts_and_tool_steps_are_shown_in_order(bench: Bench) -> None:
    draft = Draft(id=uuid4(), address=MAIN)
    step = ToolStep(address=MAIN, call_id="1", name="shell", state=StepState.STARTED)

    async with bench.events() as events:
        assert await bench.channel.show(draft) is None
        thinking = await events.next()
        await bench.channel.show_step(step)
        await bench.channel.show_step(step.model_copy(update={"state": StepState.SUCCEEDED, "detail": "ok"}))
        await bench.channel.show_step(step.model_copy(update={"state": StepState.FAILED, "detail": "broken"}))
        shown = await bench.channel.show(draft.model_copy(update={"text": "so far"}))
        seen = [thinking, *[await events.next() for _ in range(5)]]

    assert shown == str(draft.id)
    assert [each.name for each in seen] == [
        "thinking",
        "tool_started",
        "tool_completed",
        "tool_result",
        "tool_completed",
        "stream_chunk",
    ]
    assert [seen[2].data["success"], seen[3].data["preview"]] == [True, "ok"]
    assert [seen[4].data["success"], seen[4].data["error"]] == [False, "broken"]
    assert seen[5].data["text"] == "so far"


async def test_a_page_that_reads_slowly_gets_the_newest_draft_only(bench: Bench) -> None:
    draft = Draft(id=uuid4(), address=MAIN)

    async with bench.events() as events:
        for text in ("a", "a b", "a b c"):
            await bench.channel.show(draft.model_copy(update={"text": text}))
        seen = await events.next()

    assert seen.data["text"] == "a b c"


async def test_a_draft_that_comes_after_its_answer_is_dropped(bench: Bench) -> None:
    async with bench.events() as events:
        message = await say(bench.channel, "whole")
        assert await bench.channel.show(Draft(id=message.id, address=MAIN, text="hal")) is None
        await say(bench.channel, "next")
        seen = [await events.next(), await events.next()]

    assert [each.data["text"] for each in seen] == ["whole", "next"]


async def test_a_page_that_comes_back_gets_what_it_missed_once(bench: Bench) -> None:
    async with bench.events() as events:
        await say(bench.channel, "one")
        last = await events.next()
    await say(bench.channel, "two")
    await say(bench.channel, "three")

    async with bench.events(BEARER | {"Last-Event-ID": str(last.id)}) as events:
        seen = [await events.next(), await events.next()]
        await say(bench.channel, "four")
        live = await events.next()

    assert [each.data["text"] for each in (*seen, live)] == ["two", "three", "four"]
    assert last.id < seen[0].id < seen[1].id < live.id


async def test_a_page_is_told_when_what_it_missed_is_gone() -> None:
    async with running_bench(hub=EventHub(first_id=1, capacity=2)) as bench:
        for text in ("one", "two", "three", "four"):
            await say(bench.channel, text)

        async with bench.events(BEARER | {"Last-Event-ID": "1"}) as events:
            seen = await events.next()

    assert (seen.name, seen.data) == ("status", {"code": "events_lost"})


async def test_other_pages_learn_that_a_message_was_sent_but_not_its_text(bench: Bench) -> None:
    async with bench.events() as events:
        await bench.send({"content": "canary-4711"})
        seen = await events.next()

    assert (seen.name, seen.data["code"]) == ("status", "message_received")
    assert "canary" not in str(seen.data)


async def test_the_stream_beyond_the_limit_is_refused_and_a_closed_page_makes_room() -> None:
    async with running_bench(hub=EventHub(first_id=1, max_streams=2)) as bench:
        async with bench.events(), bench.events(), bench.events() as refused:
            assert refused.status == 503
            assert refused.answer.headers["Retry-After"]

        async with asyncio.timeout(5):
            while await _status_of_new_stream(bench) == 503:
                pass  # until the server has seen that the sockets are closed


async def _status_of_new_stream(bench: Bench) -> int:
    async with bench.events() as events:
        return events.status


async def test_streams_end_when_the_server_stops(bench: Bench) -> None:
    async with bench.events() as events:
        bench.channel.hub.close()

        assert await events.lines() == []
        assert events.answer.content.at_eof()


async def test_events_of_another_user_are_not_seen(bench: Bench) -> None:
    async with bench.events() as events:
        bench.channel.hub.publish(EventName.RESPONSE, {"text": "theirs"}, user="somebody else")
        await say(bench.channel, "mine")

        assert (await events.next()).data["text"] == "mine"
