"""The page's chat. Messages come in through `submit`; replies and live steps go out as numbered events.

The store keeps the durable copy of everything said here: an event that reaches nobody is no loss.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, assert_never

from channels.base import Accept, Accepted, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import Rejected, Unavailable
from channels.files import SHOWN_IMAGES, size_words
from channels.message import (
    Attachment,
    Choice,
    Draft,
    EarlierMessage,
    IncomingMessage,
    OutgoingFile,
    OutgoingMessage,
    ReplyKind,
    StepState,
    ToolStep,
)

OPERATOR_ID = "operator"
MAIN_CONVERSATION = "main"
EVENTS_LOST = "events_lost"
FILES_PATH = "/api/chat/files"


class EventName(StrEnum):
    """What an event tells the page."""

    RESPONSE = "response"
    STREAM_CHUNK = "stream_chunk"
    THINKING = "thinking"
    TOOL_STARTED = "tool_started"
    TOOL_COMPLETED = "tool_completed"
    TOOL_RESULT = "tool_result"
    STATUS = "status"
    JOB_STARTED = "job_started"
    JOB_MESSAGE = "job_message"
    JOB_STATUS = "job_status"
    JOB_RESULT = "job_result"
    APPROVAL_NEEDED = "approval_needed"
    AUTH_REQUIRED = "auth_required"
    AUTH_COMPLETED = "auth_completed"
    ERROR = "error"
    HEARTBEAT = "heartbeat"


_DRAFTS = (EventName.THINKING, EventName.STREAM_CHUNK)


@dataclass(frozen=True, slots=True)
class PageEvent:
    """One event. `data` is JSON without line breaks; `user` is the only one who may see it."""

    id: int
    name: EventName
    user: str
    data: str


class TooManyStreams(Exception):
    """The event hub serves as many pages as it may."""


class Subscription:
    """The events of one connected page, bounded: a page that reads too slowly loses them and is told so."""

    def __init__(self, user: str, capacity: int) -> None:
        self.user = user
        self._capacity = capacity
        self._pending: OrderedDict[int, PageEvent] = OrderedDict()
        self._ready = asyncio.Event()
        self._is_closed = False

    def offer(self, event: PageEvent, replaces: int | None = None) -> None:
        """Queue an event, in place of the one that it makes obsolete. Never waits."""
        if replaces is not None:
            self._pending.pop(replaces, None)
        if len(self._pending) >= self._capacity:
            self._pending.clear()
            event = _lost(event.id, self.user)
        self._pending[event.id] = event
        self._ready.set()

    def close(self) -> None:
        """End the stream; what is queued is dropped."""
        self._is_closed = True
        self._ready.set()

    async def next(self) -> PageEvent | None:
        """The next event, or None when the stream has ended. Cancelling it loses nothing."""
        await self._ready.wait()
        if self._is_closed:
            return None
        _, event = self._pending.popitem(last=False)
        if not self._pending:
            self._ready.clear()
        return event


class EventHub:
    """Hands events to every connected page of their user and keeps the newest for pages that come back.

    Ids increase, also over a restart: they begin at the present millisecond. An event with a `key` replaces the
    buffered one of the same key, so that an answer shown while it is written takes one place, whatever its length.
    """

    def __init__(
        self, *, first_id: int | None = None, capacity: int = 256, queue_capacity: int = 256, max_streams: int = 100
    ) -> None:
        self._next_id = time.time_ns() // 1_000_000 if first_id is None else first_id
        self._forgotten_up_to = self._next_id - 1
        self._capacity = capacity
        self._queue_capacity = queue_capacity
        self._max_streams = max_streams
        self._buffer: OrderedDict[int, PageEvent] = OrderedDict()
        self._ids_by_key: dict[str, int] = {}
        self._keys_by_id: dict[int, str] = {}
        self._streams: set[Subscription] = set()

    @property
    def is_watched(self) -> bool:
        """Whether any page is connected."""
        return bool(self._streams)

    @property
    def is_full(self) -> bool:
        """Whether a further page would be refused."""
        return len(self._streams) >= self._max_streams

    def newest(self, key: str) -> EventName | None:
        """The kind of the buffered event with this key."""
        event_id = self._ids_by_key.get(key)
        return None if event_id is None else self._buffer[event_id].name

    def publish(self, name: EventName, data: Mapping[str, object], *, user: str, key: str | None = None) -> int:
        """Hand an event out and return its id."""
        event = PageEvent(self._next_id, name, user, json.dumps(data, ensure_ascii=False))
        self._next_id += 1
        replaces = self._remember(event, key)
        for stream in self._streams:
            if stream.user == user:
                stream.offer(event, replaces)
        return event.id

    @contextmanager
    def subscribe(self, user: str, last_id: int | None = None) -> Iterator[Subscription]:
        """The events from now on or, for a page that comes back, those after `last_id`.

        Where some of those are gone, a `status` event says so instead of them: the page reads the history again.
        Raises TooManyStreams.
        """
        if self.is_full:
            raise TooManyStreams
        stream = Subscription(user, self._queue_capacity)
        if last_id is not None:
            self._replay(stream, last_id)
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        """End every stream."""
        for stream in self._streams:
            stream.close()

    def _replay(self, stream: Subscription, last_id: int) -> None:
        if not self._forgotten_up_to <= last_id < self._next_id:
            stream.offer(_lost(self._next_id - 1, stream.user))
            return
        for event in self._buffer.values():
            if event.id > last_id and event.user == stream.user:
                stream.offer(event)

    def _remember(self, event: PageEvent, key: str | None) -> int | None:
        replaces = self._ids_by_key.get(key) if key is not None else None
        if replaces is not None:
            self._forget(replaces)
        if key is not None:
            self._ids_by_key[key] = event.id
            self._keys_by_id[event.id] = key
        self._buffer[event.id] = event
        if len(self._buffer) > self._capacity:
            oldest = next(iter(self._buffer))
            self._forgotten_up_to = oldest
            self._forget(oldest)
        return replaces

    def _forget(self, event_id: int) -> None:
        del self._buffer[event_id]
        key = self._keys_by_id.pop(event_id, None)
        if key is not None:
            del self._ids_by_key[key]


class WebChannel:
    """The chat of the page. Its one user is the operator; a chat id is a conversation of the page."""

    name: ClassVar[str] = "web"
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=1_000_000, buttons=True, threads=False)

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub
        self._accept: Accept | None = None

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth(ChannelState.STARTING if self._accept is None else ChannelState.CONNECTED)

    async def run(self, accept: Accept) -> None:
        """Let `submit` hand messages to `accept`, until cancelled."""
        self._accept = accept
        try:
            await asyncio.Event().wait()
        finally:
            self._accept = None

    async def submit(self, message: IncomingMessage) -> Accepted:
        """Hand a message of the page to the agent. Raises `Unavailable` while the channel does not run."""
        if self._accept is None:
            raise Unavailable(self.name, "the bot is starting or stopping")
        return await self._accept(message)

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Tell the connected pages; succeeds with nobody connected."""
        self.hub.publish(_event_name(message.kind), _message_data(message), user=OPERATOR_ID, key=str(message.id))
        return str(message.id)

    async def show(self, draft: Draft) -> str | None:
        """Tell the connected pages the text so far, or that an answer is being worked on."""
        if not self.hub.is_watched or self.hub.newest(str(draft.id)) not in (None, *_DRAFTS):
            return None  # nobody looks, or the finished message is out already
        name = EventName.STREAM_CHUNK if draft.text else EventName.THINKING
        data = {"message_id": str(draft.id), "conversation": draft.address.chat_id, "text": draft.text}
        self.hub.publish(name, data, user=OPERATOR_ID, key=str(draft.id))
        return str(draft.id) if draft.text else None

    async def show_step(self, step: ToolStep) -> None:
        """Tell the connected pages how far a tool call is."""
        if not self.hub.is_watched:
            return
        data = {"conversation": step.address.chat_id, "call_id": step.call_id, "name": step.name}
        match step.state:
            case StepState.STARTED:
                self.hub.publish(EventName.TOOL_STARTED, data, user=OPERATOR_ID)
            case StepState.SUCCEEDED:
                self.hub.publish(EventName.TOOL_COMPLETED, data | {"success": True}, user=OPERATOR_ID)
                if step.detail:
                    self.hub.publish(EventName.TOOL_RESULT, data | {"preview": step.detail}, user=OPERATOR_ID)
            case StepState.FAILED:
                failure = {"success": False, "error": step.detail}
                self.hub.publish(EventName.TOOL_COMPLETED, data | failure, user=OPERATOR_ID)
            case unreachable:
                assert_never(unreachable)

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Send it again: a page shows a message id once."""
        return Uncertain.RESEND

    async def open_private_chat(self, user_id: str) -> str:
        if user_id != OPERATOR_ID:
            raise Rejected(self.name, "the page has no user but the operator")
        return MAIN_CONVERSATION

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return ()  # the page has no threads that others write in

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        raise Rejected(self.name, "the page brings no files")


def _event_name(kind: ReplyKind) -> EventName:
    match kind:
        case ReplyKind.ANSWER | ReplyKind.MESSAGE | ReplyKind.NOTICE:
            return EventName.RESPONSE
        case ReplyKind.APPROVAL:
            return EventName.APPROVAL_NEEDED
        case ReplyKind.AMENDMENT:
            return EventName.STATUS
        case ReplyKind.FINDING:
            return EventName.HEARTBEAT
        case ReplyKind.ERROR:
            return EventName.ERROR
        case unreachable:
            assert_never(unreachable)


def _message_data(message: OutgoingMessage) -> dict[str, object]:
    data: dict[str, object] = {
        "message_id": str(message.id),
        "conversation": message.address.chat_id,
        "kind": message.kind.value,
        "text": message.text,
        "reply_to": message.reply_to,
        "edits": message.edits,
        "files": [file_data(file) for file in message.files],
    }
    if message.approval_id is not None:
        data["request_id"] = message.approval_id
        data["actions"] = [action for choice in message.choices if (action := _action(choice))]
    return data


def file_data(file: OutgoingFile) -> dict[str, object]:
    """What the page is told of a file; the content lies at `url`."""
    return {
        "name": file.filename,
        "size_bytes": file.size_bytes,
        "size": size_words(file.size_bytes),
        "mime_type": file.mime_type,
        "is_image": file.mime_type in SHOWN_IMAGES,
        "url": f"{FILES_PATH}/{file.digest}",
    }


def _action(choice: Choice) -> str | None:
    """What a button of an approval prompt means: its data ends in `:y`, `:a` or `:n`."""
    return {"y": "approve", "a": "always", "n": "deny"}.get(choice.data.rpartition(":")[2])


def _lost(event_id: int, user: str) -> PageEvent:
    return PageEvent(event_id, EventName.STATUS, user, json.dumps({"code": EVENTS_LOST}))
