"""Discord: messages come through the gateway, answers go out as Markdown in messages of up to 2000 characters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import ClassVar, assert_never

import structlog

from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.discord_connection import (
    DiscordConnection,
    Dispatch,
    Lost,
    Ready,
    Refused,
    Session,
)
from channels.discord_drafts import Drafts
from channels.discord_events import NAME
from channels.discord_files import read_upload, send_file
from channels.discord_history import thread_before
from channels.discord_inbox import Inbox, Memory
from channels.discord_render import MAX_TEXT, Body, nonce_of, patch_body, plain_body, post_body, render_parts
from channels.download import check_size
from channels.errors import ChannelError, RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Attachment, Choice, Draft, EarlierMessage, IncomingMessage, OutgoingMessage, ReplyKind
from channels.pacing import Clock, SystemClock
from channels.settings import DiscordSettings, GroupTrigger

log = structlog.get_logger(__name__)


class DiscordChannel:
    """One bot account on Discord. Threads there are channels of their own, so an address has no thread id."""

    name: ClassVar[str] = NAME
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=MAX_TEXT, buttons=True, threads=False)

    def __init__(self, settings: DiscordSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._health = ChannelHealth(ChannelState.STARTING)
        self._connection: DiscordConnection | None = None
        self._online = asyncio.Event()
        self._session: Session | None = None
        self._memory = Memory()
        self._drafts = Drafts(self._clock)

    @property
    def health(self) -> ChannelHealth:
        """The state of the gateway connection, and whether texts in servers are withheld from us."""
        if self._health.state is ChannelState.CONNECTED and self._memory.text_withheld:
            return ChannelHealth(ChannelState.CONNECTED, _WITHHELD)
        return self._health

    @property
    def last_seen(self) -> Mapping[str, str]:
        """As `channels.base.CatchesUp` says: Discord tells a new session nothing of what it missed."""
        return self._memory.written()

    def resume_after(self, last_seen: Mapping[str, str]) -> None:
        """Catch up, at the next connection, with recent messages after these."""
        self._memory.read(last_seen)

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled. If `accept` fails, its exception comes out; the next run gets the event again."""
        self._health = ChannelHealth(ChannelState.STARTING)
        try:
            async with DiscordConnection(self._settings, self._clock) as connection:
                await self._receive(connection, accept)
        except asyncio.CancelledError:
            self._session = None
            self._health = ChannelHealth(ChannelState.OFF, "stopped")
            raise
        except (Unauthorized, Unavailable) as fault:
            self._health = _health_after(fault)
            raise
        except ExceptionGroup as faults:
            first = faults.exceptions[0]
            self._health = _health_after(first)
            raise first from None
        finally:
            self._connection = None
            self._online.clear()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Send the parts of one message that have not arrived; only the first is a reply to the question."""
        connection = await self._connected()
        parts = render_parts(message.text)
        count = len(parts) + len(message.files)
        if not count:
            raise Rejected(NAME, "an empty message")
        on_show = await self._drafts.finish(message.id)
        platform_id = delivery.sent[-1] if delivery.sent else ""
        try:
            for number in range(len(delivery.sent), count):
                if number >= len(parts):
                    file = message.files[number - len(parts)]
                    platform_id = await send_file(connection, message, number, file, delivery)
                elif number == 0 and message.edits and on_show == (message.edits, parts[0]) and not message.choices:
                    platform_id = message.edits
                else:
                    platform_id = await _send_part(connection, message, parts, number)
                if number < count - 1:
                    await delivery.record(platform_id)
        except RateLimited as error:
            self._drafts.quieten(message.address.chat_id, error.retry_after)
            raise
        return platform_id

    async def show(self, draft: Draft) -> str | None:
        """The typing sign, or the text so far in one message."""
        connection = self._connection
        if connection is None:
            return draft.platform_id
        shown = draft if self._settings.streaming else draft.model_copy(update={"text": ""})
        return await self._drafts.show(connection, shown)

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Send again: an edit may be repeated, and a nonce that Discord saw some minutes ago posts nothing new."""
        return Uncertain.RESEND

    async def open_private_chat(self, user_id: str) -> str:
        """The id of the direct channel with a user, which Discord makes if there is none."""
        if not user_id.isdecimal():
            raise Rejected(NAME, "a user id is a number")
        connection = await self._connected()
        return await connection.open_direct(user_id)

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """What was said in the thread before a message, as `Channel` says."""
        connection = self._connection
        if connection is None:
            return ()
        try:
            async with asyncio.timeout(_EARLIER.total_seconds()):
                return await thread_before(connection, message, limit)
        except (ChannelError, TimeoutError) as error:
            log.warning("discord_thread_not_read", error=type(error).__name__)
            return ()

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        """Read an uploaded file as `Channel` says. Its address works for about a day."""
        check_size(NAME, attachment.size_bytes, limit_bytes)
        return await read_upload(attachment, self._settings.api_base_url, limit_bytes)

    async def _receive(self, connection: DiscordConnection, accept: Accept) -> None:
        async with asyncio.TaskGroup() as group:
            inbox = Inbox(
                connection,
                accept,
                group,
                self._memory,
                always_addressed=self._settings.group_trigger is GroupTrigger.ALL,
            )
            try:
                async with aclosing(connection.events(self._session)) as events:
                    async for event in events:
                        match event:
                            case Ready(resumed):
                                self._health = ChannelHealth(ChannelState.CONNECTED)
                                self._connection = connection
                                self._online.set()
                                log.info("discord_connected", resumed=resumed)
                                if not resumed:
                                    await inbox.catch_up(self._clock)
                            case Lost(reason):
                                self._health = ChannelHealth(ChannelState.DEGRADED, reason)
                            case Dispatch():
                                await inbox.take(event)
                            case unreachable:
                                assert_never(unreachable)
            finally:
                self._session = None if inbox.is_behind else connection.session_before(inbox.pending)

    async def _connected(self) -> DiscordConnection:
        try:
            async with asyncio.timeout(_WAIT.total_seconds()):
                while self._connection is None:
                    await self._online.wait()
        except TimeoutError:
            raise Unavailable(NAME, self._health.reason or "not connected") from None
        return self._connection


def _health_after(fault: Exception) -> ChannelHealth:
    match fault:
        case Unauthorized():
            return ChannelHealth(ChannelState.OFF, fault.cure)
        case Unavailable():
            return ChannelHealth(ChannelState.DEGRADED, fault.reason)
        case _:
            return ChannelHealth(ChannelState.DEGRADED, "messages could not be taken over")


async def _send_part(connection: DiscordConnection, message: OutgoingMessage, parts: Sequence[str], number: int) -> str:
    choices = message.choices if number == len(parts) - 1 else ()
    if number == 0 and message.edits is not None and await _edit(connection, message, parts[0], choices):
        return message.edits
    reply_to = message.reply_to if number == 0 else None
    body = post_body(parts[number], nonce_of(message.id, number), reply_to, choices)
    return await _create(connection, message.address.chat_id, body)


async def _edit(
    connection: DiscordConnection, message: OutgoingMessage, content: str, choices: Sequence[Choice]
) -> bool:
    """Whether the earlier message was edited or, for an amendment, need not be because it is gone."""
    assert message.edits is not None
    try:
        await connection.edit(message.address.chat_id, message.edits, patch_body(content, choices))
    except Refused as refusal:
        if refusal.code not in _GONE:
            raise
        return message.kind is ReplyKind.AMENDMENT
    return True


async def _create(connection: DiscordConnection, chat_id: str, body: Body) -> str:
    """Post a message, without its decorations if Discord finds these invalid."""
    try:
        return await connection.create(chat_id, body)
    except Refused as refusal:
        plain = plain_body(body)
        if refusal.code not in _INVALID or plain == body:
            raise
        log.warning("discord_message_sent_plain", code=refusal.code)
        return await connection.create(chat_id, plain)


# How long a sender waits for a login before the outbox tries later.
_WAIT = timedelta(seconds=30)
_EARLIER = timedelta(seconds=3)
# Discord API, error codes: unknown channel, unknown message.
_GONE = frozenset({10003, 10008})
# Discord API, error codes: invalid form body; no reply without permission to read the history.
_INVALID = frozenset({50035, 160002})

_WITHHELD = (
    "messages in servers arrive without their text: switch on the Message Content Intent (Developer Portal, your "
    "application, Bot); direct messages, mentions and replies still work"
)
