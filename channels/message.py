"""Edge records: what a chat platform hands us and what we hand back, the same shape for all platforms."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, NamedTuple
from urllib.parse import quote
from uuid import UUID, uuid4

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from channels.text import WholeText


class Edge(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChatType(StrEnum):
    """Who can read a chat. What an adapter cannot classify is `UNKNOWN`, and counts as shared."""

    PRIVATE = "private"
    GROUP = "group"
    SUPERGROUP = "supergroup"
    CHANNEL = "channel"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, word: str | None) -> ChatType:
        """The type a platform names with `word`; `UNKNOWN` for any other word."""
        try:
            return cls(word or "")
        except ValueError:
            return cls.UNKNOWN

    @property
    def is_shared(self) -> bool:
        """Whether anybody but one person can read the chat. Fails closed."""
        return self is not ChatType.PRIVATE


class Address(Edge):
    """Where a reply goes. `thread_id`: a Telegram topic or a Slack `thread_ts`; a Discord thread is a chat itself."""

    channel: str
    chat_id: str
    thread_id: str | None = None


class Sender(Edge):
    """Who wrote. `user_id` is stable on its platform; names can change hands and decide nothing."""

    user_id: str
    display_name: WholeText = ""
    username: WholeText | None = None


class AttachmentKind(StrEnum):
    """What an attachment is, from its mime type."""

    IMAGE = "image"
    AUDIO = "audio"
    DOCUMENT = "document"
    OTHER = "other"


class Attachment(Edge):
    """A file that came with a message. `source` is the platform's own handle (file id or URL), never shown."""

    id: str
    kind: AttachmentKind
    mime_type: str = "application/octet-stream"
    filename: WholeText | None = None
    size_bytes: int | None = None
    source: str | None = None


def _one_safe_line(name: str) -> str:
    """A file name without folders, line breaks and what reorders or hides text, short enough for every platform."""
    last = re.split(r"[/\\]", name)[-1]
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in last).replace('"', "'")
    stem, dot, suffix = " ".join(kept.split()).lstrip(".").rpartition(".")
    if not dot or len(suffix) > _LONGEST_SUFFIX:
        stem, dot, suffix = f"{stem}{dot}{suffix}", "", ""
    return f"{stem[: _LONGEST_FILENAME - len(dot + suffix)]}{dot}{suffix}".strip() or "file"


_LONGEST_FILENAME, _LONGEST_SUFFIX = 100, 16


class OutgoingFile(Edge):
    """A file that goes out with a message. The bytes lie in the store under their SHA-256 `digest`, in hexadecimal."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    filename: Annotated[WholeText, AfterValidator(_one_safe_line)]
    mime_type: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]{0,80}/[a-z0-9][a-z0-9.+-]{0,80}$")]
    size_bytes: Annotated[int, Field(ge=0)]
    kind: AttachmentKind


class MessageMetadata(Edge):
    """Facts an adapter knows about a message besides its text.

    `structured`: the text was made by the adapter from a tapped button or a page's form, not typed by a person.
    `answers_approval`: the id that the tapped button carried.
    `is_edit`: a person changed a message sent before; the id is that message's. An edit never starts anything.
    """

    chat_type: ChatType
    addressed_to_bot: bool = True
    is_reply_to_bot: bool = False
    structured: bool = False
    answers_approval: str | None = None
    is_edit: bool = False
    reply_to: str | None = None
    timezone: str | None = None
    chat_title: WholeText | None = None


class ConversationKey(NamedTuple):
    """Whose conversation, and where: the key of a thread. Distinct places give distinct keys."""

    user_id: str
    channel: str
    external_thread_id: str


class IncomingMessage(Edge):
    """One message of a person, cleaned of mentions, with the facts the agent needs to answer it.

    `message_id` is unique inside its chat only; `delivery_key` is unique everywhere.
    """

    message_id: str
    address: Address
    sender: Sender
    text: WholeText
    attachments: tuple[Attachment, ...] = ()
    metadata: MessageMetadata
    received_at: AwareDatetime
    reply_address: Address | None = None

    @property
    def external_thread_id(self) -> str:
        """`chat` or `chat/thread`, both percent-encoded: platform thread ids are unique only inside their chat."""
        chat = quote(self.address.chat_id, safe="-")
        if self.address.thread_id is None:
            return chat
        return f"{chat}/{quote(self.address.thread_id, safe='-.')}"

    @property
    def original_key(self) -> str:
        """The delivery key of the message as it was first sent; for an edit, that of the message it changes."""
        channel, chat = self.address.channel, quote(self.address.chat_id, safe="-")
        return f"{channel}:{chat}:{self.message_id}"

    @property
    def delivery_key(self) -> str:
        """The same for each delivery of the same message: the key that makes redeliveries harmless.

        An edit has one of its own, which depends on its text.
        """
        if not self.metadata.is_edit:
            return self.original_key
        text = sha256(self.text.encode()).hexdigest()
        return f"{self.original_key}:edit:{text[:_EDIT_HASH]}"

    @property
    def replies_go_to(self) -> Address:
        """The place of the question, unless the adapter names another for replies (a new Slack thread)."""
        return self.reply_address or self.address


_EDIT_HASH = 16


class EarlierMessage(Edge):
    """What somebody said in a thread before a message. `is_ours`: the bot said it itself."""

    sender: Sender
    text: WholeText
    sent_at: AwareDatetime
    is_ours: bool = False


class ReplyKind(StrEnum):
    """Why a message is sent. An `AMENDMENT` edits an earlier message and is dropped where that one is gone.

    A `MESSAGE` is what the agent sends while it works on an answer: it ends nothing.
    """

    ANSWER = "answer"
    MESSAGE = "message"
    APPROVAL = "approval"
    AMENDMENT = "amendment"
    FINDING = "finding"
    NOTICE = "notice"
    ERROR = "error"


class Choice(Edge):
    """A button: what it says, and the data that comes back when it is tapped (at most 64 bytes)."""

    label: WholeText
    data: str


class OutgoingMessage(Edge):
    """One message to a chat, as Markdown, and the files that follow the text. One of the two may be missing.

    `id` is the idempotency key of its delivery. `edits` names the platform's id of a message that this one replaces:
    the draft shown while the answer was written, or an approval prompt that has been answered.
    """

    id: UUID = Field(default_factory=uuid4)
    address: Address
    kind: ReplyKind = ReplyKind.ANSWER
    text: WholeText
    files: tuple[OutgoingFile, ...] = ()
    choices: tuple[Choice, ...] = ()
    approval_id: str | None = None
    reply_to: str | None = None
    edits: str | None = None


class Draft(Edge):
    """An answer while it is written. An empty `text` asks for the typing sign only.

    `id` is the id that the finished `OutgoingMessage` will have. `platform_id` is what an earlier `show` returned.
    """

    id: UUID
    address: Address
    text: WholeText = ""
    reply_to: str | None = None
    platform_id: str | None = None


class StepState(StrEnum):
    """How far a tool call is."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ToolStep(Edge):
    """A tool call while a turn runs, for surfaces that show them. `detail`: an error or a preview, secrets redacted."""

    address: Address
    call_id: str
    name: str
    state: StepState
    detail: WholeText = ""
