"""Another program sets a routine off over a real socket; who cannot sign learns nothing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from bot.routines import is_signed, secret_of, webhook_route
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say
from tests.support.web_bench import Bench, running_bench

SECRET = SecretStr("the operator's long random text")


def model(request: CompletionRequest) -> Completion:
    if request.unattended:
        return say("The build broke.")
    if isinstance(request.messages[-1], ToolResult):
        return say(request.messages[-1].text)
    made = {"name": "build", "prompt": "what broke?", "trigger_type": "webhook", "webhook_path": "ci-build"}
    return calls(ToolCall("c1", "routine_create", made))


@asynccontextmanager
async def listening(home: Path) -> AsyncIterator[tuple[Bot, Bench]]:
    """A bot with a webhook routine, and the web server in front of it."""
    variables = {"WEBHOOK_SECRET": SECRET.get_secret_value()}
    async with Bot(home, ScriptedLLM(default=model), routines=True, variables=variables) as bot:
        assert bot.core.routines is not None
        route = webhook_route(bot.store, bot.clock, bot.core.routines.engine, SECRET)
        async with running_bench(routes=[route]) as bench:
            await bot.say("make it")
            await bot.rest()
            yield bot, bench


def signature(path: str, body: bytes) -> dict[str, str]:
    made = hmac.new(secret_of(path, SECRET).encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={made}"}


async def post(bench: Bench, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    async with bench.http.post(path, data=body, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_signed_post_runs_the_routine_with_what_it_says(tmp_path: Path) -> None:
    body = b'{"job": "site", "state": "red"}'
    async with listening(tmp_path) as (bot, bench):
        taken = await post(bench, "/webhook/CI-build", body, signature("ci-build", body))
        found = await bot.post("The build broke.")
        again = await post(bench, "/webhook/ci-build", body, signature("ci-build", body))

    assert taken == (202, '{"fired": true}')
    assert found.message.address.chat_id == "1"
    run = next(request for request in bot.llm.requests if request.unattended)
    assert '"state": "red"' in run.messages[-1].text
    assert again[0] == 202
    assert '"fired": false' in again[1]  # it rests


async def test_who_cannot_sign_cannot_tell_what_is_there(tmp_path: Path) -> None:
    body = b"{}"
    wrong = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
    async with listening(tmp_path) as (bot, bench):
        answers = {
            await post(bench, "/webhook/ci-build", body, {}),
            await post(bench, "/webhook/ci-build", body, wrong),
            await post(bench, "/webhook/ci-build", body + b" ", signature("ci-build", body)),
            await post(bench, "/webhook/ci-build", body, signature("other", body)),
            await post(bench, "/webhook/other", body, {}),
            await post(bench, "/webhook/other", body, signature("other", body)),
        }
        await bot.rest()

    assert {status for status, _ in answers} == {404}
    assert len(answers) == 1
    assert not any(request.unattended for request in bot.llm.requests)


async def test_the_secret_is_in_no_chat_and_no_row(tmp_path: Path) -> None:
    async with listening(tmp_path) as (bot, _):
        said = "\n".join(bot.texts)

    assert secret_of("ci-build", SECRET) not in said
    assert "routine webhook" in said
    rows = b"".join(path.read_bytes() for path in tmp_path.glob("optimclaw.db*"))
    assert secret_of("ci-build", SECRET).encode() not in rows
    assert SECRET.get_secret_value().encode() not in rows


@pytest.mark.parametrize("user", ["1", "42"])
async def test_only_the_operator_makes_them_and_only_with_a_secret(tmp_path: Path, user: str) -> None:
    variables = {} if user == "1" else {"WEBHOOK_SECRET": SECRET.get_secret_value()}
    async with Bot(tmp_path, ScriptedLLM(default=model), variables=variables) as bot:
        await bot.say("make it", user=user)
        post = await bot.post("No routine was made")

    assert ("WEBHOOK_SECRET" if user == "1" else "Only the operator") in post.text


@given(body=st.binary(max_size=200), header=st.text(max_size=80))
def test_any_header_is_a_signature_or_not(body: bytes, header: str) -> None:
    assert is_signed("ci-build", body, {"X-Hub-Signature-256": header}, SECRET) is (
        header.strip().lower() == signature("ci-build", body)["X-Hub-Signature-256"]
    )
