"""Hooks out of the workspace's files, in the whole bot: what people read when one changes or refuses something."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from agent.conversation import replies
from agent.hooks.base import Event, Go, Hook, Outcome, Point, SessionEvent
from agent.llm.messages import ToolResult
from bot.plugins import Plugins
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, call, say


def write_rules(bot: Bot, *rules: dict[str, object]) -> None:
    folder = bot.settings.workspace / "hooks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hooks.json").write_text(json.dumps({"rules": list(rules)}))


async def test_refused_message_reaches_no_model_and_its_sender_is_told_why(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([])) as bot:
        write_rules(bot, {"name": "r", "points": ["beforeInbound"], "when_regex": "4111", "reject_reason": "No cards."})
        await bot.say("4111 1111")

        await bot.post("[Message rejected: No cards.]")

    assert bot.llm.requests == []


async def test_change_of_a_file_counts_for_the_next_message(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("One."), say("Two.")])) as bot:
        await bot.say("first")
        await bot.post("One.")
        write_rules(bot, {"name": "r", "points": ["beforeOutbound"], "append": " [checked]"})
        await bot.say("second")

        await bot.post("Two. [checked]")

    assert bot.texts == ["One.", "Two. [checked]"]


async def test_reply_that_is_refused_is_replaced_by_a_notice_and_never_shown(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("the secret plan")])) as bot:
        write_rules(bot, {"name": "r", "points": ["beforeOutbound"], "when_regex": "secret", "reject_reason": "no"})
        await bot.say("tell me")

        await bot.post(replies.WITHHELD)
        await bot.rest()

    assert not any("secret plan" in text for text in bot.texts)
    assert not any("secret plan" in draft.text for draft in bot.telegram.drafts)


async def test_refused_call_is_a_result_for_the_model_which_goes_on(tmp_path: Path) -> None:
    refusing: dict[str, object] = {
        "name": "r",
        "points": ["beforeToolCall"],
        "when_regex": "forbidden",
        "reject_reason": "Not that.",
    }
    async with Bot(tmp_path, ScriptedLLM([call("echo", message="forbidden"), say("I may not.")])) as bot:
        write_rules(bot, refusing)
        await bot.say("echo it")

        await bot.post("I may not.")

    (result,) = [each for each in bot.llm.requests[-1].messages if isinstance(each, ToolResult)]
    assert "Not that." in result.text
    assert len(bot.llm.requests) == 2


async def test_a_session_is_told_of_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    seen: list[Event] = []

    async def watch(event: Event) -> Outcome:
        seen.append(event)
        return Go()

    ends = Hook("watch", frozenset({Point.SESSION_START, Point.SESSION_END}), watch, observes=True)
    plugins = Plugins(hooks=(ends,))
    llm = ScriptedLLM([say("one"), say("two"), say("three")])
    async with Bot(tmp_path, llm, plugins=plugins) as bot:
        for words, answer in (("hello", "one"), ("again", "two")):
            await bot.say(words)
            await bot.post(answer)
        bot.clock.advance(timedelta(days=8))
        await bot.core.pruner.prune()
        await bot.core.pruner.prune()
        await bot.rest()
        await bot.say("back")
        await bot.post("three")

    assert [event.point for event in seen if isinstance(event, SessionEvent)] == [
        Point.SESSION_START,
        Point.SESSION_END,
    ]
