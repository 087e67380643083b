"""The program is started, stopped, killed and started again; people see each answer once."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.bot_process import environment, on_fakes, run, started
from tests.support.fake_llm_api import Break, Call, FakeLLMApi, Say, fake_llm_api
from tests.support.fake_telegram import TOKEN, FakeTelegram


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


def answers(telegram: FakeTelegram) -> list[str]:
    return [params["text"] for params in telegram.made("sendMessage")]


async def reached(api: FakeLLMApi) -> None:
    async with asyncio.timeout(10):
        await api.reached.wait()


async def test_answer_arrives_and_sigterm_ends_the_program_quickly_and_well(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    api.play(Say("Good day!"))
    async with started(["run"], on_fakes(tmp_path, telegram, api), tmp_path) as bot:
        await telegram.push(telegram.said("hello"))
        await telegram.wait(lambda: answers(telegram) == ["Good day!"])
        asked = time.monotonic()
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert time.monotonic() - asked < 3
    assert "Traceback" not in ended.err
    assert "Good day!" not in ended.err + ended.out  # no message text in logs
    assert [json.loads(line)["event"] for line in ended.err.splitlines()][-1] == "bot_stopped"


async def test_program_without_a_model_key_runs_and_ends_well(tmp_path: Path, telegram: FakeTelegram) -> None:
    channel = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_BASE_URL": telegram.base_url, "TELEGRAM_OWNER_ID": "7"}
    async with started(["run"], environment(tmp_path, **channel), tmp_path) as bot:
        await telegram.wait(lambda: telegram.made("setMyCommands") != [])
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err


async def test_sigterm_lets_a_running_turn_finish(tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi) -> None:
    api.play(
        Say(calls=(Call("shell", json.dumps({"command": "echo begun >> begun.txt; sleep 1; echo done"})),)),
        Say("Done."),
    )
    variables = on_fakes(tmp_path, telegram, api, AGENT_AUTO_APPROVE_TOOLS="true", SANDBOX_BACKEND="off")
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.push(telegram.said("hello"))
        async with asyncio.timeout(10):
            while not await asyncio.to_thread(lambda: list(tmp_path.rglob("begun.txt"))):
                await asyncio.sleep(0.02)
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert answers(telegram) == ["Done."]


async def test_killed_turn_is_answered_once_after_the_restart(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    """A message a platform was told we have is answered. Invariants 3 and 11."""
    api.play(Break.SILENCE, Say("After all."))
    variables = on_fakes(tmp_path, telegram, api)
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.push(telegram.said("hello"))
        await reached(api)
        bot.kill_group()
        assert (await bot.end()).code == -signal.SIGKILL
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.wait(lambda: bool(answers(telegram)))
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert answers(telegram) == ["After all."]


async def test_tool_of_a_killed_turn_is_not_run_again(tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi) -> None:
    """Invariant 5."""
    api.play(
        Say(calls=(Call("shell", json.dumps({"command": "echo ran >> ran.txt; sleep 30"})),)), Say("It may have run.")
    )
    variables = on_fakes(tmp_path, telegram, api, AGENT_AUTO_APPROVE_TOOLS="true", SANDBOX_BACKEND="off")
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.push(telegram.said("hello"))
        async with asyncio.timeout(10):
            while not (found := await asyncio.to_thread(lambda: list(tmp_path.rglob("ran.txt")))):
                await asyncio.sleep(0.02)
        bot.kill_group()
        await bot.end()
    async with started(["run"], variables, tmp_path):
        await telegram.wait(lambda: answers(telegram) == ["It may have run."])

    assert found[0].read_text() == "ran\n"
    assert "not known" in json.dumps(api.requests[-1].body["messages"])


async def test_second_program_on_the_same_home_is_refused_clearly(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    variables = on_fakes(tmp_path, telegram, api)
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.wait(lambda: bool(telegram.offsets))
        second = await run(["run"], variables, tmp_path)
        assert bot.is_running

    assert second.code == 1
    assert "already running with this home" in second.err
    assert "Traceback" not in second.err
    assert second.out == ""


async def test_every_fault_of_the_configuration_is_told_at_once_without_its_secrets(tmp_path: Path) -> None:
    wrong = environment(
        tmp_path,
        TELEGRAM_DM_POLICY="everybody",
        HEARTBEAT_QUIET_START="25",
        LLM_MAX_RETRIES="many",
        SLACK_BOT_TOKEN="xoxb-1-2-hunter2",
    )

    ended = await run(["run"], wrong, tmp_path)

    assert ended.code == 2
    for name in ("TELEGRAM_DM_POLICY", "HEARTBEAT_QUIET_START", "LLM_MAX_RETRIES", "SLACK_APP_TOKEN"):
        assert name in ended.err
    assert "hunter2" not in ended.err
    assert "Traceback" not in ended.err


async def test_one_message_is_answered_on_standard_output(tmp_path: Path, api: FakeLLMApi) -> None:
    api.play(Say("42"))
    model = {"OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "loopback", "LLM_MODEL": "fake-model-1"}

    ended = await run(["chat", "-m", "6 times 7?"], environment(tmp_path, **model), tmp_path)

    assert (ended.code, ended.out) == (0, "42\n"), ended.err


async def test_one_message_that_cannot_be_answered_exits_with_one(tmp_path: Path, api: FakeLLMApi) -> None:
    api.play(*[Break.DROP] * 3)
    model = {"OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "loopback", "LLM_MODEL": "fake-model-1"}

    ended = await run(["chat", "-m", "hello"], environment(tmp_path, **model, LLM_MAX_RETRIES="0"), tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "language model is not answering" in ended.err
    assert "Traceback" not in ended.err


async def test_restart_by_the_operator_begins_anew_and_loses_nothing(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    """Once by its command, once by its tool; a stranger cannot."""
    api.play(
        Say(calls=(Call("restart", json.dumps({"delay_secs": 1})),)),
        Say("Back in a moment."),
        Say("Here again."),
    )
    async with started(["run"], on_fakes(tmp_path, telegram, api, TELEGRAM_DM_POLICY="open"), tmp_path) as bot:
        await telegram.push(telegram.said("/restart", chat_id=8, user_id=8))
        await telegram.wait(lambda: len(answers(telegram)) == 1)
        await telegram.push(telegram.said("/restart"))
        await telegram.wait(lambda: len(telegram.made("setMyCommands")) == 2)
        await telegram.push(telegram.said("take up the new settings"))
        await telegram.wait(lambda: len(telegram.made("setMyCommands")) == 3)
        await telegram.push(telegram.said("hello"))
        await telegram.wait(lambda: "Here again." in answers(telegram))
        assert bot.is_running
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert "Only the operator" in answers(telegram)[0]
    assert "Restarting" in answers(telegram)[1]
    assert answers(telegram)[2:] == ["Back in a moment.", "Here again."]
