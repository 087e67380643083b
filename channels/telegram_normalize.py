"""What a Telegram update says, as a message of ours. Pure; reads the raw JSON, because the library's objects cost more.

A payload of an unexpected shape raises `Malformed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps
from typing import TypeAlias
from uuid import UUID

from pydantic import ValidationError

from channels.message import (
    Address,
    Attachment,
    AttachmentKind,
    ChatType,
    IncomingMessage,
    MessageMetadata,
    Sender,
)

CHANNEL = "telegram"
# What a person who opened the chat is taken to have said: they pressed a button and typed nothing.
STARTED = "[The user pressed Start and opened the chat. Greet them and say in a sentence or two what you can do.]"
ALLOWED_UPDATES = ("message", "edited_message", "callback_query")

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
JsonObject: TypeAlias = dict[str, Json]


class Malformed(ValueError):
    """An update that is not shaped as the Bot API says."""


@dataclass(frozen=True, slots=True)
class Me:
    """Who the bot is. `hears_all`: it answers every message of a group, not only those addressed to it."""

    user_id: int
    username: str
    hears_all: bool = False


def normalize(update: JsonObject, me: Me, now: datetime) -> IncomingMessage | None:
    """The message of an update; None where it has none for us.

    An edit has the id of the message it changes. One of a picture in an album is none: it would take the place of the
    whole album, whose messages became one. `now` is when a button was pressed, because Telegram does not say.
    Raises `Malformed`.
    """
    try:
        if "callback_query" in update:
            return _pressed(_object(update, "callback_query"), now)
        if "message" in update:
            return _said(_object(update, "message"), me)
        if "edited_message" in update:
            edited = _object(update, "edited_message")
            return None if "media_group_id" in edited else _said(edited, me, is_edit=True)
    except (ValidationError, OverflowError) as error:
        raise Malformed(f"{type(error).__name__} in an update") from None
    return None


def readable(found: object) -> list[JsonObject]:
    """The updates in what Telegram sent; what has not even an id can't be handled in any way."""
    items = found if isinstance(found, list) else []
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("update_id"), int)]


def update_id_of(update: JsonObject) -> int:
    """The id of an update that is `readable`; ids grow."""
    return _integer(update, "update_id")


def callback_query_id(update: JsonObject) -> str | None:
    """The id under which a pressed button waits for an answer."""
    query = update.get("callback_query")
    return str(query["id"]) if isinstance(query, dict) and "id" in query else None


def chat_id_of(update: JsonObject) -> int | None:
    """The chat an update belongs to: updates of one chat are handled in order."""
    query = update.get("callback_query")
    message = query.get("message") if isinstance(query, dict) else update.get("message") or update.get("edited_message")
    chat = message.get("chat") if isinstance(message, dict) else None
    number = chat.get("id") if isinstance(chat, dict) else None
    return number if isinstance(number, int) else None


def migration_of(update: JsonObject) -> tuple[str, str] | None:
    """The old and the new id of a group that became a supergroup. Each of the two chats tells of it once."""
    message = update.get("message")
    chat = message.get("chat") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(chat, dict):
        return None
    here, new, old = chat.get("id"), message.get("migrate_to_chat_id"), message.get("migrate_from_chat_id")
    if isinstance(here, int) and isinstance(new, int):
        return str(here), str(new)
    if isinstance(here, int) and isinstance(old, int):
        return str(old), str(here)
    return None


def album_of(update: JsonObject) -> str | None:
    """The id of the album a message is part of."""
    message = update.get("message")
    album = message.get("media_group_id") if isinstance(message, dict) else None
    return album if isinstance(album, str) else None


def merge_album(messages: Sequence[IncomingMessage]) -> IncomingMessage:
    """One message with the pictures and captions of an album, in its order; addressed to us if one of them is."""
    first = messages[0]
    metadata = first.metadata.model_copy(
        update={
            "addressed_to_bot": any(message.metadata.addressed_to_bot for message in messages),
            "is_reply_to_bot": any(message.metadata.is_reply_to_bot for message in messages),
        }
    )
    captions = [(number, message.text) for number, message in enumerate(messages, 1) if message.text]
    if len(captions) == 1:
        text = captions[0][1]
    else:
        text = "\n".join(f"[{number}] {caption}" for number, caption in captions)
    attachments = tuple(attachment for message in messages for attachment in message.attachments)
    return first.model_copy(update={"text": text, "attachments": attachments, "metadata": metadata})


def _said(message: JsonObject, me: Me, *, is_edit: bool = False) -> IncomingMessage | None:
    sender = _optional_object(message, "from")
    if sender is None or sender.get("is_bot") is not False or message.get("is_automatic_forward"):
        return None
    chat = _object(message, "chat")
    chat_type = ChatType.of(_text(chat, "type"))
    words = _words(message, me)
    if words is None:
        return None
    attachments = tuple(_attachments(message))
    text = STARTED if chat_type is ChatType.PRIVATE and _START.fullmatch(words.text) else words.text
    if not text and not attachments:
        return None
    replied = _replied(message)
    replies_to_us = replied is not None and (_optional_object(replied, "from") or {}).get("id") == me.user_id
    addressed = not chat_type.is_shared or me.hears_all or words.mentioned or replies_to_us or text.startswith("/")
    return IncomingMessage(
        message_id=str(_integer(message, "message_id")),
        address=_address(message, chat),
        sender=_sender(sender),
        text=text,
        attachments=attachments,
        metadata=MessageMetadata(
            chat_type=chat_type,
            addressed_to_bot=addressed,
            is_reply_to_bot=replies_to_us,
            is_edit=is_edit,
            reply_to=str(_integer(replied, "message_id")) if replied else None,
            chat_title=_title(chat),
        ),
        received_at=datetime.fromtimestamp(_integer(message, "date"), UTC),
    )


# The data of our own buttons: the approval and the answer to it (yes, always, no).
_DECISION = re.compile(r"apr:([0-9a-fA-F-]{32,36}):([yan])")
_START = re.compile(r"/start(\s.*)?", re.IGNORECASE | re.DOTALL)
_COMMAND = re.compile(r"(/\w+)@(\w+)")


def _pressed(query: JsonObject, now: datetime) -> IncomingMessage | None:
    message = _optional_object(query, "message")
    decision = _DECISION.fullmatch(str(query.get("data")))
    if message is None or decision is None:
        return None
    try:
        approval = str(UUID(decision[1]))
    except ValueError:
        return None
    chat = _object(message, "chat")
    answer = {"request_id": approval, "approved": decision[2] != "n", "always": decision[2] == "a"}
    return IncomingMessage(
        message_id=f"callback:{_text(query, 'id')}",
        address=_address(message, chat),
        sender=_sender(_object(query, "from")),
        text=dumps({"ExecApproval": answer}),
        metadata=MessageMetadata(
            chat_type=ChatType.of(_text(chat, "type")),
            structured=True,
            answers_approval=approval,
            chat_title=_title(chat),
        ),
        received_at=now,
    )


def _address(message: JsonObject, chat: JsonObject) -> Address:
    # Telegram: the id of a reply's thread comes in ordinary groups too, and General (1) is addressed without one.
    topic = message.get("message_thread_id") if message.get("is_topic_message") else None
    thread_id = str(topic) if isinstance(topic, int) and topic != 1 else None
    return Address(channel=CHANNEL, chat_id=str(_integer(chat, "id")), thread_id=thread_id)


def _sender(user: JsonObject) -> Sender:
    names = (user.get("first_name"), user.get("last_name"))
    username = user.get("username")
    return Sender(
        user_id=str(_integer(user, "id")),
        display_name=" ".join(name for name in names if isinstance(name, str) and name),
        username=username if isinstance(username, str) else None,
    )


def _title(chat: JsonObject) -> str | None:
    title = chat.get("title")
    return title if isinstance(title, str) else None


def _replied(message: JsonObject) -> JsonObject | None:
    """The message replied to; in a topic every message formally replies to the topic's beginning."""
    replied = _optional_object(message, "reply_to_message")
    return None if replied is None or "forum_topic_created" in replied else replied


@dataclass(frozen=True, slots=True)
class _Words:
    """The text of a message without our name, and whether our name was in it."""

    text: str
    mentioned: bool


def _words(message: JsonObject, me: Me) -> _Words | None:
    """What was said; None for a command meant for another bot."""
    key, entities = ("text", "entities") if "text" in message else ("caption", "caption_entities")
    text = message.get(key, "")
    if not isinstance(text, str):
        raise Malformed(f"{key} is no text")
    text, mentioned = _without_mentions(text, message.get(entities) or [], me)
    command = _COMMAND.match(text)
    if command:
        if command[2].lower() != me.username.lower():
            return None
        text, mentioned = command[1] + text[command.end() :], True
    return _Words(text, mentioned)


def _without_mentions(text: str, entities: Json, me: Me) -> tuple[str, bool]:
    if not isinstance(entities, list):
        raise Malformed("entities are no list")
    # Telegram Bot API, MessageEntity: offset and length count UTF-16 units.
    units: bytes | None = None
    mentioned = False
    for entity in reversed(entities):
        if not isinstance(entity, dict) or entity.get("type") not in ("mention", "text_mention"):
            continue
        units = text.encode("utf-16-le", "surrogatepass") if units is None else units
        start = 2 * _integer(entity, "offset")
        end = start + 2 * _integer(entity, "length")
        name = units[start:end].decode("utf-16-le", "replace")
        if not _is_me(entity, name, me):
            continue
        mentioned = True
        if units[end : end + 2] == b" \0" and (start == 0 or units[start - 2 : start] in (b" \0", b"\n\0")):
            end += 2
        units = units[:start] + units[end:]
    if mentioned and units is not None:
        text = units.decode("utf-16-le", "replace")
    return text.strip(), mentioned


def _is_me(entity: JsonObject, name: str, me: Me) -> bool:
    if entity["type"] == "mention":
        return name.lower() == f"@{me.username.lower()}"
    return (_optional_object(entity, "user") or {}).get("id") == me.user_id


# Telegram Bot API, Message: the fields that hold a file, and the type of those that may not name it.
_FILES = {
    "animation": "video/mp4",
    "document": "application/octet-stream",
    "audio": "audio/mpeg",
    "voice": "audio/ogg",
    "video": "video/mp4",
    "video_note": "video/mp4",
    "sticker": "image/webp",
}


def _attachments(message: JsonObject) -> Iterator[Attachment]:
    photos = message.get("photo")
    if isinstance(photos, list) and photos:
        largest = photos[-1]  # Telegram lists the sizes of a photo from small to large
        if not isinstance(largest, dict):
            raise Malformed("photo is no object")
        yield _attachment(largest, "image/jpeg")
    for field, mime_type in _FILES.items():
        file = _optional_object(message, field)
        if file is not None:
            yield _attachment(file, mime_type)
            return  # an animation comes as a document too


def _attachment(file: JsonObject, mime_type: str) -> Attachment:
    named, filename, size = file.get("mime_type"), file.get("file_name"), file.get("file_size")
    mime_type = named if isinstance(named, str) and named else mime_type
    return Attachment(
        id=_text(file, "file_unique_id"),
        kind=_kind(mime_type),
        mime_type=mime_type,
        filename=filename if isinstance(filename, str) else None,
        size_bytes=size if isinstance(size, int) else None,
        source=_text(file, "file_id"),
    )


def _kind(mime_type: str) -> AttachmentKind:
    match mime_type.partition("/")[0]:
        case "image":
            return AttachmentKind.IMAGE
        case "audio":
            return AttachmentKind.AUDIO
        case "application" | "text":
            return AttachmentKind.DOCUMENT
        case _:
            return AttachmentKind.OTHER


def _object(holder: JsonObject, key: str) -> JsonObject:
    value = holder.get(key)
    if not isinstance(value, dict):
        raise Malformed(f"{key} is no object")
    return value


def _optional_object(holder: JsonObject, key: str) -> JsonObject | None:
    return None if holder.get(key) is None else _object(holder, key)


def _integer(holder: JsonObject, key: str) -> int:
    value = holder.get(key)
    if not isinstance(value, int):
        raise Malformed(f"{key} is no number")
    return value


def _text(holder: JsonObject, key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str):
        raise Malformed(f"{key} is no text")
    return value
