"""A person changes a message that was sent before: it never starts anything, and is never taken for something new."""

from __future__ import annotations

from pathlib import Path

from agent.llm.messages import UserText
from agent.model.tool_call import ToolCall
from channels.message import IncomingMessage
from tests.support.bot import Bot
from tests.support.builders import make_message
from tests.support.scripted_llm import Held, ScriptedLLM, calls, say

EDITED = "the user edited an earlier message"


def edited(message: IncomingMessage, text: str) -> IncomingMessage:
    """The same message as a platform reports it after a change."""
    metadata = message.metadata.model_copy(update={"is_edit": True})
    return message.model_copy(update={"text": text, "metadata": metadata})


def told(llm: ScriptedLLM) -> str:
    return "\n".join(message.text for message in llm.requests[-1].messages if isinstance(message, UserText))


async def test_edit_of_a_message_being_answered_is_told_with_the_next_one(tmp_path: Path) -> None:
    held = Held(say("one"))
    llm = ScriptedLLM([held, say("two")])
    async with Bot(tmp_path, llm) as bot:
        message = make_message("a table for four")
        await bot.deliver(message)
        await held.reached.wait()
        await bot.deliver(edited(message, "a table for six"))
        held.release.set()
        await bot.post("one")
        await bot.rest()
        assert len(llm.requests) == 1

        await bot.say("thanks")
        await bot.post("two")

    assert f"[{EDITED}; it now reads:]\na table for six" in told(llm)


async def test_change_that_leaves_the_words_as_they_were_is_not_told(tmp_path: Path) -> None:
    held = Held(say("one"))
    llm = ScriptedLLM([held, say("two")])
    async with Bot(tmp_path, llm) as bot:
        message = make_message("book https://a.example")
        await bot.deliver(message)
        await held.reached.wait()
        await bot.deliver(edited(message, message.text))
        held.release.set()
        await bot.post("one")
        await bot.say("thanks")
        await bot.post("two")

    assert EDITED not in told(llm)


async def test_edit_that_goes_back_to_the_first_words_is_told(tmp_path: Path) -> None:
    held = Held(say("one"))
    llm = ScriptedLLM([held, say("two")])
    async with Bot(tmp_path, llm) as bot:
        message = make_message("a table for four")
        await bot.deliver(message)
        await held.reached.wait()
        for text in ("a table for six", message.text):
            await bot.deliver(edited(message, text))
        held.release.set()
        await bot.post("one")
        await bot.say("thanks")
        await bot.post("two")

    assert told(llm).rindex("it now reads:]\na table for four") > told(llm).rindex("a table for six")


async def test_strangers_edit_earns_no_pairing_code(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables={"TELEGRAM_DM_POLICY": "pairing"}) as bot:
        await bot.deliver(edited(make_message("hello", user="666", chat_id="666"), "hello?"))
        await bot.rest()

    assert bot.texts == []


async def test_edit_is_not_taken_for_the_credential_that_is_awaited(tmp_path: Path) -> None:
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true", "SECRETS_MASTER_KEY": "a master key of more than 32 characters"}
    llm = ScriptedLLM([say("hello"), calls(ToolCall("call_1", "tool_auth", {"name": "github"}))])
    async with Bot(tmp_path, llm, variables=variables) as bot:
        message = make_message("hi there")
        await bot.deliver(message)
        await bot.post("hello")
        await bot.say("connect github")
        await bot.post("Please send the credential")
        await bot.deliver(edited(message, "hi there!"))
        await bot.say("typed-plum-7f3a9c2e")
        await bot.post("is stored, encrypted")
        await bot.rest()

    assert len([text for text in bot.texts if "is stored, encrypted" in text]) == 1
    assert len(llm.requests) == 2
