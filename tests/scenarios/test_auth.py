"""A credential that was asked for goes to the credential store and nowhere else. (Invariant 2)"""

from datetime import timedelta
from pathlib import Path

from agent.model.tool_call import ToolCall
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say

TYPED = "typed-plum-7f3a9c2e"
VARIABLES = {"AGENT_AUTO_APPROVE_TOOLS": "true", "SECRETS_MASTER_KEY": "a master key of more than 32 characters"}


def files_with(home: Path, text: str) -> list[str]:
    return [path.name for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def asking(bot: Bot) -> None:
    bot.llm.add(calls(ToolCall("call_1", "tool_auth", {"name": "github"})))
    await bot.say("connect github")
    await bot.post("Please send the credential")


async def test_typed_credential_is_stored_and_reaches_no_model_file_or_reply(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
        await bot.say(TYPED)
        await bot.post("is stored, encrypted")
        bot.llm.add(say("fine"))
        await bot.say("thanks")
        await bot.post("fine")
        await bot.rest()

    assert len(bot.llm.requests) == 2
    assert TYPED not in repr(bot.llm.requests)
    assert files_with(tmp_path, TYPED) == []


async def test_credential_in_the_shape_of_a_key_is_taken_not_refused(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
        await bot.say("ghp_" + "a1B2c3D4e5" * 4)

        assert await bot.post("is stored, encrypted")


async def test_wait_for_a_credential_survives_a_restart(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await bot.say(TYPED)
        await bot.post("is stored, encrypted")
        await bot.rest()

    assert bot.llm.requests == []
    assert files_with(tmp_path, TYPED) == []


async def test_command_cancels_the_wait(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
        await bot.say("/ping")
        await bot.post("pong")
        bot.llm.add(say("just chat"))
        await bot.say("never mind")
        await bot.post("just chat")


async def test_credential_that_comes_too_late_is_thrown_away(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
        bot.clock.advance(timedelta(seconds=301))
        await bot.say(TYPED)
        await bot.post("has expired")
        await bot.rest()

    assert len(bot.llm.requests) == 1
    assert files_with(tmp_path, TYPED) == []


async def test_credential_is_not_asked_for_in_a_group(tmp_path: Path) -> None:
    async with Bot(
        tmp_path,
        ScriptedLLM([calls(ToolCall("call_1", "tool_auth", {"name": "github"})), say("in private, please")]),
        variables=VARIABLES,
    ) as bot:
        await bot.say_in_group("connect github")

        assert await bot.post("in private, please")


async def test_somebody_elses_message_is_not_taken_for_the_credential(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=VARIABLES) as bot:
        await asking(bot)
        bot.llm.add(say("hello Bob"))
        await bot.say("hi", user="2")

        assert await bot.post("hello Bob")
