"""Another program posts to the program itself: wired, signed, and answered after it was killed in between."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.process.bot_process import PATIENCE_SECONDS, environment, run, started
from tests.support.fake_llm_api import Break, FakeLLMApi, Say, fake_llm_api
from tests.support.webhook_bench import SECRET, signed


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


def variables_of(home: Path, api: FakeLLMApi, port: int, **more: str) -> dict[str, str]:
    model = {"OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "loopback", "LLM_MODEL": "fake-model-1"}
    return environment(home, **model, **{"WEB_ENABLED": "true", "WEB_PORT": str(port)} | more)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def post(port: int, **body: object) -> tuple[int, dict[str, object]]:
    """One post, as soon as the program takes it."""
    data = json.dumps(body).encode()
    async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        while True:
            try:
                async with http.post("/webhook", data=data, headers=signed(data)) as answer:
                    if answer.status != 503:
                        return answer.status, await answer.json()
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def test_post_that_was_taken_is_answered_after_a_kill(tmp_path: Path, api: FakeLLMApi) -> None:
    """Invariants 3 and 11."""
    port = free_port()
    variables = variables_of(tmp_path, api, port, WEBHOOK_SECRET=SECRET)
    api.play(Break.SILENCE, Say("After the start."))
    async with started(["run"], variables, tmp_path) as bot:
        taken = await post(port, content="hello", id="x")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await api.reached.wait()
        bot.kill_group()
    async with started(["run"], variables, tmp_path):
        answered = await post(port, content="hello", id="x", wait_for_response=True)

    assert taken == (202, {"message_id": "x", "thread_id": "main"})
    assert (answered[0], answered[1]["response"]) == (200, "After the start.")


async def test_nothing_takes_posts_without_a_secret(tmp_path: Path, api: FakeLLMApi) -> None:
    port = free_port()
    async with started(["run"], variables_of(tmp_path, api, port, WEBHOOK_SECRET=" "), tmp_path):
        status, _ = await post(port, content="hello")

    assert status == 404


@pytest.mark.parametrize(
    ("more", "grade"),
    [
        ({"WEBHOOK_SECRET": SECRET}, "ok"),
        ({"WEBHOOK_SECRET": "short"}, "warn"),
        ({"WEBHOOK_SECRET": SECRET, "WEB_ENABLED": "false"}, "warn"),
        ({}, None),
    ],
)
async def test_check_tells_how_it_stands(
    tmp_path: Path, api: FakeLLMApi, more: dict[str, str], grade: str | None
) -> None:
    ended = await run(["check", "--json"], variables_of(tmp_path, api, 0, **more), tmp_path)

    grades = {line["name"]: line["grade"] for line in json.loads(ended.out)}
    assert grades.get("webhook") == grade
    assert SECRET not in ended.out + ended.err
