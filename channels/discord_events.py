"""What Discord's gateway sends, and how it becomes an `IncomingMessage`. Pure: knows no SDK and no socket."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from channels.message import (
    Address,
    Attachment,
    AttachmentKind,
    ChatType,
    IncomingMessage,
    MessageMetadata,
    Sender,
)

NAME = "discord"

Snowflake: TypeAlias = Annotated[str, Field(pattern=r"^\d{1,20}$")]


class Payload(BaseModel):
    """A frozen part of a gateway event; fields we do not read are skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class User(Payload):
    """A person or a bot."""

    id: Snowflake
    username: str = ""
    global_name: str | None = None
    bot: bool = False


class Member(Payload):
    """A user inside a server. Messages bring the user beside it, interactions inside it."""

    nick: str | None = None
    user: User | None = None


class File(Payload):
    """An uploaded file."""

    id: Snowflake
    filename: str
    url: str
    size: int | None = None
    content_type: str | None = None


class Reference(Payload):
    """The message that another one answers (type 0) or forwards (type 1)."""

    type: int = 0
    message_id: Snowflake | None = None


class Referenced(Payload):
    """What we read of an answered message, or of the one that a thread began with."""

    author: User
    content: str = ""
    timestamp: AwareDatetime | None = None


class Message(Payload):
    """`MESSAGE_CREATE`, the whole of a `MESSAGE_UPDATE`, or one entry of a channel's history."""

    id: Snowflake
    channel_id: Snowflake
    guild_id: Snowflake | None = None
    channel_type: int | None = None
    author: User
    member: Member | None = None
    content: str = ""
    timestamp: AwareDatetime
    type: int = 0
    webhook_id: Snowflake | None = None
    mentions: tuple[User, ...] = ()
    mention_roles: tuple[Snowflake, ...] = ()
    attachments: tuple[File, ...] = ()
    sticker_items: tuple[Payload, ...] = ()
    message_snapshots: tuple[Payload, ...] = ()
    embeds: tuple[Payload, ...] = ()
    poll: Payload | None = None
    message_reference: Reference | None = None
    referenced_message: Referenced | None = None

    @property
    def is_from_person(self) -> bool:
        """Whether somebody wrote it: no bot, no webhook, no notice of Discord."""
        return not self.author.bot and self.webhook_id is None and self.type in WRITTEN

    @property
    def is_blank(self) -> bool:
        """Whether nothing at all came with it: a person cannot send that, so the content was withheld from us."""
        parts = (self.attachments, self.sticker_items, self.message_snapshots, self.embeds, self.poll)
        return not self.content and not any(parts)


class Channel(Payload):
    """A place where messages are."""

    id: Snowflake
    type: int
    guild_id: Snowflake | None = None


class Option(Payload):
    """One argument of a slash command, or a subcommand with its own."""

    name: str
    value: str | int | float | bool | None = None
    options: tuple[Option, ...] = ()


class InteractionData(Payload):
    """What was tapped (`custom_id`) or which command was called (`name`)."""

    custom_id: str = ""
    name: str = ""
    options: tuple[Option, ...] = ()


class InteractionType(IntEnum):
    """The kinds of interaction that we answer."""

    COMMAND = 2
    COMPONENT = 3


class Interaction(Payload):
    """`INTERACTION_CREATE`. `token` answers it for 15 minutes, the first time within 3 seconds."""

    id: Snowflake
    application_id: Snowflake
    type: int
    token: str
    data: InteractionData = InteractionData()
    guild_id: Snowflake | None = None
    channel_id: Snowflake
    channel: Channel | None = None
    member: Member | None = None
    user: User | None = None


class Change(Payload):
    """What tells the kind of a `MESSAGE_UPDATE`: a link preview comes without its text or without a time of editing."""

    content: str | None = None
    edited_timestamp: AwareDatetime | None = None

    @property
    def is_edit(self) -> bool:
        """Whether the text was edited, now or before."""
        return self.content is not None and self.edited_timestamp is not None


class ChangeEvent(Payload):
    """The frame around a `MESSAGE_UPDATE`, which may hold only a part of the message."""

    d: Change


class MessageEvent(Payload):
    """The frame around a `MESSAGE_CREATE`."""

    d: Message


class ChannelEvent(Payload):
    """The frame around a `CHANNEL_CREATE`."""

    d: Channel


class InteractionEvent(Payload):
    """The frame around an `INTERACTION_CREATE`."""

    d: Interaction


@dataclass(frozen=True, slots=True)
class Place:
    """What the connection knows about where a message was written.

    `own_role` is the role that Discord made for the bot in this server; `channel_type` is None where it is not known.
    """

    own_id: str
    own_role: str | None = None
    channel_type: int | None = None
    title: str | None = None


def normalize(
    message: Message, place: Place, *, always_addressed: bool = False, is_edit: bool = False
) -> IncomingMessage | None:
    """The message of a person, or None for what nobody wrote to us: bots, webhooks, notices of Discord, empty texts."""
    if not message.is_from_person or message.author.id == place.own_id:
        return None
    text = without_mentions(message.content, place)
    if not text and not message.attachments:
        return None
    chat_type = _chat_type(message.guild_id, message.channel_type or place.channel_type)
    is_reply = message.referenced_message is not None and message.referenced_message.author.id == place.own_id
    reference = message.message_reference
    return IncomingMessage(
        message_id=message.id,
        address=Address(channel=NAME, chat_id=message.channel_id),
        sender=sender_of(message.author, message.member),
        text=text,
        attachments=tuple(_attachment(file) for file in message.attachments),
        metadata=MessageMetadata(
            chat_type=chat_type,
            addressed_to_bot=not chat_type.is_shared or always_addressed or is_reply or _mentions(message, place),
            is_reply_to_bot=is_reply,
            is_edit=is_edit,
            reply_to=reference.message_id if reference and reference.type == _ANSWER else None,
            chat_title=place.title,
        ),
        received_at=message.timestamp,
    )


def normalize_interaction(interaction: Interaction, place: Place) -> IncomingMessage | None:
    """A tapped button of an approval, or a slash command as the text it stands for; None for anything else."""
    member = interaction.member
    user = interaction.user or (member.user if member else None)
    if user is None:
        return None
    answers: str | None = None
    match interaction.type:
        case InteractionType.COMPONENT:
            pressed = _APPROVAL.fullmatch(interaction.data.custom_id)
            if pressed is None:
                return None
            answers = pressed[1]
            text = _approval_text(answers, pressed[2])
        case InteractionType.COMMAND:
            text = " ".join((f"/{interaction.data.name}", *_words(interaction.data.options)))
        case _:
            return None
    channel_type = interaction.channel.type if interaction.channel else place.channel_type
    return IncomingMessage(
        message_id=f"interaction:{interaction.id}",
        address=Address(channel=NAME, chat_id=interaction.channel_id),
        sender=sender_of(user, member),
        text=text,
        metadata=MessageMetadata(
            chat_type=_chat_type(interaction.guild_id, channel_type),
            structured=answers is not None,
            answers_approval=answers,
            chat_title=place.title,
        ),
        received_at=_made_at(interaction.id),
    )


# Discord API, snowflakes: milliseconds since the first second of 2015, above 22 other bits.
_FIRST_MOMENT = datetime(2015, 1, 1, tzinfo=UTC)
# Discord API, message types: DEFAULT and REPLY. All others are notices, or written by applications.
WRITTEN = frozenset({0, 19})
# Discord API, message reference types: DEFAULT; FORWARD (1) answers nothing.
_ANSWER = 0

_APPROVAL = re.compile(r"apr:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):([yan])")


def _chat_type(guild_id: str | None, channel_type: int | None) -> ChatType:
    """A place outside servers without a type is a direct chat: groups announce themselves before they speak."""
    if guild_id is not None:
        return ChatType.GROUP
    match channel_type:  # Discord API, channel types: DM and GROUP_DM
        case None | 1:
            return ChatType.PRIVATE
        case 3:
            return ChatType.GROUP
        case _:
            return ChatType.UNKNOWN


def _mentions(message: Message, place: Place) -> bool:
    tokens = (f"<@{place.own_id}>", f"<@!{place.own_id}>")
    if any(user.id == place.own_id for user in message.mentions) or any(token in message.content for token in tokens):
        return True
    return place.own_role is not None and place.own_role in message.mention_roles


def without_mentions(text: str, place: Place) -> str:
    """The text without the tokens that mention the bot."""
    if "<@" not in text:
        return text.strip()
    tokens = rf"@!?{place.own_id}" if place.own_role is None else rf"@!?{place.own_id}|@&{place.own_role}"
    return re.sub(rf"<(?:{tokens})>[^\S\n]*", "", text).strip()


def sender_of(user: User, member: Member | None) -> Sender:
    """A user as the writer of a message, by the name that the server's members see."""
    nick = member.nick if member else None
    name = nick or user.global_name or user.username
    return Sender(user_id=user.id, display_name=name, username=user.username or None)


def _attachment(file: File) -> Attachment:
    mime_type = (file.content_type or "application/octet-stream").partition(";")[0].strip()
    return Attachment(
        id=file.id,
        kind=_kind(mime_type),
        mime_type=mime_type,
        filename=file.filename,
        size_bytes=file.size,
        source=file.url,
    )


def _kind(mime_type: str) -> AttachmentKind:
    match mime_type.partition("/")[0]:
        case "image":
            return AttachmentKind.IMAGE
        case "audio":
            return AttachmentKind.AUDIO
        case "text" | "application":
            return AttachmentKind.DOCUMENT
        case _:
            return AttachmentKind.OTHER


def _approval_text(request_id: str, answer: str) -> str:
    approved = {"request_id": str(UUID(request_id)), "approved": answer != "n", "always": answer == "a"}
    return json.dumps({"ExecApproval": approved})


def _made_at(snowflake: str) -> datetime:
    return _FIRST_MOMENT + timedelta(milliseconds=int(snowflake) >> 22)


def first_id_at(moment: datetime) -> int:
    """The smallest id that something made at `moment` can have."""
    return int((moment - _FIRST_MOMENT) / timedelta(milliseconds=1)) << 22


def _words(options: tuple[Option, ...]) -> Iterator[str]:
    for option in options:
        yield option.name if option.value is None else str(option.value)
        yield from _words(option.options)
