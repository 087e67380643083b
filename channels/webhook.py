"""Other programs' chat. Posts come in through `submit` and `ask`; a reply goes to the caller who waits for it.

A reply that nobody waits for counts as delivered: it stays in the store, where `ask` finds it for a repeated post.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Protocol, assert_never

from channels.base import Accept, Accepted, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import Rejected, Unavailable
from channels.message import (
    Address,
    Attachment,
    Draft,
    EarlierMessage,
    IncomingMessage,
    OutgoingMessage,
    ReplyKind,
)
from channels.pacing import Clock, SystemClock

NAME = "webhook"
CALLER_ID = "caller"
"""All callers are one user, who is not the operator: they sign with one secret and cannot be told apart."""
MAIN_CONVERSATION = "main"
PATIENCE = timedelta(seconds=60)
MOST_WAITING = 100
_MOST_HEARD = 50


# -- how a message stands ------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Unknown:
    """No such message was taken."""


@dataclass(frozen=True, slots=True)
class Open:
    """A reply to it is still to come."""


@dataclass(frozen=True, slots=True)
class Replied:
    """This is the reply to it."""

    message: OutgoingMessage


@dataclass(frozen=True, slots=True)
class Acted:
    """It took effect without a reply of its own: a yes to a question, a stop."""


Standing = Unknown | Open | Replied | Acted


class Desk(Protocol):
    """What the channel asks of the store."""

    async def standing(self, message: IncomingMessage) -> Standing:
        """How a message of this delivery key stands; `Open` while the store cannot tell."""
        ...

    async def read(self, digest: str) -> bytes | None:
        """The content of a file that came with a message."""
        ...


# -- what a caller who waits is told ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, and what the agent sent ahead of it."""

    message: OutgoingMessage
    ahead: tuple[OutgoingMessage, ...] = ()


class Silence(StrEnum):
    """Why there is no reply. The message itself is kept in each case."""

    NOT_YET = "not yet"  # the time is over
    STOPPING = "stopping"  # the bot stops; it answers after its start
    NONE = "none"  # there is none to come


class TooManyWaiting(Exception):
    """As many callers wait as may; the message was not taken."""


class WebhookChannel:
    """The chat of other programs. A chat id is a conversation that they name."""

    name: ClassVar[str] = NAME
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=1_000_000, buttons=False, threads=False)

    def __init__(self, clock: Clock | None = None) -> None:
        self.desk: Desk | None = None  # set by who opens the store, before `run`
        self._clock = clock or SystemClock()
        self._accept: Accept | None = None
        self._timers: asyncio.TaskGroup | None = None
        self._listeners: dict[str, list[_Listener]] = {}

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth(ChannelState.STARTING if self._accept is None else ChannelState.CONNECTED)

    @property
    def waiting(self) -> int:
        """How many callers wait for a reply."""
        return sum(map(len, self._listeners.values()))

    async def run(self, accept: Accept) -> None:
        """Let posts be handed to `accept`, until cancelled; callers who wait then are told so."""
        async with asyncio.TaskGroup() as timers:
            self._accept, self._timers = accept, timers
            try:
                await asyncio.Event().wait()
            finally:
                self._accept = self._timers = None
                for listener in self._all():
                    listener.end(Silence.STOPPING)

    async def submit(self, message: IncomingMessage) -> Accepted:
        """Hand a message to the agent. Raises `Unavailable` while the channel does not run."""
        if self._accept is None:
            raise Unavailable(NAME, "the bot is starting or stopping")
        return await self._accept(message)

    async def ask(self, message: IncomingMessage) -> Reply | Silence:
        """Hand a message to the agent and wait at most `PATIENCE` for the reply to it.

        One that was taken before is not taken again: its reply is given, or waited for. Raises `TooManyWaiting`, and
        `Unavailable` like `submit`.
        """
        desk = self._opened()
        if self._accept is None:
            raise Unavailable(NAME, "the bot is starting or stopping")
        with self._listening(message) as listener:
            is_repeat = not isinstance(await desk.standing(message), Unknown)
            await self.submit(message)
            listener.forget_what_came_before()
            if self._timers is None:
                return Silence.STOPPING
            timer = self._timers.create_task(self._end_later(listener))
            try:
                return await self._reply_to(listener, desk, is_repeat=is_repeat)
            finally:
                timer.cancel()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Tell the callers who wait in this conversation; succeeds with nobody waiting."""
        for listener in self._listeners.get(message.address.chat_id, ()):
            listener.hear(message)
        return str(message.id)

    async def show(self, draft: Draft) -> str | None:
        return None  # a request has one answer

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Send it again: whoever waited before the crash waits no more."""
        return Uncertain.RESEND

    async def open_private_chat(self, user_id: str) -> str:
        if user_id != CALLER_ID:
            raise Rejected(NAME, "the webhook has no user but its callers")
        return MAIN_CONVERSATION

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return ()  # nobody else writes in these conversations

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        """A file that came in the post itself: it was kept in the store before the message was taken."""
        data = await self._opened().read(attachment.source or "")
        if data is None or len(data) > limit_bytes:
            raise Rejected(NAME, "the content of the file is no longer there, or too large")
        return data

    def _opened(self) -> Desk:
        if self.desk is None:
            raise Unavailable(NAME, "the bot is starting")
        return self.desk

    # -- waiting -------------------------------------------------------------------------------------------------
    async def _reply_to(self, listener: _Listener, desk: Desk, *, is_repeat: bool) -> Reply | Silence:
        """The reply to the message of `listener`, by its address or, where turns share a reply, as the store says.

        What took effect without a reply of its own is answered by what the conversation says next.
        """
        while True:
            listener.news.clear()
            if (own := listener.own_reply()) is not None:
                return own
            if listener.ended is Silence.STOPPING:
                return listener.ended  # the store is about to close: it is not asked any more
            match await desk.standing(listener.message):
                case Replied(message):
                    return listener.reply(message)
                case Unknown():
                    return Silence.NONE
                case Acted() if is_repeat:
                    return Silence.NONE
                case Acted():
                    if (following := listener.next_reply(self._awaited_by_others(listener))) is not None:
                        return following
                case Open():
                    pass
                case unreachable:
                    assert_never(unreachable)
            if listener.ended is not None:
                return listener.ended
            await listener.news.wait()

    async def _end_later(self, listener: _Listener) -> None:
        await self._clock.sleep(PATIENCE)
        listener.end(Silence.NOT_YET)

    @contextmanager
    def _listening(self, message: IncomingMessage) -> Iterator[_Listener]:
        if self.waiting >= MOST_WAITING:
            raise TooManyWaiting
        conversation, listener = message.address.chat_id, _Listener(message)
        self._listeners.setdefault(conversation, []).append(listener)
        try:
            yield listener
        finally:
            self._listeners[conversation].remove(listener)
            if not self._listeners[conversation]:
                del self._listeners[conversation]

    def _awaited_by_others(self, listener: _Listener) -> frozenset[str | None]:
        here = self._listeners.get(listener.message.address.chat_id, ())
        return frozenset(each.message.message_id for each in here if each is not listener)

    def _all(self) -> Iterator[_Listener]:
        for here in self._listeners.values():
            yield from here


_ENDS_WAITING = frozenset({ReplyKind.ANSWER, ReplyKind.NOTICE, ReplyKind.ERROR, ReplyKind.APPROVAL})


class _Listener:
    """What was said in a conversation since somebody began to wait there."""

    def __init__(self, message: IncomingMessage) -> None:
        self.message = message
        self.news = asyncio.Event()
        self.ended: Silence | None = None
        self._heard: deque[OutgoingMessage] = deque(maxlen=_MOST_HEARD)

    def hear(self, message: OutgoingMessage) -> None:
        self._heard.append(message)
        self.news.set()

    def end(self, silence: Silence) -> None:
        """Wait no longer than for what is there already."""
        self.ended = self.ended or silence
        self.news.set()

    def forget_what_came_before(self) -> None:
        """Keep only replies to the message itself: the others were said before it was taken."""
        own = [each for each in self._heard if self._is_own(each)]
        self._heard.clear()
        self._heard.extend(own)

    def own_reply(self) -> Reply | None:
        """What was said to the message itself."""
        found = next((each for each in self._heard if self._is_own(each) and each.kind in _ENDS_WAITING), None)
        return None if found is None else self.reply(found)

    def next_reply(self, awaited_by_others: frozenset[str | None]) -> Reply | None:
        """The first that was said and that is for nobody else who waits."""
        free = [each for each in self._heard if each.address.thread_id not in awaited_by_others]
        found = next((each for each in free if each.kind in _ENDS_WAITING), None)
        return None if found is None else self.reply(found)

    def reply(self, message: OutgoingMessage) -> Reply:
        """A reply with what the same turn sent ahead of it."""
        ahead = (each for each in self._heard if each.kind is ReplyKind.MESSAGE and each.address == message.address)
        return Reply(message, tuple(ahead))

    def _is_own(self, message: OutgoingMessage) -> bool:
        return message.address.thread_id == self.message.message_id


def replies_to(conversation: str, message_id: str) -> Address:
    """Where replies to a message go: a place of its own in its conversation, by which they are known."""
    return Address(channel=NAME, chat_id=conversation, thread_id=message_id)
