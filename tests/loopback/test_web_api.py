"""The page's API over a real socket: who may call it and what it takes."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from bot.web.backend import History, PendingApprovalView, ToolCallView, TurnView
from channels.message import ChatType
from tests.support.web_bench import BEARER, TOKEN, Bench, running_bench, thread_of

REQUEST_ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
API = [
    ("GET", "/api/chat/threads"),
    ("GET", "/api/chat/history"),
    ("GET", "/api/events"),
    ("POST", "/api/chat/send"),
    ("POST", "/api/chat/approval"),
    ("GET", "/api/nothing"),
]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as running:
        yield running


def error_of(body: dict[str, object]) -> tuple[str, str]:
    error = body["error"]
    assert isinstance(error, dict)
    return error["code"], error["message"]


@pytest.mark.parametrize(("method", "path"), API)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}]
)
async def test_api_refuses_whoever_has_no_token(bench: Bench, method: str, path: str, headers: dict[str, str]) -> None:
    status, body = await bench.call(method, path, body={"content": "hi"}, headers=headers)

    assert status == 401
    assert error_of(body)[0] == "unauthorized"
    assert not bench.messages


@pytest.mark.parametrize(("method", "path"), [each for each in API if each[1] != "/api/events"])
async def test_a_token_in_the_query_opens_only_the_event_stream(bench: Bench, method: str, path: str) -> None:
    status, _ = await bench.call(method, f"{path}?token={TOKEN}", body={"content": "hi"}, headers={})

    assert status == 401


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"]
)
@pytest.mark.parametrize(("method", "path"), API)
async def test_a_foreign_origin_is_refused_reading_and_writing(
    bench: Bench, method: str, path: str, origin: str
) -> None:
    status, body = await bench.call(method, path, body={"content": "hi"}, headers=BEARER | {"Origin": origin})

    assert status == 403
    assert error_of(body)[0] == "foreign_origin"
    assert not bench.messages


async def test_a_request_that_another_site_caused_is_refused_without_an_origin_too(bench: Bench) -> None:
    status, _ = await bench.call("GET", "/api/chat/threads", headers=BEARER | {"Sec-Fetch-Site": "same-site"})

    assert status == 403


async def test_the_pages_own_origin_is_served(bench: Bench) -> None:
    headers = BEARER | {"Origin": bench.server.url, "Sec-Fetch-Site": "same-origin"}

    status, _ = await bench.send({"content": "hi"}, headers)

    assert status == 202


@pytest.mark.parametrize("path", ["/", "/api/chat/threads", "/static/app.js"])
async def test_a_rebound_host_name_is_refused_on_loopback(bench: Bench, path: str) -> None:
    status, _ = await bench.call("GET", path, headers=BEARER | {"Host": "evil.example:80"})

    assert status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:8080", "bot.localhost"])
async def test_names_of_this_machine_are_served(bench: Bench, host: str) -> None:
    status, _ = await bench.call("GET", "/api/chat/threads", headers=BEARER | {"Host": host})

    assert status == 200


async def test_a_sent_message_reaches_the_agent_as_the_operators(bench: Bench) -> None:
    status, body = await bench.send({"content": "  hello\nthere ", "timezone": "Europe/Berlin"})

    (message,) = bench.messages
    assert status == 202
    assert body == {
        "message_id": message.message_id,
        "thread_id": str(thread_of("main")),
        "conversation": "main",
        "note": None,
    }
    assert (message.text, message.sender.user_id, message.address.chat_id) == ("  hello\nthere ", "operator", "main")
    assert message.metadata.chat_type is ChatType.PRIVATE
    assert message.metadata.timezone == "Europe/Berlin"
    assert not message.metadata.structured


async def test_a_thread_id_names_the_conversation_to_send_to(bench: Bench) -> None:
    bench.backend.add("garden")

    status, body = await bench.send({"content": "hi", "thread_id": str(thread_of("garden"))})

    assert (status, body["conversation"]) == (202, "garden")
    assert bench.messages[0].address.chat_id == "garden"


async def test_a_new_conversation_gets_a_place_of_its_own_each_time(bench: Bench) -> None:
    for _ in range(2):
        status, _ = await bench.send({"content": "hi", "thread_id": "new"})
        assert status == 202

    first, second = (each.address.chat_id for each in bench.messages)
    assert len({first, second, "main"}) == 3


async def test_a_repeated_first_message_opens_one_conversation(bench: Bench) -> None:
    for _ in range(2):
        await bench.send({"content": "hi", "thread_id": "new"}, BEARER | {"Idempotency-Key": REQUEST_ID})

    first, second = bench.messages
    assert first.delivery_key == second.delivery_key


async def test_somebody_elses_thread_does_not_exist(bench: Bench) -> None:
    foreign = str(uuid4())

    answers = [
        await bench.send({"content": "hi", "thread_id": foreign}),
        await bench.call(
            "POST", "/api/chat/approval", body={"request_id": REQUEST_ID, "action": "deny", "thread_id": foreign}
        ),
        await bench.call("GET", f"/api/chat/history?thread_id={foreign}"),
    ]

    assert [(status, error_of(body)[0]) for status, body in answers] == [(404, "not_found")] * 3
    assert not bench.messages


async def test_a_repeated_request_with_the_same_key_is_the_same_message(bench: Bench) -> None:
    key = str(uuid4())

    for _ in range(2):
        await bench.send({"content": "hi"}, BEARER | {"Idempotency-Key": key})

    assert [each.delivery_key for each in bench.messages] == [f"web:main:{key}"] * 2


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({}, "content"),
        ({"content": ""}, "empty"),
        ({"content": " \n"}, "empty"),
        ({"content": "\x00"}, "empty"),
        ({"content": 5}, "content"),
        ({"content": None}, "content"),
        ({"content": "hi", "thread_id": "nope"}, "thread_id"),
        ({"content": "hi", "timezone": "Mars/Base"}, "IANA"),
        ({"content": "hi", "timezone": "../../etc/passwd"}, "IANA"),
        ({"content": "hi", "secret": "x"}, "Allowed fields: content, thread_id, timezone"),
        (["hi"], "Allowed fields"),
    ],
)
async def test_a_bad_message_is_refused_and_the_answer_says_what_is_allowed(
    bench: Bench, body: object, hint: str
) -> None:
    status, answer = await bench.send(body)

    assert status == 400
    assert hint in error_of(answer)[1]
    assert not bench.messages


@pytest.mark.parametrize(
    ("data", "content_type", "hint"),
    [
        (b"{no json", "application/json", "JSON"),
        (b'{"content": "\\ud800"}', "application/json", "Allowed"),
        (b'{"content": "hi"}', "text/plain", "application/json"),
        (b"content=hi", "application/x-www-form-urlencoded", "application/json"),
    ],
)
async def test_what_is_no_json_is_a_400(bench: Bench, data: bytes, content_type: str, hint: str) -> None:
    headers = BEARER | {"Content-Type": content_type}

    async with bench.http.post("/api/chat/send", data=data, headers=headers) as answer:
        status, body = answer.status, await answer.json()

    assert status == 400
    assert hint in error_of(body)[1]


async def test_an_error_never_repeats_what_was_sent(bench: Bench) -> None:
    _, body = await bench.send({"content": "hi", "timezone": "canary-4711", "thread_id": "canary-4712"})

    assert "canary" not in json.dumps(body)


async def test_a_body_over_a_megabyte_is_refused(bench: Bench) -> None:
    large = io.BytesIO(b'{"content": "' + b"x" * 3_000_000 + b'"}')
    headers = BEARER | {"Content-Type": "application/json"}

    async with bench.http.post("/api/chat/send", data=large, headers=headers) as answer:
        status, body = answer.status, await answer.json()

    assert (status, error_of(body)[0]) == (413, "too_large")


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(bench: Bench) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.server.port)
    head = f"POST /api/chat/send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n".encode())

    async with asyncio.timeout(5):
        status_line = await reader.readline()
    writer.close()
    await writer.wait_closed()

    assert b" 413 " in status_line


async def test_a_body_of_unknown_length_is_cut_off_at_a_megabyte(bench: Bench) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 64 * 1024

    headers = BEARER | {"Content-Type": "application/json"}
    async with bench.http.post("/api/chat/send", data=endless(), headers=headers) as answer:
        assert answer.status == 413


async def test_a_message_of_almost_a_megabyte_is_taken(bench: Bench) -> None:
    status, _ = await bench.send({"content": "x" * 1_000_000})

    assert status == 202


async def test_the_thirty_first_message_of_a_minute_waits(bench: Bench) -> None:
    for _ in range(30):
        assert (await bench.send({"content": "hi"}))[0] == 202
    bench.clock.time += timedelta(seconds=20)

    async with bench.http.post("/api/chat/send", json={"content": "hi"}, headers=BEARER) as answer:
        status, retry_after = answer.status, answer.headers["Retry-After"]
    bench.clock.time += timedelta(seconds=40)
    later, _ = await bench.send({"content": "hi"})

    assert (status, retry_after, later) == (429, "40", 202)


async def test_refused_messages_do_not_use_up_the_minute(bench: Bench) -> None:
    for _ in range(40):
        await bench.send({"content": ""})

    assert (await bench.send({"content": "hi"}))[0] == 202


async def test_without_an_agent_a_message_is_a_503_and_nothing_is_kept() -> None:
    async with (
        running_bench(is_agent_there=False) as bench,
        bench.http.post("/api/chat/send", json={"content": "hi"}, headers=BEARER) as answer,
    ):
        assert answer.status == 503
        assert answer.headers["Retry-After"]


@pytest.mark.parametrize(
    ("action", "approved", "always"), [("approve", True, False), ("always", True, True), ("deny", False, False)]
)
async def test_an_approval_becomes_a_structured_message(
    bench: Bench, action: str, approved: bool, always: bool
) -> None:
    status, _ = await bench.call(
        "POST", "/api/chat/approval", body={"request_id": REQUEST_ID.upper(), "action": action}
    )

    (message,) = bench.messages
    assert status == 202
    assert json.loads(message.text) == {
        "ExecApproval": {"request_id": REQUEST_ID, "approved": approved, "always": always}
    }
    assert message.metadata.structured
    assert message.metadata.answers_approval == REQUEST_ID


async def test_a_second_answer_to_a_question_is_a_repeated_delivery_of_the_first(bench: Bench) -> None:
    for action in ("deny", "approve"):
        await bench.call("POST", "/api/chat/approval", body={"request_id": REQUEST_ID, "action": action})

    first, second = bench.messages
    assert first.delivery_key == second.delivery_key


@pytest.mark.parametrize(
    "body",
    [
        {"request_id": "no-uuid", "action": "approve"},
        {"request_id": REQUEST_ID, "action": "yes"},
        {"request_id": REQUEST_ID},
        {"action": "approve"},
        {"request_id": REQUEST_ID, "action": "approve", "always": True},
        {"request_id": REQUEST_ID, "action": True},
    ],
)
async def test_a_bad_approval_is_refused(bench: Bench, body: object) -> None:
    status, answer = await bench.call("POST", "/api/chat/approval", body=body)

    assert status == 400
    assert "Allowed fields" in error_of(answer)[1]
    assert not bench.messages


async def test_approvals_are_not_counted_against_the_messages_of_the_minute(bench: Bench) -> None:
    for _ in range(30):
        await bench.send({"content": "hi"})

    status, _ = await bench.call("POST", "/api/chat/approval", body={"request_id": REQUEST_ID, "action": "deny"})

    assert status == 202


async def test_history_shows_turns_tools_and_the_open_question(bench: Bench) -> None:
    reply = uuid4()
    turn = TurnView(1, "hi", "hello", "complete", (ToolCallView("shell", True), ToolCallView("web", None)), reply)
    question = PendingApprovalView(UUID(REQUEST_ID), "shell", "Run a command", "rm -rf build")
    bench.backend.conversations["main"] = History(thread_of("main"), "main", (turn,), question)

    status, body = await bench.call("GET", "/api/chat/history")

    assert status == 200
    assert body == {
        "thread_id": str(thread_of("main")),
        "conversation": "main",
        "turns": [
            {
                "number": 1,
                "user_input": "hi",
                "response": "hello",
                "state": "complete",
                "tool_calls": [{"name": "shell", "ok": True}, {"name": "web", "ok": None}],
                "message_id": str(reply),
                "messages": [],
            }
        ],
        "pending_approval": {
            "request_id": REQUEST_ID,
            "tool_name": "shell",
            "description": "Run a command",
            "parameters": "rm -rf build",
            "may_always": True,
        },
    }


async def test_history_of_a_named_thread(bench: Bench) -> None:
    bench.backend.add("garden", TurnView(1, "roses?", "yes", "complete"))

    _, body = await bench.call("GET", f"/api/chat/history?thread_id={thread_of('garden')}")

    assert body["conversation"] == "garden"


async def test_a_thread_id_that_is_none_is_a_400(bench: Bench) -> None:
    status, body = await bench.call("GET", "/api/chat/history?thread_id=nope")

    assert (status, error_of(body)[0]) == (400, "bad_request")


async def test_threads_are_listed(bench: Bench) -> None:
    status, body = await bench.call("GET", "/api/chat/threads")

    assert status == 200
    assert body["threads"] == [
        {
            "id": str(thread_of("main")),
            "conversation": "main",
            "title": "Title of main",
            "created_at": "2026-03-02T12:00:00+00:00",
            "updated_at": "2026-03-02T12:00:00+00:00",
            "state": "idle",
        }
    ]


async def test_unknown_paths_and_methods_are_answered_in_json(bench: Bench) -> None:
    missing, missing_body = await bench.call("GET", "/api/chat/nothing")
    async with bench.http.delete("/api/chat/send", headers=BEARER) as answer:
        wrong, allowed, wrong_body = answer.status, answer.headers["Allow"], await answer.json()

    assert (missing, error_of(missing_body)[0]) == (404, "not_found")
    assert (wrong, allowed, error_of(wrong_body)[0]) == (405, "POST", "method_not_allowed")
