"""A group gets a new id: what belongs to it goes there, whichever way and however often the bot learns of it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from agent.store import conversations
from channels.errors import Migrated
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.scripted_llm import Held, ScriptedLLM, calls, say

OLD, NEW = "-100", "-1001"


async def say_there(bot: Bot, text: str, user: str = "1") -> None:
    await bot.say(text, user=user, chat_id=NEW, chat_type=ChatType.SUPERGROUP)


async def move(bot: Bot) -> int:
    move_chat = partial(conversations.move_chat, channel="telegram", old_chat=OLD, new_chat=NEW)
    return await bot.store.write(move_chat)


def echo(number: int) -> ToolCall:
    return ToolCall(f"call_{number}", "shell", {"command": "echo ran >> proof.txt"})


async def test_refused_reply_goes_to_the_new_id_once_and_the_conversation_goes_on_there(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        bot.telegram.faults.append(Migrated("telegram", OLD, NEW))
        await bot.say_in_group("first")
        await bot.post("one")
        await say_there(bot, "second")
        await bot.post("two")

    assert [message.address.chat_id for message in bot.sent] == [NEW, NEW]
    assert bot.sent[0].reply_to is None  # messages are numbered anew there
    assert "first" in str(llm.requests[1].messages)


async def test_reply_arrives_though_somebody_wrote_at_the_new_id_before(tmp_path: Path) -> None:
    held = Held(say("slow"))
    llm = ScriptedLLM([held, say("quick"), say("later")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("first")
        await held.reached.wait()
        await say_there(bot, "second")
        await bot.post("quick")
        bot.telegram.faults.append(Migrated("telegram", OLD, NEW))
        held.release.set()
        await bot.post("slow")
        await say_there(bot, "third")
        await bot.post("later")

    assert [message.address.chat_id for message in bot.sent] == [NEW, NEW, NEW]
    assert "second" in str(llm.requests[2].messages)


async def test_message_of_the_old_id_is_not_edited_at_the_new_one(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(echo(1)), say("done")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("first")
        question = await bot.post("Approval needed")
        bot.telegram.faults.append(Migrated("telegram", OLD, NEW))
        await bot.say_in_group("yes")
        await bot.post("done")
        await bot.rest()

    assert question.edits == []


async def test_always_said_at_both_ids_is_one(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(echo(1)), say("one"), calls(echo(2)), say("two"), calls(echo(3)), say("three")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("first")
        await bot.post("Approval needed")
        await bot.say_in_group("always")
        await bot.post("one")
        await say_there(bot, "second")
        await bot.post("Approval needed", count=2)
        await say_there(bot, "always")
        await bot.post("two")
        await bot.rest()
        await move(bot)
        await move(bot)
        await say_there(bot, "third")
        await bot.post("three")

    assert isinstance(llm.requests[-1].messages[-1], ToolResult)


async def test_group_on_the_list_stays_on_it_under_its_new_id(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one"), say("two")])
    variables = {"TELEGRAM_GROUPS": OLD}
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.say_in_group("first", user="5")
        await bot.post("one")
        await say_there(bot, "not yet", user="5")
        await asyncio.gather(move(bot), move(bot))
        await say_there(bot, "second", user="5")
        await bot.post("two")
    async with Bot(tmp_path, ScriptedLLM([say("three")]), variables=variables) as bot:
        await say_there(bot, "third", user="5")
        await bot.post("three")

    assert "not yet" not in str(llm.requests)
