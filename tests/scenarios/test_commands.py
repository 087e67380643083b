"""Commands that say something about the conversation, and about who may be in it."""

from pathlib import Path

import pytest

from agent.store import pairings
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.builders import NOON
from tests.support.scripted_llm import ScriptedLLM, call, say


async def test_why_shows_the_last_turns_steps_approvals_and_cost(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([call("shell", command="touch x"), say("done")])) as bot:
        await bot.say("please")
        await bot.post("Approval needed")
        await bot.say("yes")
        await bot.post("done")
        await bot.say("/why")
        post = await bot.post("Turn 1: complete")

    assert "shell: ok" in post.text
    assert "asked about shell: approved" in post.text
    assert "scripted:scripted-1: 2 calls" in post.text


async def test_status_tells_the_operator_what_a_connected_channel_does_not_get(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        bot.telegram.advice = "getMe reports privacy mode"
        await bot.say("/status")

        assert "telegram: connected (getMe reports privacy mode)" in (await bot.post("up since")).text


async def test_usage_is_told_to_the_operator_in_private_only(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one")])) as bot:
        await bot.say("hello")
        await bot.post("one")
        await bot.say("/usage", user="2")
        await bot.post("told to the operator, in private")
        await bot.say_in_group("/usage")
        await bot.post("told to the operator, in private", count=2)
        await bot.say("/usage 7")

        assert "1 call," in (await bot.post("Spent in the last 7 days")).text


async def test_correction_reaches_the_next_turn(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("at noon"), say("at 14:00 UTC")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("when?")
        await bot.post("at noon")
        await bot.say("/expected It should have used UTC")
        await bot.post("Noted")
        await bot.say("again")
        await bot.post("14:00")

    assert "It should have used UTC" in llm.requests[1].messages[-1].text


async def test_reasoning_shows_what_was_said_between_the_steps(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([call("echo", text="First I look.", message="x"), say("done")])) as bot:
        await bot.say("please")
        await bot.post("done")
        for command in ("/reasoning", "/reasoning 1", "/reasoning all"):
            await bot.say(command)
        assert await bot.post("First I look.", count=3)
        await bot.say("/reasoning 7")
        assert await bot.post("No reasoning was recorded")


async def test_plan_is_a_turn_and_asks_to_change_nothing(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("1. Look")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("/plan move the house")
        await bot.post("1. Look")

    assert "change nothing until I approve" in llm.requests[0].messages[0].text


@pytest.mark.parametrize("typed", ["approve slack {code}", "/approve slack {code}"])
async def test_operator_lets_somebody_in_from_the_chat(tmp_path: Path, typed: str) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        code = await bot.store.write(lambda tx: pairings.request(tx, "slack", "U777", "Eve", NOON))
        await bot.say(typed.format(code=code), user="2")
        await bot.post("Only the operator")
        await bot.say(typed.format(code=code), chat_id="-5", chat_type=ChatType.GROUP)
        await bot.post("Only the operator", count=2)
        await bot.say(typed.format(code=code))
        await bot.post("U777 may talk to me now")

        assert await bot.store.read(lambda tx: pairings.is_paired(tx, "slack", "U777"))
