"""What a message does while a turn runs."""

from pathlib import Path

import pytest

from agent.llm.messages import UserText
from tests.support.bot import Bot
from tests.support.scripted_llm import Held, ScriptedLLM, call, say


async def test_steering_message_joins_the_running_turn(tmp_path: Path) -> None:
    held = Held(call("echo", message="hi"))
    llm = ScriptedLLM([held, say("done both")])
    async with Bot(tmp_path, llm, variables={"AGENT_BUSY_MODE": "steer"}) as bot:
        await bot.say("first")
        await held.reached.wait()
        await bot.say("also this")
        held.release.set()
        await bot.post("done both")
        await bot.rest()

    last = llm.requests[1].messages[-1]
    assert isinstance(last, UserText)
    assert last.text.endswith("also this")
    assert len(llm.requests) == 2


async def test_steering_message_that_comes_too_late_is_a_turn_of_its_own(tmp_path: Path) -> None:
    held = Held(say("one"))
    llm = ScriptedLLM([held, say("two")])
    async with Bot(tmp_path, llm, variables={"AGENT_BUSY_MODE": "steer"}) as bot:
        await bot.say("first")
        await held.reached.wait()
        await bot.say("second")
        held.release.set()
        await bot.post("one")
        await bot.post("two")


async def test_steered_turn_killed_in_the_middle_keeps_both_messages(tmp_path: Path) -> None:
    first, second = Held(call("echo", message="hi")), Held(say("never"))
    variables = {"AGENT_BUSY_MODE": "steer"}
    async with Bot(tmp_path, ScriptedLLM([first, second]), variables=variables) as bot:
        await bot.say("first")
        await first.reached.wait()
        await bot.say("also this")
        first.release.set()
        await second.reached.wait()
    llm = ScriptedLLM([say("done both")])
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.post("done both")
        await bot.rest()

    texts = [message.text for message in llm.requests[0].messages if isinstance(message, UserText)]
    assert [text.rsplit("\n", 1)[-1] for text in texts] == ["first", "also this"]


async def test_interrupting_message_ends_the_turn_and_takes_its_place(tmp_path: Path) -> None:
    held = Held(say("never"))
    llm = ScriptedLLM([held, say("instead")])
    async with Bot(tmp_path, llm, variables={"AGENT_BUSY_MODE": "interrupt"}) as bot:
        await bot.say("first")
        await held.reached.wait()
        await bot.say("do this instead")
        await bot.post("Stopped")
        await bot.post("instead")

    assert "never" not in "".join(bot.texts)


async def test_mode_can_be_chosen_for_one_conversation(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with Bot(tmp_path, ScriptedLLM([held, say("instead")])) as bot:
        await bot.say("/busy interrupt")
        await bot.post("end the running turn")
        await bot.say("first")
        await held.reached.wait()
        await bot.say("second")
        await bot.post("instead")


@pytest.mark.parametrize("count", [300])
async def test_burst_of_messages_is_served_whole_and_in_order(tmp_path: Path, count: int) -> None:
    llm = ScriptedLLM(default=lambda request: say("ok"))
    async with Bot(tmp_path, llm) as bot:
        for number in range(count):
            await bot.say(f"m{number}.")
        await bot.rest()

    told = "\n".join(message.text for message in llm.requests[-1].messages if isinstance(message, UserText))
    places = [told.index(f"m{number}.") for number in range(count)]
    assert places == sorted(places)
