"""`optimclaw chat -m`: one message, one answer, without a terminal. Also what both terminal channels share."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import ClassVar, TextIO, assert_never
from uuid import uuid4

from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.errors import Rejected
from channels.files import name_and_size
from channels.message import (
    Address,
    Attachment,
    ChatType,
    Draft,
    EarlierMessage,
    IncomingMessage,
    MessageMetadata,
    OutgoingMessage,
    ReplyKind,
    Sender,
    ToolStep,
)

CHANNEL = "console"
OPERATOR_ID = "operator"
CHAT_ID = "terminal"

# Control characters could move the cursor, rewrite what was shown or reach the clipboard; direction marks could make a
# command look like another one.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def visible(text: str) -> str:
    """The text with characters that a terminal obeys, or that hide others, shown by their number."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def with_files_named(message: OutgoingMessage) -> str:
    """The text of a message, with a line for each of its files: a terminal can show no more of them."""
    lines = [f"File: {name_and_size(file)}" for file in message.files]
    return "\n\n".join(filter(None, (message.text, "\n".join(lines))))


class OneShotChannel:
    """Sends one message, prints the answer as plain text and ends. `result` tells whether it was answered."""

    name: ClassVar[str] = CHANNEL
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=1_000_000, buttons=False, threads=False)

    def __init__(self, text: str, stdout: TextIO, stderr: TextIO) -> None:
        self._text = text
        self._stdout = stdout
        self._stderr = stderr
        self._ended = asyncio.Event()
        self._is_answered = False

    @property
    def health(self) -> ChannelHealth:
        return ChannelHealth(ChannelState.CONNECTED)

    async def result(self) -> bool:
        """Waits for the end: True for an answer, False for an error or an approval question."""
        await self._ended.wait()
        return self._is_answered

    async def run(self, accept: Accept) -> None:
        """Hand the one message over, then wait until cancelled."""
        accepted = await accept(console_message(self._text))
        if accepted.note:
            self._say(accepted.note, self._stderr)
        await asyncio.Event().wait()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Print a reply. Any reply ends the exchange; errors go to the error output."""
        if not self._ended.is_set():
            match message.kind:
                case ReplyKind.ANSWER | ReplyKind.NOTICE:  # a notice is the reply to a command
                    self._end(with_files_named(message), self._stdout, is_answered=True)
                case ReplyKind.MESSAGE:  # the answer is still to come
                    self._say(with_files_named(message), self._stdout)
                case ReplyKind.ERROR:
                    self._end(message.text, self._stderr, is_answered=False)
                case ReplyKind.APPROVAL:
                    how = "Nothing was run. To answer, start `optimclaw chat` and say yes, always or no."
                    self._end(f"{message.text}\n\n{how}", self._stdout, is_answered=False)
                case ReplyKind.FINDING | ReplyKind.AMENDMENT:
                    pass  # no reply to this message; the operator hears of it where they chat
                case unreachable:
                    assert_never(unreachable)
        return str(message.id)

    async def show(self, draft: Draft) -> str | None:
        return None

    async def show_step(self, step: ToolStep) -> None:
        """One shot shows the answer alone."""

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        return Uncertain.RESEND

    async def open_private_chat(self, user_id: str) -> str:
        if user_id != OPERATOR_ID:
            raise Rejected(self.name, "the terminal has no user but the operator")
        return CHAT_ID

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        return ()  # the terminal has no threads that others write in

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        raise Rejected(self.name, "the terminal brings no files")

    def _end(self, text: str, stream: TextIO, *, is_answered: bool) -> None:
        self._say(text, stream)
        self._is_answered = is_answered
        self._ended.set()

    def _say(self, text: str, stream: TextIO) -> None:
        print(visible(text), file=stream, flush=True)


def console_message(text: str) -> IncomingMessage:
    """A line of the operator as a message; each line is a message of its own."""
    return IncomingMessage(
        message_id=str(uuid4()),
        address=Address(channel=CHANNEL, chat_id=CHAT_ID),
        sender=Sender(user_id=OPERATOR_ID),
        text=text,
        metadata=MessageMetadata(chat_type=ChatType.PRIVATE),
        received_at=datetime.now(UTC),
    )
