"""Other programs talk to the bot over a real socket: signatures, bounds, waiting, repeats, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from agent.llm.base import Completion, CompletionRequest
from bot.web.webhook import POSTS_PER_WINDOW
from channels.webhook import MOST_WAITING, PATIENCE
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import Held, ScriptedLLM, call, say
from tests.support.web_bench import running_bench
from tests.support.webhook_bench import SECRET, Caller, a_file, calling, signed

HELLO = b'{"content": "hello"}'


def echo(request: CompletionRequest) -> Completion:
    """Answers with the last line of what it was told last."""
    return say(f"heard {request.messages[-1].text.splitlines()[-1]}")


async def until_waiting(caller: Caller, count: int) -> None:
    """Return when so many callers wait."""
    async with asyncio.timeout(5):
        while caller.channel.waiting < count:
            await asyncio.sleep(0.001)


async def taken(caller: Caller, count: int) -> None:
    """Return when the messages of so many callers who wait are taken: their time to wait begins then."""
    async with asyncio.timeout(5):
        await caller.bot.clock.wait_for_due(NOON + PATIENCE, count)


# -- signatures ----------------------------------------------------------------------------------------------------
async def test_signed_post_is_acknowledged_and_answered(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("Hi.")])) as caller:
        taken = await caller.post(content="hello")
        await caller.bot.rest()

    assert taken.status == 202
    assert set(taken.data) == {"message_id", "thread_id"}
    assert taken.data["thread_id"] == "main"
    assert "hello" in caller.bot.llm.requests[0].messages[-1].text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": signed(HELLO)["X-Hub-Signature-256"].removeprefix("sha256=")},
        {"X-Hub-Signature": "sha1=" + "0" * 40},
        signed(HELLO, "another secret"),
        signed(HELLO + b" "),
        signed(HELLO, ""),
    ],
)
async def test_post_without_the_right_signature_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller:
        refused = await caller.send(HELLO, headers)
        await caller.bot.rest()

    assert refused.status == 401
    assert "X-Hub-Signature-256" in refused.said
    assert caller.bot.llm.requests == []


async def test_body_is_not_parsed_before_its_signature_is_right(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller:
        unsigned = await caller.send(b"{ no json", {"X-Hub-Signature-256": "sha256=" + "0" * 64})
        right = await caller.send(b"{ no json")

    assert (unsigned.status, right.status) == (401, 400)


async def test_secret_in_the_body_is_refused_with_a_hint(tmp_path: Path) -> None:
    body = json.dumps({"content": "hello", "secret": SECRET}).encode()
    async with calling(tmp_path, ScriptedLLM()) as caller:
        alone = await caller.send(body, {})
        beside = await caller.send(body)

    assert (alone.status, beside.status) == (401, 400)
    assert "X-Hub-Signature-256" in beside.said
    assert SECRET not in alone.said + beside.said


async def test_nothing_is_there_without_a_secret(tmp_path: Path) -> None:
    async with running_bench() as bench, bench.http.post("/webhook", data=HELLO, headers=signed(HELLO)) as answer:
        assert answer.status == 404


async def test_no_browser_gets_anything_there(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller, caller.http.get("/webhook") as answer:
        assert answer.status == 405


# -- bounds --------------------------------------------------------------------------------------------------------
async def test_sixty_posts_a_minute_are_taken(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM(default=echo)) as caller:
        for _ in range(5):
            await caller.send(HELLO, signed(HELLO, "another secret"))  # who cannot sign uses nothing up
        taken = [(await caller.post(content="hello", id=f"n{number}")).status for number in range(POSTS_PER_WINDOW)]
        refused = await caller.post(content="hello")
        caller.bot.clock.advance(timedelta(seconds=60))
        again = await caller.post(content="hello")
        await caller.bot.rest()

    assert set(taken) == {202}
    assert refused.status == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert again.status == 202


async def test_too_long_content_is_refused_and_the_longest_is_taken(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM(default=echo)) as caller:
        longest = await caller.post(content="é" * (16 * 1024))
        longer = await caller.post(content="é" * (16 * 1024) + "x")
        await caller.bot.rest()

    assert (longest.status, longer.status) == (202, 413)


async def test_too_large_body_is_refused_by_its_length_and_while_it_streams(tmp_path: Path) -> None:
    size = 15 * 1024 * 1024 + 1
    shaped = {"X-Hub-Signature-256": "sha256=" + "0" * 64}

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size // 65536 + 1):
            yield b"x" * 65536

    async with calling(tmp_path, ScriptedLLM()) as caller:
        by_length = await caller.send(b"x" * size, shaped)
        async with caller.http.post("/webhook", data=chunks(), headers=shaped) as told:
            streamed = told.status

    assert (by_length.status, streamed) == (413, 413)


# -- waiting -------------------------------------------------------------------------------------------------------
async def test_caller_who_waits_gets_the_answer(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("Four.")])) as caller:
        answer = await caller.ask("2+2?", thread_id="sums", id="sum-1")

    assert answer.status == 200
    assert answer.data == {
        "message_id": "sum-1",
        "thread_id": "sums",
        "response": "Four.",
        "kind": "answer",
        "messages": [],
    }


async def test_conversation_goes_on_in_its_thread_and_not_in_another(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM(default=echo)) as caller:
        await caller.ask("my number is 7", thread_id="a")
        await caller.ask("what was it?", thread_id="a")
        await caller.ask("what was it?", thread_id="b")

    same, other = caller.bot.llm.requests[1:]
    assert any("my number is 7" in message.text for message in same.messages)
    assert not any("my number is 7" in message.text for message in other.messages)


async def test_each_caller_gets_the_answer_of_their_own_thread(tmp_path: Path) -> None:
    first = Held(say("for a"))
    async with calling(tmp_path, ScriptedLLM([first, say("for b")])) as caller, asyncio.TaskGroup() as group:
        waits = group.create_task(caller.ask("slow", thread_id="a"))
        await first.reached.wait()
        quick = await caller.ask("quick", thread_id="b")
        assert not waits.done()
        first.release.set()

    assert quick.said == "for b"
    assert waits.result().said == "for a"


async def test_messages_that_share_a_turn_share_its_answer(tmp_path: Path) -> None:
    first = Held(say("one"))
    async with calling(tmp_path, ScriptedLLM([first, say("two and three")])) as caller, asyncio.TaskGroup() as group:
        one = group.create_task(caller.ask("1"))
        await first.reached.wait()
        two = group.create_task(caller.ask("2"))
        await taken(caller, 2)
        three = group.create_task(caller.ask("3"))
        await taken(caller, 3)
        status = await caller.ask("/status")
        first.release.set()

    assert status.data["kind"] == "notice"
    assert [task.result().said for task in (one, two, three)] == ["one", "two and three", "two and three"]


async def test_waiting_ends_after_a_minute_and_a_repeat_gets_the_answer(tmp_path: Path) -> None:
    held = Held(say("At last."))
    clock = FakeClock()
    async with calling(tmp_path, ScriptedLLM([held]), clock=clock) as caller, asyncio.TaskGroup() as group:
        first = group.create_task(caller.ask("think", id="job-1"))
        await held.reached.wait()
        await clock.wait_for_due(NOON + PATIENCE)
        clock.advance(PATIENCE)
        late = await first
        held.release.set()
        again = await caller.ask("think", id="job-1")
        once_more = await caller.ask("think", id="job-1")

    assert late.status == 504
    assert late.data["message_id"] == "job-1"
    assert "job-1" in late.said
    assert (again.status, again.said) == (200, "At last.")
    assert once_more.said == "At last."
    assert len(caller.bot.llm.requests) == 1


async def test_made_up_id_serves_for_a_repeat_too(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("Once.")])) as caller:
        taken = await caller.post(content="think")
        again = await caller.ask("think", id=taken.data["message_id"])

    assert again.said == "Once."
    assert len(caller.bot.llm.requests) == 1


async def test_equal_posts_without_an_id_both_count(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("one"), say("two")])) as caller:
        answers = [(await caller.ask("next")).said for _ in range(2)]

    assert answers == ["one", "two"]


async def test_same_id_in_another_thread_is_another_message(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("one"), say("two")])) as caller:
        answers = [(await caller.ask("next", id="1", thread_id=thread)).said for thread in ("a", "b")]

    assert answers == ["one", "two"]


async def test_hundred_wait_and_no_more(tmp_path: Path) -> None:
    held = Held(say("all of you"))
    clock = FakeClock()
    async with calling(tmp_path, ScriptedLLM([held], default=say("later")), clock=clock) as caller:
        await caller.post(content="first", thread_id="a")
        await held.reached.wait()
        clock.advance(timedelta(seconds=59))  # so that two windows of posts fall into one time of waiting
        async with asyncio.TaskGroup() as group:
            tasks = []
            for number in range(MOST_WAITING):
                if number == POSTS_PER_WINDOW - 1:
                    clock.advance(timedelta(seconds=1))
                tasks.append(group.create_task(caller.ask("me too", thread_id="a")))
                await until_waiting(caller, number + 1)
            refused = await caller.ask("me too", thread_id="c", id="refused")
            taken = await caller.post(content="I do not wait", thread_id="c")
            held.release.set()
        await caller.bot.rest()
        said = {task.result().status for task in tasks}
        again = await caller.ask("now", thread_id="c", id="refused")

    assert refused.status == 503
    assert "Retry-After" in refused.headers
    assert taken.status == 202
    assert said == {200}
    assert again.said == "later"
    assert any("now" in request.messages[-1].text for request in caller.bot.llm.requests)  # nothing was kept of it


async def test_message_that_was_taken_before_a_crash_is_answered_after_it(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with calling(tmp_path, ScriptedLLM([held])) as caller:
        taken = await caller.post(content="hello", id="x")
        await held.reached.wait()
        await caller.bot.crash()
    async with calling(tmp_path, ScriptedLLM([say("After the start.")])) as caller:
        again = await caller.ask("hello", id="x")

    assert taken.status == 202
    assert again.said == "After the start."
    assert len(caller.bot.llm.requests) == 1


async def test_caller_who_waits_is_told_that_the_bot_stops(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with calling(tmp_path, ScriptedLLM([held])) as caller, asyncio.TaskGroup() as group:
        waits = group.create_task(caller.ask("hello", id="x"))
        await held.reached.wait()
        await caller.bot.crash()
        later = await caller.post(content="hello")

    assert waits.result().status == 503
    assert "kept" in waits.result().said
    assert (later.status, "nothing was kept" in later.said) == (503, True)


# -- what comes back ------------------------------------------------------------------------------------------------
async def test_question_comes_back_and_a_word_from_the_same_thread_answers_it(tmp_path: Path) -> None:
    fetch = call("http", method="POST", url="https://example.com/", body="x")
    async with calling(tmp_path, ScriptedLLM([fetch], default=echo)) as caller:
        question = await caller.ask("post it", thread_id="a")
        elsewhere = await caller.ask("no", thread_id="b")
        refused = await caller.ask("no", thread_id="a")

    assert elsewhere.said == "heard no"
    assert question.data["kind"] == "approval"
    assert "request_id" in question.data
    assert "https://example.com/" in question.said
    assert refused.status == 200
    assert refused.data["kind"] == "notice"
    assert "http" in refused.said


async def test_command_is_answered_as_everywhere(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller:
        help_text = await caller.ask("/help")

    assert help_text.data["kind"] == "notice"
    assert "/new" in help_text.said


async def test_message_with_a_secret_in_it_is_refused_to_the_caller(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller:
        refused = await caller.ask("keep AKIAIOSFODNN7EXAMPLE for me", id="s")
        again = await caller.ask("keep AKIAIOSFODNN7EXAMPLE for me", id="s")

    assert refused.data["kind"] == "error"
    assert again.said == refused.said
    assert caller.bot.llm.requests == []


async def test_stop_answers_the_one_who_waits_and_the_one_who_stops(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with calling(tmp_path, ScriptedLLM([held])) as caller, asyncio.TaskGroup() as group:
        waits = group.create_task(caller.ask("work"))
        await held.reached.wait()
        stops = await caller.ask("/stop")

    assert waits.result().data["kind"] == "notice"
    assert stops.said == waits.result().said


# -- files ---------------------------------------------------------------------------------------------------------
async def test_file_reaches_the_turn(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([say("Read.")])) as caller:
        answer = await caller.ask("read this", attachments=[a_file(b"the build is red", "../../log.txt")])

    assert answer.said == "Read."
    told = caller.bot.llm.requests[0].messages[-1].text
    assert "the build is red" in told
    assert ".." not in told.split("the build is red", maxsplit=1)[0]
    kept = list((tmp_path / "workspace").rglob("log.txt"))
    assert [path.relative_to(tmp_path / "workspace").parts[:4] for path in kept] == [
        ("users", "webhook", "caller", "attachments")
    ]


async def test_file_of_a_message_that_waits_survives_a_crash(tmp_path: Path) -> None:
    busy = Held(say("never"))
    async with calling(tmp_path, ScriptedLLM([busy])) as caller:
        await caller.post(content="first")
        await busy.reached.wait()
        await caller.post(content="read this", id="f", attachments=[a_file(b"the build is red")])
        await caller.bot.crash()
    async with calling(tmp_path, ScriptedLLM([say("First."), say("Read.")])) as caller:
        answer = await caller.ask("read this", id="f")

    assert answer.said == "Read."
    assert "the build is red" in caller.bot.llm.requests[-1].messages[-1].text


async def test_files_beyond_the_bounds_are_refused(tmp_path: Path) -> None:
    mebibyte = 1024 * 1024
    async with calling(tmp_path, ScriptedLLM()) as caller:
        answers = [
            await caller.post(content="x", attachments=files)
            for files in (
                [a_file(b"x")] * 6,
                [a_file(b"x" * (5 * mebibyte + 1))],
                [a_file(b"x" * (4 * mebibyte), f"{n}.bin") for n in range(2)] + [a_file(b"x" * (2 * mebibyte + 1))],
                [{"filename": "a.txt", "url": "http://127.0.0.1/secret"}],
                [{"filename": "a.txt", "data_base64": "no base64!"}],
                [{"filename": "a.txt"}],
            )
        ]
        await caller.bot.rest()

    assert [answer.status for answer in answers] == [400, 413, 413, 400, 400, 400]
    assert "not fetched" in answers[3].said
