"""The terminal chat on a piped terminal, and the one-shot chat."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from channels.base import Accepted
from channels.console import ConsoleChannel, Terminal
from channels.errors import Rejected, Unavailable
from channels.message import Address, ChatType, Draft, IncomingMessage, OutgoingMessage, ReplyKind, StepState, ToolStep
from channels.one_shot import OneShotChannel
from tests.support.parts import Parts, note

PLACE = Address(channel="console", chat_id="terminal")


def reply(text: str, kind: ReplyKind = ReplyKind.ANSWER) -> OutgoingMessage:
    return OutgoingMessage(address=PLACE, text=text, kind=kind)


@dataclass
class Desk:
    """A person at a terminal: keys go in, the screen's text comes out."""

    channel: ConsoleChannel
    keys: PipeInput
    screen: StringIO
    history: Path
    quit: asyncio.Event
    messages: asyncio.Queue[IncomingMessage] = field(default_factory=asyncio.Queue)
    secrets: set[str] = field(default_factory=set)
    is_down: bool = False

    async def accept(self, message: IncomingMessage) -> Accepted:
        self.messages.put_nowait(message)
        if self.is_down:
            raise Unavailable("console", "down")
        return Accepted(None if message.text in self.secrets else uuid4())

    async def types(self, keys: str) -> IncomingMessage:
        self.keys.send_text(keys)
        return await self.heard()

    async def heard(self) -> IncomingMessage:
        async with asyncio.timeout(5):
            return await self.messages.get()

    async def says(self, text: str, kind: ReplyKind = ReplyKind.ANSWER) -> None:
        await self.channel.send(reply(text, kind), Parts())


@asynccontextmanager
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    screen, done, history = StringIO(), asyncio.Event(), tmp_path / "home" / "history"
    with create_pipe_input() as keys:
        output = Vt100_Output(screen, lambda: Size(rows=40, columns=100), term="xterm")
        channel = ConsoleChannel(history, done.set, terminal=Terminal(keys, output))
        sitting = Desk(channel, keys, screen, history, done)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(channel.run(sitting.accept))
            yield sitting
            task.cancel()


async def test_a_line_is_a_private_message_of_the_operator(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        first = await sitting.types("hello there\r")
        second = await sitting.types("hello there\r")

    assert (first.text, first.address, first.sender.user_id) == ("hello there", PLACE, "operator")
    assert first.metadata.chat_type is ChatType.PRIVATE
    assert first.delivery_key != second.delivery_key


async def test_empty_lines_are_not_sent_and_pasted_lines_stay_together(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        message = await sitting.types("  \r\r\x1b[200~one\ntwo\x1b[201~\r")

    assert message.text == "one\ntwo"


async def test_an_answer_is_printed(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.types("hi\r")
        await sitting.says("The answer is **42**.\n\n```\nrun me\n```")

        assert "42" in sitting.screen.getvalue()
        assert "run me" in sitting.screen.getvalue()


async def test_what_is_said_before_the_terminal_is_ready_waits_for_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.says("early")

        assert "early" in sitting.screen.getvalue()


@pytest.mark.parametrize("key", ["\x1b", "\x03"])
async def test_escape_and_ctrl_c_stop_the_turn_that_runs(tmp_path: Path, key: str) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.types("hi\r")
        await sitting.channel.show(Draft(id=uuid4(), address=PLACE, text="so far"))

        assert (await sitting.types(key)).text == "/stop"
        assert not sitting.quit.is_set()


async def test_ctrl_c_without_a_turn_clears_the_line_and_sends_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        message = await sitting.types("wrong\x03right\r")

    assert message.text == "right"


async def test_the_answer_ends_the_turn_for_the_stop_key(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.types("hi\r")
        await sitting.channel.show(Draft(id=uuid4(), address=PLACE))
        await sitting.says("the reply to a command", ReplyKind.NOTICE)
        assert (await sitting.types("\x03")).text == "/stop"

        await sitting.says("done")

        assert (await sitting.types("\x03next\r")).text == "next"


@pytest.mark.parametrize("keys", ["\x04", "/quit\r", "/exit\r"])
async def test_leaving_calls_quit_and_sends_nothing(tmp_path: Path, keys: str) -> None:
    async with desk(tmp_path) as sitting:
        sitting.keys.send_text(keys)
        async with asyncio.timeout(5):
            await sitting.quit.wait()

        assert sitting.messages.empty()


async def test_a_notice_in_place_of_the_answer_ends_the_turn(tmp_path: Path) -> None:
    stopped = reply("Stopped.", ReplyKind.NOTICE)
    async with desk(tmp_path) as sitting:
        await sitting.types("hi\r")
        await sitting.channel.show(Draft(id=stopped.id, address=PLACE, text="so fa"))
        await sitting.channel.send(stopped, Parts())

        assert (await sitting.types("\x03next\r")).text == "next"


async def test_lines_are_kept_in_a_file_that_only_the_operator_can_read(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.types("first\r")
        await sitting.types("second\r")

    assert "+first" in sitting.history.read_text()
    assert stat.S_IMODE(sitting.history.stat().st_mode) == 0o600


async def test_a_line_that_no_thread_has_taken_is_not_kept(tmp_path: Path) -> None:
    """Invariant 2: a secret that was asked for is stored nowhere but the credential store."""
    async with desk(tmp_path) as sitting:
        sitting.secrets.add("canary-4711")
        await sitting.types("canary-4711\r")
        await sitting.types("after\r")
        await sitting.types("end\r")

    assert "canary" not in sitting.history.read_text()
    assert "+after" in sitting.history.read_text()


async def test_lines_of_an_earlier_run_come_back(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        await sitting.types("first\r")
        sitting.keys.send_text("\x04")
        await sitting.quit.wait()

    async with desk(tmp_path) as sitting:
        message = await sitting.types("\x1b[A\r")

    assert message.text == "first"


async def test_a_refused_line_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as sitting:
        sitting.is_down = True
        await sitting.types("lost\r")
        sitting.is_down = False
        await sitting.types("again\r")

        assert "nothing was kept" in sitting.screen.getvalue()


async def test_ended_tool_steps_are_printed(tmp_path: Path) -> None:
    step = ToolStep(address=PLACE, call_id="1", name="web_search", state=StepState.STARTED)
    async with desk(tmp_path) as sitting:
        await sitting.types("hi\r")
        await sitting.channel.show_step(step)
        await sitting.channel.show_step(step.model_copy(update={"state": StepState.FAILED, "detail": "no \x1b[2J net"}))

        assert "✕ web_search  no ⟨U+001B⟩[2J net" in sitting.screen.getvalue()


async def test_a_service_without_a_terminal_goes_on_at_the_end_of_its_input(tmp_path: Path) -> None:
    done = asyncio.Event()
    channel = ConsoleChannel(tmp_path / "history", done.set, is_interactive=False)

    async def accept(message: IncomingMessage) -> Accepted:
        raise AssertionError("nothing is read")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(accept))
        await channel.send(reply("to nobody"), Parts())
        assert not done.is_set()
        assert not task.done()
        task.cancel()


async def test_the_terminal_has_no_user_but_the_operator(tmp_path: Path) -> None:
    channel = ConsoleChannel(tmp_path / "history", lambda: None)

    assert await channel.open_private_chat("operator") == "terminal"
    with pytest.raises(Rejected):
        await channel.open_private_chat("7")


@dataclass(frozen=True)
class Shot:
    """What a one-shot chat said and how it ended."""

    out: str
    err: str
    is_answered: bool
    message: IncomingMessage


async def shoot(*replies: OutgoingMessage, note: str | None = None) -> Shot:
    out, err, heard = StringIO(), StringIO(), asyncio.Queue[IncomingMessage]()
    channel = OneShotChannel("what is up?", out, err)

    async def accept(message: IncomingMessage) -> Accepted:
        heard.put_nowait(message)
        return Accepted(uuid4(), note)

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(accept))
        message = await heard.get()
        for each in replies:
            await channel.send(each, Parts())
        is_answered = await channel.result()
        task.cancel()
    return Shot(out.getvalue(), err.getvalue(), is_answered, message)


async def test_one_shot_prints_the_answer_plain_and_alone() -> None:
    shot = await shoot(reply("a finding", ReplyKind.FINDING), reply("**42** \x1b[2J"), reply("more"))

    assert shot.out == "**42** ⟨U+001B⟩[2J\n"
    assert shot.err == ""
    assert shot.is_answered
    assert (shot.message.text, shot.message.address) == ("what is up?", PLACE)


async def test_one_shot_prints_what_is_sent_on_the_way_and_goes_on_to_the_answer() -> None:
    message = reply("halfway", ReplyKind.MESSAGE).model_copy(update={"files": (note("plan.txt", "12345").file,)})
    shot = await shoot(message, reply("done"))

    assert shot.out == "halfway\n\nFile: `plan.txt` (5 bytes)\ndone\n"
    assert shot.is_answered


async def test_one_shot_ends_with_the_reply_to_a_command() -> None:
    shot = await shoot(reply("pong", ReplyKind.NOTICE))

    assert (shot.out, shot.is_answered) == ("pong\n", True)


async def test_one_shot_fails_on_an_error() -> None:
    shot = await shoot(reply("The model is away.", ReplyKind.ERROR))

    assert not shot.is_answered
    assert (shot.out, shot.err) == ("", "The model is away.\n")


async def test_one_shot_prints_a_question_and_how_to_answer_it() -> None:
    shot = await shoot(reply("Approval needed: shell\nrm -rf build", ReplyKind.APPROVAL))

    assert not shot.is_answered
    assert "rm -rf build" in shot.out
    assert "optimclaw chat" in shot.out
