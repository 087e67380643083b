"""The agent sends by itself: to the conversation it is in, with files, once; elsewhere for the operator alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from agent.llm.messages import ToolResult
from agent.model.tool_call import JsonValue, ToolCall
from bot.web_backend import StoreBackend
from channels.base import Uncertain
from channels.errors import Unavailable
from channels.message import Address, ReplyKind
from tests.support.bot import OWNER, Bot
from tests.support.builders import make_message
from tests.support.memory_channel import MemoryChannel
from tests.support.parts import PNG
from tests.support.scripted_llm import Held, ScriptedLLM, calls, say


def sends(content: str = "look", *, id: str = "call_1", **more: JsonValue) -> ToolCall:
    return ToolCall(id, "message", {"content": content, **more})


def result(bot: Bot) -> ToolResult:
    return next(m for m in reversed(bot.llm.requests[-1].messages) if isinstance(m, ToolResult))


def put(home: Path, path: str, data: bytes) -> None:
    file = home / "workspace" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


async def test_message_with_a_file_arrives_where_it_was_asked_for_before_the_answer(tmp_path: Path) -> None:
    put(tmp_path, "charts/sales.png", PNG)
    llm = ScriptedLLM([calls(sends(attachments=["charts/sales.png"])), say("done")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("my chart, please")
        await bot.post("done")

        assert bot.texts == ["look", "done"]
        assert bot.telegram.uploads == [(Address(channel="telegram", chat_id=OWNER), "sales.png", PNG)]
        assert bot.sent[0].kind is ReplyKind.MESSAGE
        assert "handed over for delivery to this conversation" in result(bot).text


async def test_message_stays_in_its_topic(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([calls(sends()), say("done")])) as bot:
        await bot.say_in_group("please", thread_id="9")
        await bot.post("done")

    assert [message.address.thread_id for message in bot.sent] == ["9", "9"]


async def test_two_people_at_once_each_get_their_own_message(tmp_path: Path) -> None:
    first, second = Held(calls(sends("for 41"))), Held(calls(sends("for 42")))
    llm = ScriptedLLM([first, second], default=say("done"))
    async with Bot(tmp_path, llm) as bot:
        await bot.say("mine", user="41")
        await first.reached.wait()
        await bot.say("mine", user="42")
        await second.reached.wait()
        second.release.set()
        await bot.post("for 42")
        first.release.set()
        await bot.post("done", count=2)

    got = {(message.address.chat_id, message.text) for message in bot.sent if message.text != "done"}
    assert got == {("41", "for 41"), ("42", "for 42")}


@pytest.mark.parametrize("where", [{"target": "1"}, {"channel": "slack"}, {"channel": "slack", "target": "U9"}])
async def test_group_member_cannot_reach_another_chat(tmp_path: Path, where: dict[str, str]) -> None:
    llm = ScriptedLLM([calls(sends("psst", **where)), say("no way")])
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        await bot.say_in_group("tell the owner", user="41")
        await bot.post("no way")

        assert bot.texts == ["no way"]
        assert bot.slack.posted == []
        assert "Only the operator" in result(bot).text


async def test_operator_in_a_group_does_not_write_elsewhere_either(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(sends("psst", target="41")), say("no way")])
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        await bot.say_in_group("tell them")
        await bot.post("no way")

        assert bot.texts == ["no way"]
        assert "private chat" in result(bot).text


async def test_operator_is_asked_before_a_message_goes_elsewhere(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(sends("the news", channel="slack", target="U9")), say("done")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("tell U9 the news")
        question = await bot.post("the news")
        assert "U9" in question.text
        assert bot.slack.posted == []

        await bot.say("yes")
        await bot.post("done")
        posted = await bot.post("the news", on=bot.slack)

    assert posted.message.address == Address(channel="slack", chat_id="U9")


async def test_unknown_channel_is_answered_with_those_there_are(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(sends(channel="pigeon")), say("done")])
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        await bot.say("please")
        await bot.post("done")

        assert "telegram, slack" in result(bot).text


async def test_channel_alone_means_the_operators_chat_there(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(sends("on slack", channel="slack")), say("done")])
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true", "SLACK_OWNER_ID": "U1"}
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.say("please")
        await bot.post("done")
        posted = await bot.post("on slack", on=bot.slack)

    assert posted.message.address.chat_id == "U1"


async def test_crash_between_the_write_and_the_sending_delivers_once(tmp_path: Path) -> None:
    put(tmp_path, "plan.txt", b"the plan")
    held = Held(say("never said"))
    async with Bot(tmp_path, ScriptedLLM([calls(sends(attachments=["plan.txt"])), held])) as bot:
        bot.telegram.gate.clear()
        await bot.say("please")
        await held.reached.wait()  # the call has returned: the row is there, and nothing was sent
        await bot.telegram.sending.wait()
        await bot.crash()
    (tmp_path / "workspace" / "plan.txt").unlink()

    bot = Bot(tmp_path, ScriptedLLM([], default=say("done")))
    bot.telegram.uncertain = Uncertain.RESEND
    async with bot:
        await bot.post("done")
        await bot.rest()

    assert bot.texts == ["look", "done"]
    assert [name for _, name, _ in bot.telegram.uploads] == ["plan.txt"]


async def test_fault_of_the_platform_is_waited_out_and_the_file_comes_once(tmp_path: Path) -> None:
    put(tmp_path, "plan.txt", b"the plan")
    async with Bot(tmp_path, ScriptedLLM([calls(sends(attachments=["plan.txt"])), say("done")])) as bot:
        bot.telegram.faults.append(Unavailable("telegram", "away"))
        await bot.say("please")
        await bot.clock.wait_for_sleeper()
        bot.clock.advance(timedelta(minutes=2))
        await bot.post("done")

    assert [data for _, _, data in bot.telegram.uploads] == [b"the plan"]


async def test_another_persons_file_cannot_be_attached(tmp_path: Path) -> None:
    put(tmp_path, "private.txt", b"zanzibar")
    put(tmp_path, "users/telegram/41/link.txt", b"")
    (tmp_path / "workspace/users/telegram/41/link.txt").unlink()
    (tmp_path / "workspace/users/telegram/41/link.txt").symlink_to(tmp_path / "workspace" / "private.txt")
    tries = [
        sends(attachments=[path], id=f"c{number}")
        for number, path in enumerate(("private.txt", "../../../private.txt", "link.txt", "/etc/passwd", "~/x"))
    ]
    async with Bot(tmp_path, ScriptedLLM([calls(*tries), say("no")])) as bot:
        await bot.say("send me the private file", user="41")
        await bot.post("no")

    assert bot.telegram.uploads == []
    assert bot.texts == ["no"]


async def test_page_shows_what_was_sent_during_a_turn_in_its_history(tmp_path: Path) -> None:
    put(tmp_path, "chart.png", PNG)
    bot = Bot(tmp_path, ScriptedLLM([calls(sends(attachments=["chart.png"])), say("done")]))
    bot.channels["web"] = web = MemoryChannel("web")
    async with bot:
        await bot.deliver(make_message("please", user="operator", chat_id="main", channel="web"))
        await bot.post("done", on=web)
        backend = StoreBackend(bot.store, bot.clock)
        history = await backend.history(None)
        [sent] = history.turns[0].messages
        found = await backend.file(sent.files[0].digest)

    assert (sent.text, sent.files[0].filename) == ("look", "chart.png")
    assert found.data == PNG
    assert history.turns[0].response == "done"


async def test_page_does_not_serve_files_of_other_channels(tmp_path: Path) -> None:
    put(tmp_path, "users/telegram/41/mine.txt", b"mine")
    async with Bot(tmp_path, ScriptedLLM([calls(sends(attachments=["mine.txt"])), say("done")])) as bot:
        await bot.say("please", user="41")
        await bot.post("done")
        [digest] = [file.digest for message in bot.sent for file in message.files]

        with pytest.raises(Exception, match="no file"):
            await StoreBackend(bot.store, bot.clock).file(digest)
