"""Messages on their way out: a fault of one costs that one alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from agent.store import outbox
from channels.base import Uncertain
from channels.message import Address, OutgoingMessage
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, say


async def test_defect_in_sending_one_message_does_not_end_the_bot(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one"), say("two")])) as bot:
        bot.telegram.faults.append(ZeroDivisionError("in the renderer"))  # type: ignore[arg-type]  # a defect
        await bot.say("first")
        await bot.rest()
        await bot.say("second")
        await bot.post("two")

    assert bot.texts == ["two"]


async def test_message_that_broke_is_not_tried_again_at_the_next_start(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one")])) as bot:
        bot.telegram.faults.append(ZeroDivisionError("in the renderer"))  # type: ignore[arg-type]  # a defect
        await bot.say("first")
        await bot.rest()
        assert await bot.store.read(outbox.unfinished) == []


async def test_message_of_a_channel_that_is_gone_waits_for_it(tmp_path: Path) -> None:
    message = OutgoingMessage(address=Address(channel="discord", chat_id="9"), text="hi")
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.store.write(partial(outbox.add, message=message, now=bot.clock.now()))
    bot = Bot(tmp_path, ScriptedLLM())
    bot.slack.uncertain = Uncertain.RESEND
    async with bot:
        await bot.rest()
        [left] = await bot.store.read(outbox.unfinished)

    assert left.message == message
