"""The webhook's channel by itself: whom a reply reaches, and what it does where nobody waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from channels.base import Accepted, ChannelState, Uncertain
from channels.errors import Rejected, Unavailable
from channels.message import Attachment, AttachmentKind, IncomingMessage, OutgoingMessage, ReplyKind
from channels.webhook import (
    CALLER_ID,
    PATIENCE,
    Acted,
    Open,
    Reply,
    Silence,
    Standing,
    Unknown,
    WebhookChannel,
    replies_to,
)
from tests.support.builders import NOON, make_message
from tests.support.fake_clock import FakeClock
from tests.support.parts import Parts


@dataclass
class FakeDesk:
    """Says how a message stands: as `before` until it was taken, then as `after`."""

    before: Standing = field(default_factory=Unknown)
    after: Standing = field(default_factory=Open)
    files: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0

    async def standing(self, message: IncomingMessage) -> Standing:
        self.asked += 1
        return self.before if self.asked == 1 else self.after

    async def read(self, digest: str) -> bytes | None:
        return self.files.get(digest)


def message(message_id: str = "m", conversation: str = "main") -> IncomingMessage:
    made = make_message(channel="webhook", chat_id=conversation, user=CALLER_ID, message_id=message_id)
    return made.model_copy(update={"reply_address": replies_to(conversation, message_id)})


def reply(
    to: str, text: str = "said", kind: ReplyKind = ReplyKind.ANSWER, conversation: str = "main"
) -> OutgoingMessage:
    return OutgoingMessage(address=replies_to(conversation, to), text=text, kind=kind)


@dataclass
class Running:
    """A channel that runs, and what it handed over."""

    channel: WebhookChannel
    clock: FakeClock
    taken: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, message: IncomingMessage) -> Accepted:
        self.taken.set()
        return Accepted()

    async def say(self, *messages: OutgoingMessage) -> None:
        for each in messages:
            await self.channel.send(each, Parts())


async def ask(desk: FakeDesk, *said: OutgoingMessage, times_out: bool = False, stops: bool = False) -> Reply | Silence:
    """What a caller is told after all that was said."""
    clock = FakeClock()
    running = Running(WebhookChannel(clock), clock)
    running.channel.desk = desk
    async with asyncio.TaskGroup() as group:
        runs = group.create_task(running.channel.run(running.accept))
        await asyncio.sleep(0)
        asks = group.create_task(running.channel.ask(message()))
        await running.taken.wait()
        await clock.wait_for_due(NOON + PATIENCE)
        await running.say(*said)
        if times_out:
            clock.advance(PATIENCE)
        if stops:
            runs.cancel()
        told = await asks
        runs.cancel()
    assert running.channel.waiting == 0
    return told


async def test_reply_to_the_message_ends_the_waiting_with_what_was_sent_ahead_of_it() -> None:
    ahead, answer = reply("m", "look", ReplyKind.MESSAGE), reply("m")

    assert await ask(FakeDesk(), ahead, answer) == Reply(answer, (ahead,))


@pytest.mark.parametrize("kind", [ReplyKind.MESSAGE, ReplyKind.AMENDMENT, ReplyKind.FINDING])
async def test_what_ends_nothing_does_not_end_the_waiting(kind: ReplyKind) -> None:
    assert await ask(FakeDesk(), reply("m", kind=kind), times_out=True) is Silence.NOT_YET


async def test_reply_to_another_message_and_in_another_conversation_is_not_given() -> None:
    others = reply("other"), reply("m", conversation="elsewhere")

    assert await ask(FakeDesk(), *others, times_out=True) is Silence.NOT_YET


async def test_what_acts_without_a_reply_is_answered_by_what_is_said_next() -> None:
    following = reply("earlier", "done")

    assert await ask(FakeDesk(after=Acted()), following) == Reply(following)


async def test_repeat_of_what_acted_is_not_answered_by_what_is_said_next() -> None:
    assert await repeated(Acted()) is Silence.NONE


async def repeated(standing: Standing) -> Reply | Silence:
    clock = FakeClock()
    running = Running(WebhookChannel(clock), clock)
    running.channel.desk = FakeDesk(before=standing, after=standing)
    async with asyncio.TaskGroup() as group:
        runs = group.create_task(running.channel.run(running.accept))
        await asyncio.sleep(0)
        told = await running.channel.ask(message())
        runs.cancel()
    return told


async def test_caller_is_told_that_the_bot_stops() -> None:
    assert await ask(FakeDesk(), stops=True) is Silence.STOPPING


async def test_reply_that_nobody_waits_for_counts_as_delivered() -> None:
    answer = reply("m")

    assert await WebhookChannel().send(answer, Parts()) == str(answer.id)
    assert await WebhookChannel().settle(answer, Parts()) is Uncertain.RESEND


async def test_nothing_is_taken_before_it_runs() -> None:
    channel = WebhookChannel()
    channel.desk = FakeDesk()

    with pytest.raises(Unavailable):
        await channel.submit(message())
    with pytest.raises(Unavailable):
        await channel.ask(message())
    assert channel.health.state is ChannelState.STARTING
    assert channel.waiting == 0


async def test_only_its_callers_have_a_chat() -> None:
    assert await WebhookChannel().open_private_chat(CALLER_ID) == "main"
    with pytest.raises(Rejected):
        await WebhookChannel().open_private_chat("operator")


async def test_file_is_read_if_it_is_there_and_small_enough() -> None:
    channel = WebhookChannel()
    channel.desk = FakeDesk(files={"d": b"12345"})
    there = Attachment(id="1", kind=AttachmentKind.DOCUMENT, source="d")

    assert await channel.fetch(there, 5) == b"12345"
    with pytest.raises(Rejected):
        await channel.fetch(there, 4)
    with pytest.raises(Rejected):
        await channel.fetch(there.model_copy(update={"source": None}), 5)
