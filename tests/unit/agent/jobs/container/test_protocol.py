"""Both sides of the protocol agree, and nothing that comes through the door breaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.jobs.container.assignment import Account, Assignment, Bounds
from agent.jobs.container.limits import MAX_BODY_BYTES, SOCKET_NAME, TOOLS
from agent.jobs.container.protocol import Brief, ModelAsk, answer_of, completion_of, from_wire, to_wire
from agent.llm.base import Completion, FinishReason
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall
from agent.safety.layer import SafetyLayer
from bot.container_door import ContainerDoor
from tests.support.containers import Life
from tests.support.scripted_llm import ScriptedLLM, say

FOLDER = "1:2"
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
tool_calls = st.builds(ToolCall, words, words, st.dictionaries(words, values, max_size=3), st.none() | words)
messages = st.one_of(
    st.builds(UserText, words),
    st.builds(AssistantTurn, words, st.lists(tool_calls, max_size=2).map(tuple)),
    st.builds(ToolResult, words, words, words, st.booleans()),
)


@given(messages)
def test_messages_come_over_as_they_were(message: UserText | AssistantTurn | ToolResult) -> None:
    ask = ModelAsk(messages=(to_wire(message),))
    (found,) = ModelAsk.model_validate_json(ask.model_dump_json()).messages
    assert from_wire(found) == message


@given(words, st.sampled_from(FinishReason), st.lists(tool_calls, max_size=2))
def test_answers_come_over_without_what_they_cost(text: str, finish: FinishReason, calls: list[ToolCall]) -> None:
    completion = Completion(text, finish, tuple(calls), model="dearest")
    answer = answer_of(completion)
    assert "dearest" not in answer.model_dump_json()
    assert completion_of(type(answer).model_validate_json(answer.model_dump_json())) == Completion(
        text, finish, tuple(calls)
    )


def make_assignment(
    llm: ScriptedLLM | None = None, life: Life | None = None, bounds: Bounds | None = None
) -> Assignment:
    life = life or Life()

    async def say_nothing(text: str) -> None:
        return None

    return Assignment(
        Brief(title="t", description="d", system="s", tools=TOOLS, max_iterations=50, seconds=600),
        FOLDER,
        ReasoningContext("s", (), ()),
        life,
        llm or ScriptedLLM(default=say("hm")),
        Account(None, "account", False),
        SafetyLayer(),
        say_nothing,
        life.pulse,
        lambda tool: timedelta(0),
        bounds or Bounds(),
    )


@asynccontextmanager
async def calling(door: ContainerDoor) -> AsyncIterator[aiohttp.ClientSession]:
    path = str(await door.folder() / SOCKET_NAME)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=path)) as session:
        yield session
    await door.close()


PATHS = ("/llm", "/events", "/status", "/result")
bodies = st.one_of(
    st.binary(max_size=300),
    values.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [
            b"[" * 20_000,
            b'{"kind": "message", "text": "\\ud800"}',
            b'{"messages": [{"role": "assistant", "calls": [{"id": "a", "name": "b", "arguments": {"x": NaN}}]}]}',
            b'{"messages": [{"role": "assistant", "text": ""}]}',
            b'{"messages": [{"role": "tool", "call_id": "a", "name": "b", "text": "c"}]}',
            b'{"iteration": 1e400}',
            b'{"success": true, "text": "\\u0000"}',
        ]
    ),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), bodies)
def test_any_bytes_get_an_answer_and_no_fault_of_ours(path: str, body: bytes) -> None:
    async def main() -> int:
        door, assignment = ContainerDoor("test:"), make_assignment()
        headers = {"Authorization": f"Bearer {assignment.token}"}
        with door.admitting(assignment):
            async with calling(door) as session:
                async with session.get("http://x/job", headers={**headers, "X-Folder": FOLDER}) as answer:
                    assert answer.status == 200
                async with session.post(f"http://x{path}", data=body, headers=headers) as answer:
                    await answer.read()
                    return answer.status

    assert asyncio.run(main()) in (200, 400, 413)


@settings(max_examples=30)
@given(
    st.sampled_from(("GET", "POST", "PUT", "HEAD")),
    st.sampled_from((*PATHS, "/job", "/prompts", "/", "/../x")),
    st.from_regex("[!-~]{0,50}", fullmatch=True),
)
def test_without_a_token_nothing_is_open(method: str, path: str, token: str) -> None:
    async def main() -> int:
        door, assignment = ContainerDoor("test:"), make_assignment()
        headers = {"Authorization": f"Bearer {token}"}
        with door.admitting(assignment):
            async with calling(door) as session, session.request(method, f"http://x{path}", headers=headers) as answer:
                await answer.read()
                assert not assignment.has_begun
                return answer.status

    assert asyncio.run(main()) in (401, 404, 405)


async def test_a_token_is_no_good_once_its_job_is_over() -> None:
    door, assignment = ContainerDoor("test:"), make_assignment()
    headers = {"Authorization": f"Bearer {assignment.token}"}
    async with calling(door) as session:
        with door.admitting(assignment):
            pass
        async with session.get("http://x/job", headers=headers) as answer:
            assert answer.status == 401


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    door, assignment = ContainerDoor("test:"), make_assignment()
    headers = {"Authorization": f"Bearer {assignment.token}", "X-Folder": FOLDER}
    with door.admitting(assignment):
        async with calling(door) as session:
            async with session.get("http://x/job", headers=headers):
                pass
            async with session.post("http://x/events", data=b"x" * (MAX_BODY_BYTES + 1), headers=headers) as answer:
                assert answer.status == 429
    assert assignment.is_over


async def test_nothing_is_served_before_the_job_was_asked_for() -> None:
    door, assignment = ContainerDoor("test:"), make_assignment()
    headers = {"Authorization": f"Bearer {assignment.token}"}
    with door.admitting(assignment):
        async with calling(door) as session, session.get("http://x/prompts", headers=headers) as answer:
            assert answer.status == 409
