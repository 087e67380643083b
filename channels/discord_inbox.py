"""From gateway events to accepted messages: in order within a chat, side by side across chats, none forgotten."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import structlog
from pydantic import JsonValue, TypeAdapter, ValidationError

from channels.base import Accept, Accepted
from channels.discord_connection import DiscordConnection, Dispatch
from channels.discord_events import (
    ChangeEvent,
    ChannelEvent,
    Interaction,
    InteractionEvent,
    InteractionType,
    Message,
    MessageEvent,
    Place,
    first_id_at,
    normalize,
    normalize_interaction,
)
from channels.discord_render import note_body
from channels.errors import ChannelError, RateLimited, Unavailable
from channels.message import IncomingMessage
from channels.pacing import Clock

log = structlog.get_logger(__name__)

Job: TypeAlias = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _LastSeen:
    message_id: int
    guild_id: str | None
    channel_type: int | None


@dataclass(slots=True)
class Memory:
    """What outlives one login: the chats that talk to us with the last message seen, and what Discord told about them.

    `text_withheld`: somebody's message came without anything in it, which happens where the content intent is missing.
    """

    last_seen: OrderedDict[str, _LastSeen] = field(default_factory=OrderedDict)
    group_chats: set[str] = field(default_factory=set)
    text_withheld: bool = False

    def note(self, message: Message, *, addressed: bool) -> None:
        """Remember that a message is handled. A chat becomes known by the first message that is meant for us."""
        known = self.last_seen.get(message.channel_id)
        if known is None and not addressed:
            return
        newest = max(int(message.id), known.message_id if known else 0)
        self.last_seen[message.channel_id] = _LastSeen(newest, message.guild_id, message.channel_type)
        self.last_seen.move_to_end(message.channel_id)
        if len(self.last_seen) > _CHATS:
            self.last_seen.popitem(last=False)

    def written(self) -> Mapping[str, str]:
        """What was last seen, for a later process: by chat `message:server:type`, the latter two empty if unknown."""
        return {
            chat_id: f"{seen.message_id}:{seen.guild_id or ''}:{self._kind_of(chat_id, seen)}"
            for chat_id, seen in self.last_seen.items()
        }

    def read(self, written: Mapping[str, str]) -> None:
        """Take over what an earlier process has `written`; what is not of that form is left out."""
        for chat_id, text in written.items():
            seen = _SEEN.fullmatch(text)
            if seen is None or not chat_id.isdecimal() or len(self.last_seen) >= _CHATS:
                log.warning("discord_last_seen_skipped", chat_id=chat_id)
                continue
            kind = int(seen[3]) if seen[3] else None
            self.last_seen.setdefault(chat_id, _LastSeen(int(seen[1]), seen[2] or None, kind))

    def _kind_of(self, chat_id: str, seen: _LastSeen) -> int | str:
        if chat_id in self.group_chats:  # announced once, to the process that is now ending
            return _GROUP_DIRECT
        return "" if seen.channel_type is None else seen.channel_type


class Inbox:
    """Reads the events of one login and hands what people wrote to `accept`.

    Work runs in `group`; a failing `accept` therefore ends the login, and `pending` says what was not accepted.
    """

    def __init__(
        self,
        connection: DiscordConnection,
        accept: Accept,
        group: asyncio.TaskGroup,
        memory: Memory,
        *,
        always_addressed: bool,
    ) -> None:
        self._connection = connection
        self._accept = accept
        self._group = group
        self._memory = memory
        self._always_addressed = always_addressed
        self._lanes: dict[str, deque[Job]] = {}
        self._open: dict[Dispatch, None] = {}
        self._behind = 0
        self._room = asyncio.Semaphore(_IN_PROGRESS)

    @property
    def pending(self) -> tuple[Dispatch, ...]:
        """The events that are not accepted yet, oldest first."""
        return tuple(self._open)

    @property
    def is_behind(self) -> bool:
        """Whether some of what `catch_up` has to hand in is not accepted yet."""
        return self._behind > 0

    async def take(self, event: Dispatch) -> None:
        """Start the handling of one event; waits while too many are in progress."""
        try:
            match event.name:
                case "MESSAGE_CREATE":
                    await self._take_message(MessageEvent.model_validate_json(event.frame).d, event)
                case "MESSAGE_UPDATE":
                    if ChangeEvent.model_validate_json(event.frame).d.is_edit:
                        await self._take_edit(MessageEvent.model_validate_json(event.frame).d, event)
                case "INTERACTION_CREATE":
                    await self._take_interaction(InteractionEvent.model_validate_json(event.frame).d, event)
                case "CHANNEL_CREATE":
                    channel = ChannelEvent.model_validate_json(event.frame).d
                    if channel.type == _GROUP_DIRECT:
                        self._memory.group_chats.add(channel.id)
        except ValidationError as error:
            log.warning("discord_event_skipped", kind=event.name, faults=error.error_count())

    async def catch_up(self, clock: Clock) -> None:
        """Hand in what known chats got while we were away, if it is recent; what was handled before does no harm again.

        For a new session only: a resumed one is sent what it missed. A chat whose history cannot be had is tried again
        after the others, for some seconds: nothing else is read meanwhile.
        """
        oldest = clock.now() - _CATCH_UP_AGE
        self._behind += 1
        chats = list(self._memory.last_seen.items())
        for pause in _CATCH_UP_PAUSES:
            if chats:
                await clock.sleep(pause)
                chats = [
                    (chat_id, seen) for chat_id, seen in chats if not await self._catch_up_in(chat_id, seen, oldest)
                ]
        self._behind -= 1

    async def _catch_up_in(self, chat_id: str, seen: _LastSeen, oldest: datetime) -> bool:
        """Whether one chat needs no further try."""
        try:
            answer = await self._connection.call(
                "GET",
                "/channels/{channel_id}/messages?after={after}&limit={limit}",
                channel_id=chat_id,
                after=str(max(seen.message_id, first_id_at(oldest))),
                limit=str(_CATCH_UP_COUNT),
            )
            missed = _HISTORY.validate_python(answer)
        except (ChannelError, ValidationError) as error:
            log.warning("discord_catch_up_failed", chat_id=chat_id, error=type(error).__name__)
            return not isinstance(error, RateLimited | Unavailable)
        if len(missed) == _CATCH_UP_COUNT:
            log.warning("discord_catch_up_cut", chat_id=chat_id, messages=len(missed))
        for message in sorted(missed, key=lambda message: int(message.id)):
            if message.timestamp >= oldest:
                # The history leaves out where it is from.
                where = {"guild_id": seen.guild_id, "channel_type": seen.channel_type}
                await self._take_message(message.model_copy(update=where), None)
        return True

    def _place(self, guild_id: str | None, channel_id: str) -> Place:
        place = self._connection.place(guild_id, channel_id)
        return replace(place, channel_type=_GROUP_DIRECT) if channel_id in self._memory.group_chats else place

    async def _take_message(self, message: Message, event: Dispatch | None) -> None:
        place = self._place(message.guild_id, message.channel_id)
        incoming = normalize(message, place, always_addressed=self._always_addressed)
        if message.guild_id is not None and message.is_from_person:
            if message.is_blank:
                self._memory.text_withheld = True
            elif incoming is not None and not incoming.metadata.addressed_to_bot:
                self._memory.text_withheld = False
        if incoming is None:
            self._memory.note(message, addressed=False)
            return

        await self._enqueue(message.channel_id, partial(self._hand_in, message, incoming, event), event)

    async def _take_edit(self, message: Message, event: Dispatch) -> None:
        place = self._place(message.guild_id, message.channel_id)
        incoming = normalize(message, place, always_addressed=self._always_addressed, is_edit=True)
        if incoming is not None:
            await self._enqueue(message.channel_id, partial(self._accepted, incoming, event), event)

    async def _hand_in(self, message: Message, incoming: IncomingMessage, event: Dispatch | None) -> None:
        await self._accepted(incoming, event)
        self._memory.note(message, addressed=incoming.metadata.addressed_to_bot)

    async def _take_interaction(self, interaction: Interaction, event: Dispatch) -> None:
        if interaction.type not in _ACKNOWLEDGEMENTS:
            return
        # Discord API, interactions: the first answer is due within three seconds, whatever becomes of the press.
        acknowledged = self._group.create_task(self._acknowledge(interaction))
        place = self._place(interaction.guild_id, interaction.channel_id)
        incoming = normalize_interaction(interaction, place)
        if incoming is None:
            return

        job = partial(self._press, interaction, incoming, event, acknowledged)
        await self._enqueue(f"interaction:{interaction.id}", job, event)

    async def _press(
        self, interaction: Interaction, incoming: IncomingMessage, event: Dispatch, acknowledged: asyncio.Task[bool]
    ) -> None:
        accepted = await self._accepted(incoming, event)
        if await acknowledged:
            await self._conclude(interaction, accepted.note)

    async def _accepted(self, incoming: IncomingMessage, event: Dispatch | None) -> Accepted:
        accepted = await self._accept(incoming)
        if event is None:
            self._behind -= 1
        else:
            self._open.pop(event, None)
        return accepted

    async def _enqueue(self, lane: str, job: Job, event: Dispatch | None) -> None:
        if event is None:
            self._behind += 1
        else:
            self._open[event] = None
        await self._room.acquire()
        waiting = self._lanes.get(lane)
        if waiting is None:
            self._lanes[lane] = deque((job,))
            self._group.create_task(self._drain(lane))
        else:
            waiting.append(job)

    async def _drain(self, lane: str) -> None:
        waiting = self._lanes[lane]
        while waiting:
            await waiting[0]()
            waiting.popleft()
            self._room.release()
        del self._lanes[lane]

    async def _acknowledge(self, interaction: Interaction) -> bool:
        """Whether Discord took it. If not (too late, or answered before), the press counts all the same."""
        path = "/interactions/{webhook_id}/{webhook_token}/callback"
        body = _ACKNOWLEDGEMENTS[interaction.type]
        try:
            await self._connection.call("POST", path, body, webhook_id=interaction.id, webhook_token=interaction.token)
        except ChannelError as error:
            log.info("discord_interaction_not_acknowledged", error=type(error).__name__)
            return False
        return True

    async def _conclude(self, interaction: Interaction, note: str | None) -> None:
        """Show the note to the one who pressed; take away the "thinking" that a command has left."""
        path, ids = _FOLLOW_UP, {"webhook_id": interaction.application_id, "webhook_token": interaction.token}
        body: JsonValue = note_body(note) if note else None
        try:
            match interaction.type, note:
                case InteractionType.COMMAND, None:
                    await self._connection.call("DELETE", f"{path}/messages/@original", **ids)
                case InteractionType.COMMAND, _:
                    await self._connection.call("PATCH", f"{path}/messages/@original", body, **ids)
                case _, str():
                    await self._connection.call("POST", path, body, **ids)
        except ChannelError as error:
            log.info("discord_interaction_note_lost", error=type(error).__name__)


_SEEN = re.compile(r"(\d{1,20}):(\d{0,20}):(\d{0,3})", re.ASCII)

# Messages in progress; when full, reading waits, and so does Discord.
_IN_PROGRESS = 256
# Chats remembered for catching up, and how much and how old what is caught up with may be.
_CHATS = 100
_CATCH_UP_COUNT = 100  # Discord API, channel messages: the most that one call gives
_CATCH_UP_AGE = timedelta(hours=1)
_CATCH_UP_PAUSES = tuple(timedelta(seconds=seconds) for seconds in (0, 2, 5))

# Discord API, channel types: GROUP_DM.
_GROUP_DIRECT = 3
# Discord API, interaction responses: DEFERRED_UPDATE_MESSAGE, and DEFERRED_CHANNEL_MESSAGE_WITH_SOURCE that only the
# caller sees.
_ACKNOWLEDGEMENTS: dict[int, JsonValue] = {
    InteractionType.COMPONENT: {"type": 6},
    InteractionType.COMMAND: {"type": 5, "data": {"flags": 1 << 6}},
}
_FOLLOW_UP = "/webhooks/{webhook_id}/{webhook_token}"
_HISTORY: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
