"""Who is heard: the owner always, strangers only after they were let in."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from agent.safety.pairing import LIFETIME, Approved
from agent.store import pairings
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, say

CLOSED = {"TELEGRAM_DM_POLICY": "pairing", "TELEGRAM_GROUP_POLICY": "allowlist"}
STRANGER = "666"


async def code_for(bot: Bot, user: str) -> str:
    """The code that a stranger was told."""
    post = await bot.post(lambda post: post.message.address.chat_id == user)
    return post.text.split("**")[1]


async def approve(bot: Bot, code: str) -> object:
    return await bot.store.write(partial(pairings.approve, channel="telegram", code=code, now=bot.clock.now()))


async def test_stranger_is_told_one_code_once_and_asks_no_model(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        for text in ("hello", "hello?", "/help", "yes", "/stop"):
            await bot.say(text, user=STRANGER)
        code = await code_for(bot, STRANGER)
        await bot.rest()

    assert len(bot.texts) == 1
    assert f"pairing approve telegram {code}" in bot.texts[0]
    assert f"{LIFETIME.seconds // 60} minutes" in bot.texts[0]


async def test_approved_person_is_answered_at_once(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("Welcome!")]), variables=CLOSED) as bot:
        await bot.say("let me in", user=STRANGER)
        assert await approve(bot, await code_for(bot, STRANGER)) == Approved(STRANGER)
        await bot.say("hello", user=STRANGER)
        await bot.post("Welcome!")

    assert "let me in" not in str(bot.llm.requests[0].messages)  # what was said before counted for nothing


async def test_revoked_person_is_a_stranger_again(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        await bot.say("let me in", user=STRANGER)
        await approve(bot, await code_for(bot, STRANGER))
        await bot.store.write(partial(pairings.revoke, channel="telegram", user_id=STRANGER))
        await bot.say("hello", user=STRANGER)
        await bot.post("pairing approve", count=2)


async def test_expired_code_lets_nobody_in_and_a_new_one_is_told(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        await bot.say("let me in", user=STRANGER)
        code = await code_for(bot, STRANGER)
        bot.clock.advance(LIFETIME + timedelta(seconds=1))
        assert not isinstance(await approve(bot, code), Approved)
        await bot.say("again", user=STRANGER)
        await bot.post("pairing approve", count=2)


async def test_fourth_stranger_is_told_nothing(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        for user in ("661", "662", "663", "664"):
            await bot.say("hello", user=user)
        await bot.post("pairing approve", count=3)
        await bot.rest()

    assert "664" not in [message.address.chat_id for message in bot.sent]


@pytest.mark.parametrize("chat_type", [chat_type for chat_type in ChatType if chat_type.is_shared])
async def test_stranger_in_a_shared_chat_gets_silence(tmp_path: Path, chat_type: ChatType) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        for text in ("hello", "/help", "/stop", "/new", "yes"):
            await bot.say(text, user=STRANGER, chat_id="-5", chat_type=chat_type)
        await bot.rest()

    assert bot.texts == []


async def test_owner_is_heard_everywhere_whatever_the_policies(tmp_path: Path) -> None:
    variables = {"TELEGRAM_DM_POLICY": "allowlist", "TELEGRAM_GROUP_POLICY": "disabled"}
    async with Bot(tmp_path, ScriptedLLM([say("in private"), say("in the group")]), variables=variables) as bot:
        await bot.say("hello")
        await bot.post("in private")
        await bot.say_in_group("hello")
        await bot.post("in the group")


async def test_private_chats_are_closed_unless_told_otherwise(tmp_path: Path) -> None:
    unset = {"TELEGRAM_DM_POLICY": "", "TELEGRAM_GROUP_POLICY": "", "TELEGRAM_OWNER_ID": ""}
    async with Bot(tmp_path, ScriptedLLM(), variables=unset) as bot:
        await bot.say("hello", user="1")
        await bot.say_in_group("hello", user="1")
        post = await bot.post("pairing approve")
        await bot.rest()

    assert [post.text] == bot.texts


async def test_allowlist_lets_in_who_is_listed_and_is_silent_to_others(tmp_path: Path) -> None:
    variables = {"TELEGRAM_DM_POLICY": "allowlist", "TELEGRAM_ALLOW_FROM": "7,8"}
    async with Bot(tmp_path, ScriptedLLM([say("hi, 7")]), variables=variables) as bot:
        await bot.say("hello", user=STRANGER)
        await bot.say("hello", user="7")
        await bot.post("hi, 7")
        await bot.rest()

    assert bot.texts == ["hi, 7"]


async def test_talk_that_is_not_for_the_bot_leaves_no_trace(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say_in_group("our canary phrase", addressed=False)
        await bot.rest()

    assert bot.texts == []
    assert b"our canary phrase" not in b"".join(path.read_bytes() for path in tmp_path.glob("optimclaw.db*"))


async def test_strangers_words_are_not_kept(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables=CLOSED) as bot:
        await bot.say("our canary phrase", user=STRANGER)
        await bot.post("pairing approve")

    assert b"our canary phrase" not in b"".join(path.read_bytes() for path in tmp_path.glob("optimclaw.db*"))


async def test_same_number_on_another_platform_is_another_person(tmp_path: Path) -> None:
    from tests.support.builders import make_message

    variables = {**CLOSED, "SLACK_DM_POLICY": "pairing"}
    async with Bot(tmp_path, ScriptedLLM(), variables=variables) as bot:
        await bot.say("let me in", user=STRANGER)
        await approve(bot, await code_for(bot, STRANGER))
        await bot.deliver(make_message("hello", channel="slack", user=STRANGER, chat_id="D1"))
        await bot.post("pairing approve slack", on=bot.slack)
