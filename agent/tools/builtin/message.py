"""Sending a message, with files, ahead of the answer or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol

import structlog
from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.store.blobs import Blob
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.builtin.attachments import read_attachments
from agent.tools.builtin.memory import IsSecret
from agent.tools.builtin.posting import Outbox
from agent.tools.schema import Arguments
from agent.workspace.errors import WorkspaceError
from channels.message import Address

log = structlog.get_logger(__name__)


class Places(Protocol):
    """Where messages can go."""

    @property
    def channels(self) -> Sequence[str]:
        """The names of the channels that are switched on."""
        ...

    async def find(self, channel: str, target: str) -> Address | None:
        """The chat of that id, or the private chat with the user of that id; None where it cannot be found out now."""
        ...

    async def operator(self, channel: str | None) -> Sequence[Address]:
        """The operator's private chat on a channel; without one, wherever the operator is told things."""
        ...


class MessageArguments(Arguments):
    """Arguments of `message`."""

    content: str = Field(description="Markdown; may be empty if there are attachments")
    channel: str | None = Field(default=None, description="leave out for this conversation")
    target: str | None = Field(default=None, description="chat or user id; leave out for this conversation")
    attachments: list[str] = Field(default=[], description="paths of files, relative to your folder")


def approval_of(arguments: MessageArguments) -> Approval:
    """Asked about once a place is named: a page that the model reads must not make it write to somebody.

    The answer goes to the conversation without asking, so what is sent there needs no consent either.
    """
    is_here = arguments.channel is None and arguments.target is None
    return Approval.NEVER if is_here else Approval.UNLESS_ALWAYS


class _Refused(Exception):
    """Nothing is sent; the text says why."""


class Message:
    """Sends at once, while the turn goes on. The default is the conversation of the turn, whoever else talks meanwhile.

    Anybody may send to the conversation they are in; the operator, in a private chat, anywhere else too.
    """

    spec: ClassVar = ToolSpec(
        "message",
        "Send a message or files to this conversation now, before your answer. Not for the answer itself.",
        MessageArguments,
        Effect.OUTSIDE,
        assess=approval_of,
        rate=RateLimit(per_minute=10, per_hour=100),
    )

    def __init__(self, outbox: Outbox, places: Places, root: Path, is_secret: IsSecret) -> None:
        self._outbox = outbox
        self._places = places
        self._root = root
        self._is_secret = is_secret

    def scope(self, arguments: MessageArguments) -> PathScope:
        return PathScope(frozenset(PurePosixPath("/", path) for path in arguments.attachments))

    async def run(self, arguments: MessageArguments, context: ToolContext) -> ToolOutput:
        try:
            text = self._checked(arguments)
            addresses = await self._destinations(arguments, context)
            files = await self._files(arguments, context)
            return ToolOutput(await self._send(context, addresses, text, files))
        except _Refused as refused:
            return ToolOutput(f"{refused} Nothing was sent.", is_error=True)
        except WorkspaceError as error:
            return ToolOutput(f"{error} Nothing was sent.", is_error=True)
        except StoreError as error:
            log.error("message_not_kept", error=type(error).__name__)
            return ToolOutput("The message could not be kept for delivery. Try again in a moment.", is_error=True)

    def _checked(self, arguments: MessageArguments) -> str:
        text = arguments.content.strip()
        if not text and not arguments.attachments:
            raise _Refused("'content' is empty, and there are no attachments.")
        if self._is_secret(text):
            raise _Refused("The content holds what looks like a key, token or password.")
        return text

    async def _destinations(self, arguments: MessageArguments, context: ToolContext) -> Sequence[Address]:
        own = context.address
        channel, target = _given(arguments.channel), _given(arguments.target)
        channel = None if channel is None else channel.lower()
        if own.channel in self._places.channels and _is_here(channel, target, context):
            return (own,)
        if not context.is_operator:
            raise _Refused("Only the operator may send to other chats; leave out 'channel' and 'target'.")
        if context.is_shared:
            raise _Refused("Other chats are written to from a private chat with the operator only.")
        return await self._elsewhere(channel, target, own)

    async def _elsewhere(self, channel: str | None, target: str | None, own: Address) -> Sequence[Address]:
        known = self._places.channels
        if channel is not None and channel not in known:
            raise _Refused(f"There is no channel {channel[:40]!r}; there are: {', '.join(known)}.")
        if target is None:
            found = await self._places.operator(channel)
            if not found:
                where = f"on {channel}" if channel else "anywhere"
                raise _Refused(f"No private chat with the operator is known {where}; name a 'target'.")
            return found
        place = channel or own.channel
        if place not in known:
            raise _Refused(f"Say on which channel: {', '.join(known)}.")
        address = await self._places.find(place, target)
        if address is None:
            raise _Refused(f"{place} cannot be asked for this target at the moment; try again later.")
        is_own = (address.channel, address.chat_id) == (own.channel, own.chat_id)
        return (own if is_own else address,)  # the own one has the topic or thread

    async def _files(self, arguments: MessageArguments, context: ToolContext) -> Sequence[Blob]:
        if not arguments.attachments:
            return ()
        return await asyncio.to_thread(
            read_attachments, self._root, context.scope, arguments.attachments, self._is_secret
        )

    async def _send(self, context: ToolContext, addresses: Sequence[Address], text: str, files: Sequence[Blob]) -> str:
        """Hand the message over, and tell of it no more than is known."""
        fresh = [await self._outbox.post(context, address, text, files) for address in addresses]
        names = ", ".join(each.file.filename for each in files)
        what = f"The message with {names}" if files else "The message"
        where = " and ".join(_words(address, context) for address in addresses)
        if not any(fresh):
            return f"{what} was handed over for delivery to {where} before; it is not sent twice."
        return f"{what} is handed over for delivery to {where}."


def _given(value: str | None) -> str | None:
    """A model may send an empty text for what it leaves out."""
    return (value or "").strip() or None


def _is_here(channel: str | None, target: str | None, context: ToolContext) -> bool:
    """Whether a place is the conversation of the turn, named or not."""
    own = context.address
    is_oneself = not context.is_shared and context.user == f"{own.channel}:{target}"
    return channel in (None, own.channel) and (target in (None, own.chat_id) or is_oneself)


def _words(address: Address, context: ToolContext) -> str:
    return "this conversation" if address == context.address else f"{address.channel} chat {address.chat_id}"
