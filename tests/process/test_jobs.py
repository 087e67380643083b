"""Background jobs of the program itself: killed in the middle, looked at and cancelled from a shell beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.bot_process import on_fakes, run, started
from tests.support.fake_llm_api import Break, FakeLLMApi, Say, fake_llm_api
from tests.support.fake_telegram import FakeTelegram

DONE = "I have completed the job: 42 sheep."


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


def reports(telegram: FakeTelegram) -> list[str]:
    return [params["text"] for params in telegram.made("sendMessage") if "42 sheep" in params["text"]]


async def reached(api: FakeLLMApi, count: int) -> None:
    async with asyncio.timeout(10):
        while len(api.requests) < count:
            await asyncio.sleep(0.01)


async def test_killed_job_goes_on_at_the_next_start_and_reports_once(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    variables = on_fakes(tmp_path, telegram, api)
    api.play(Say("no plan"), Break.SILENCE)
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.push(telegram.said("/job Count the sheep"))
        await reached(api, 2)
        bot.kill_group()

    api.play(Say(DONE))
    async with started(["run"], variables, tmp_path):
        await telegram.wait(lambda: len(reports(telegram)) == 1)
        await asyncio.sleep(0.5)
    assert len(reports(telegram)) == 1


async def test_shell_beside_a_running_bot_lists_shows_and_cancels(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    variables = on_fakes(tmp_path, telegram, api)
    api.play(Say("no plan"), Break.SILENCE)
    async with started(["run"], variables, tmp_path):
        await telegram.push(telegram.said("/job Count the sheep"))
        await reached(api, 2)

        listed = await run(["job", "list"], variables, tmp_path)
        job, _, _ = listed.out.partition(" ")
        shown = await run(["job", "show", job[:8]], variables, tmp_path)
        cancelled = await run(["job", "cancel", job[:8]], variables, tmp_path)
        again = await run(["job", "cancel", job], variables, tmp_path)
        active = await run(["job", "list", "--state", "active"], variables, tmp_path)

    assert "in progress" in listed.out
    assert "Count the sheep" in shown.out
    assert (cancelled.code, cancelled.out.strip()) == (0, f"Job {job} is cancelled.")
    assert again.code == 1
    assert "already" in again.err
    assert active.out.strip() == "There are no jobs like that."
    assert not reports(telegram)


async def test_unknown_job_and_state_are_told_in_one_line(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    variables = on_fakes(tmp_path, telegram, api)
    for arguments in (["show", "abcd"], ["cancel", "nonsense"], ["list", "--state", "odd"]):
        ended = await run(["job", *arguments], variables, tmp_path)

        assert ended.code == 1
        assert len(ended.err.strip().splitlines()) == 1
        assert "Traceback" not in ended.err
