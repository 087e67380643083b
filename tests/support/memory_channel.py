"""A chat platform in memory: what it was sent, what is shown, and ways to misbehave."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import ChannelError, Rejected
from channels.message import Address, Attachment, Draft, EarlierMessage, IncomingMessage, OutgoingMessage, ReplyKind


@dataclass
class Posted:
    """A message as the chat shows it now."""

    id: str
    message: OutgoingMessage
    edits: list[OutgoingMessage] = field(default_factory=list)

    @property
    def text(self) -> str:
        return (self.edits[-1] if self.edits else self.message).text

    @property
    def buttons(self) -> tuple[str, ...]:
        shown = self.edits[-1] if self.edits else self.message
        return tuple(choice.data for choice in shown.choices)


class MemoryChannel:
    """`Channel` without a platform. `faults` are raised by the next sends, in order; sends wait while `gate` is shut.

    `past` is what threads held before any message; `files` are the contents by `Attachment.source`, `uploads` those
    that were sent here, `fetched` the handles that were asked for; fetches wait while `files_gate` is shut. `advice` is
    what an operator should know though the connection stands.
    """

    name: ClassVar[str] = "memory"
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=4000, buttons=True, threads=True)

    def __init__(self, name: str, *, uncertain: Uncertain = Uncertain.SKIP) -> None:
        self.place = name
        self.posted: list[Posted] = []
        self.drafts: list[Draft] = []
        self.past: tuple[EarlierMessage, ...] = ()
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.fetching = asyncio.Event()
        self.files_gate = asyncio.Event()
        self.files_gate.set()
        self.uploads: list[tuple[Address, str, bytes]] = []
        self.advice = ""
        self.faults: deque[ChannelError] = deque()
        self.uncertain = uncertain
        self.no_private_chat: ChannelError | None = None
        self.sending = asyncio.Event()
        self.settled = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.changed = asyncio.Condition()
        self.ready = asyncio.Event()
        self.accept: Accept | None = None

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth(ChannelState.CONNECTED, self.advice)

    async def run(self, accept: Accept) -> None:
        self.accept = accept
        self.ready.set()
        await asyncio.Event().wait()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        self.sending.set()
        await self.gate.wait()
        if self.faults:
            raise self.faults.popleft()
        for file in message.files:
            self.uploads.append((message.address, file.filename, await delivery.read_file(file)))
        target = next((post for post in self.posted if post.id == message.edits), None)
        if target is None and message.kind is ReplyKind.AMENDMENT:
            return ""
        if target is None:
            target = Posted(f"{self.place}-{len(self.posted) + 1}", message)
            self.posted.append(target)
        else:
            target.edits.append(message)
        async with self.changed:
            self.changed.notify_all()
        return target.id

    async def show(self, draft: Draft) -> str | None:
        self.drafts.append(draft)
        return None

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        self.settled.set()
        return self.uncertain

    async def open_private_chat(self, user_id: str) -> str:
        if self.no_private_chat is not None:
            raise self.no_private_chat
        return user_id

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return self.past[-limit:]

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        self.fetched.append(attachment.source or "")
        self.fetching.set()
        await self.files_gate.wait()
        content = self.files.get(attachment.source or "")
        if content is None or len(content) > limit_bytes:
            raise Rejected(self.place, "no such file, or too large")
        return content
