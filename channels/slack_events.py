"""What Slack delivers, and how it becomes an `IncomingMessage`. Pure: knows no SDK and no socket.

Where a conversation is: a message in a channel that stands outside threads opens a thread below itself, and whatever is
said in that thread belongs to the same conversation. A direct chat is one conversation, answered at its top level; a
thread that a person opens there is one of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from channels.message import Address, Attachment, AttachmentKind, ChatType, IncomingMessage, MessageMetadata, Sender

NAME = "slack"

# The slash command whose words are a message to the bot; any other command of the app is passed on with its name.
OWN_COMMAND = "/optimclaw"
# Begins the `action_id` of each button we post.
CHOICE_ID = "choice:"


@dataclass(frozen=True, slots=True)
class Me:
    """Who the bot is in its workspace."""

    user_id: str
    bot_id: str = ""


Place = tuple[str, str]
"""A channel and a thread in it."""


def normalize_delivery(
    body: Mapping[str, object],
    me: Me,
    *,
    now: datetime,
    joined: Container[Place] = frozenset(),
    always_addressed: bool = False,
) -> IncomingMessage | None:
    """The message in a delivery of the Events API, a pressed button or a slash command; None for anything else."""
    match body:
        case {"type": "event_callback", "event": dict(event)}:
            return normalize(event, me, now=now, joined=joined, always_addressed=always_addressed)
        case {"type": "block_actions"}:
            return normalize_press(body, now=now)
        case {"command": str()}:
            return normalize_command(body, now=now)
        case _:
            return None


def normalize(
    event: Mapping[str, object],
    me: Me,
    *,
    now: datetime,
    joined: Container[Place] = frozenset(),
    always_addressed: bool = False,
) -> IncomingMessage | None:
    """The message of a person, or None for what nobody wrote to us: bots, ourselves, notices, empty texts.

    An edit is the changed message, marked as such, if its writer changed the text; a link preview is none. Slack
    reports a mention twice, as `app_mention` and as `message`; both give the same text and the same delivery key.
    `joined` are the threads in which the bot takes part: there it is addressed without a mention.
    """
    if event.get("subtype") == "message_changed":
        event = _edited(event)
    said = _parsed(_Event, event)
    if said is None or said.type not in _EVENTS or said.subtype not in _WRITTEN or said.hidden:
        return None
    if said.bot_id or said.user in ("", me.user_id, _SLACKBOT):
        return None
    text = readable(said.text, me.user_id)
    attachments = tuple(_attachment(file) for file in said.files if file.url_private)
    if not text and not attachments:
        return None
    chat_type = chat_type_of(said.channel, said.channel_type)
    is_reply = said.parent_user_id == me.user_id
    is_mention = said.type == "app_mention" or _mention_of(me.user_id).search(said.text) is not None
    is_joined = bool(said.thread_ts) and (said.channel, said.thread_ts) in joined
    own_thread = said.ts if chat_type.is_shared else None
    return IncomingMessage(
        message_id=said.ts,
        address=Address(channel=NAME, chat_id=said.channel, thread_id=said.thread_ts or own_thread),
        sender=Sender(user_id=said.user, display_name=said.user),
        text=text,
        attachments=attachments,
        metadata=MessageMetadata(
            chat_type=chat_type,
            addressed_to_bot=not chat_type.is_shared or always_addressed or is_mention or is_reply or is_joined,
            is_reply_to_bot=is_reply,
            is_edit=said.edited is not None,
        ),
        received_at=now,
    )


def normalize_press(body: Mapping[str, object], *, now: datetime) -> IncomingMessage | None:
    """A pressed button of ours as what it stands for, in the conversation of the message that carries it."""
    press = _parsed(_Press, body)
    if press is None or not press.actions or not press.actions[0].action_id.startswith(CHOICE_ID):
        return None
    action = press.actions[0]
    chat_id = press.channel.id or press.container.channel_id
    if not action.value or not chat_id or not press.user.id:
        return None
    answered = _APPROVAL.fullmatch(action.value)
    return IncomingMessage(
        message_id=f"action:{action.action_ts or press.trigger_id}:{press.user.id}",
        address=Address(
            channel=NAME, chat_id=chat_id, thread_id=press.message.thread_ts or press.container.thread_ts or None
        ),
        sender=_sender(press.user),
        text=_approval_text(answered[1], answered[2]) if answered else action.value,
        metadata=MessageMetadata(
            chat_type=chat_type_of(chat_id, ""),
            structured=True,
            answers_approval=answered[1] if answered else None,
        ),
        received_at=now,
    )


def normalize_command(form: Mapping[str, object], *, now: datetime) -> IncomingMessage | None:
    """A slash command as the text that it stands for; without words, our own asks for help."""
    called = _parsed(_Command, form)
    if called is None:
        return None
    words = readable(called.text, "")
    text = (words or "/help") if called.command == OWN_COMMAND else f"{called.command} {words}".strip()
    return IncomingMessage(
        message_id=f"command:{called.trigger_id}",
        address=Address(channel=NAME, chat_id=called.channel_id),
        sender=Sender(
            user_id=called.user_id, display_name=called.user_name or called.user_id, username=called.user_name or None
        ),
        text=text,
        metadata=MessageMetadata(chat_type=chat_type_of(called.channel_id, "")),
        received_at=now,
    )


def chat_type_of(channel_id: str, word: str) -> ChatType:
    """Who can read a chat. Only what Slack calls a direct chat, by word and by id, is private.

    `app_mention` events and pressed buttons bring no word: the id decides.
    """
    is_direct = channel_id.startswith("D")
    match word:
        case "im" if is_direct:
            return ChatType.PRIVATE
        case "channel" | "group" | "mpim":
            return ChatType.GROUP
        case "" if is_direct:
            return ChatType.PRIVATE
        case "" if channel_id.startswith(("C", "G")):
            return ChatType.GROUP
        case _:
            return ChatType.UNKNOWN


def readable(text: str, own_user_id: str) -> str:
    """A text as its writer saw it: our own mentions gone, links and mentions of others in words, entities decoded."""
    if own_user_id:
        own = _mention_of(own_user_id)
        text = own.sub("", re.sub(rf"^\s*{own.pattern}[\s:,]*", "", text))
    return _decoded(_CONTROL.sub(_in_words, text)).strip()


# Slack Events API: the two events that carry what people write.
_EVENTS = frozenset({"message", "app_mention"})
# Slack Events API, message subtypes: an upload, and a thread reply also sent to the channel, are written by people. All
# others are notices (of a message changed by its writer or by a link preview, deleted, and so on).
_WRITTEN = frozenset({"", "file_share", "thread_broadcast"})
_SLACKBOT = "USLACKBOT"

_APPROVAL = re.compile(r"apr:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):([yan])")

# Slack's mrkdwn escapes each literal `<` and `>`: what stands between them is always a link or a mention.
_CONTROL = re.compile(r"<([^<>]*)>")


def _none_to_default(value: object) -> object:
    return "" if value is None else value


_Text = Annotated[str, BeforeValidator(_none_to_default)]
_Id = Annotated[str, Field(min_length=1)]


class _Payload(BaseModel):
    """A frozen part of a delivery; fields we do not read are skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _File(_Payload):
    id: _Text = ""
    name: str | None = None
    mimetype: _Text = ""
    size: int | None = None
    url_private: _Text = ""


class _Mark(_Payload):
    """Who edited a message. Link previews leave none, and keep the one that an earlier edit has left."""

    user: _Text = ""


class _Event(_Payload):
    type: str
    subtype: _Text = ""
    channel: _Id
    channel_type: _Text = ""
    user: _Text = ""
    bot_id: _Text = ""
    text: _Text = ""
    ts: _Id
    thread_ts: _Text = ""
    parent_user_id: _Text = ""
    hidden: bool = False
    edited: _Mark | None = None
    files: Annotated[tuple[_File, ...], BeforeValidator(lambda value: value or ())] = ()


class _User(_Payload):
    id: _Text = ""
    username: _Text = ""
    name: _Text = ""


class _Channel(_Payload):
    id: _Text = ""


class _Container(_Payload):
    channel_id: _Text = ""
    thread_ts: _Text = ""


class _Message(_Payload):
    thread_ts: _Text = ""


class _Action(_Payload):
    action_id: _Text = ""
    action_ts: _Text = ""
    value: _Text = ""


class _Press(_Payload):
    user: _User
    channel: _Channel = _Channel()
    container: _Container = _Container()
    message: _Message = _Message()
    trigger_id: _Text = ""
    actions: tuple[_Action, ...] = ()


class _Command(_Payload):
    command: _Id
    text: _Text = ""
    channel_id: _Id
    user_id: _Id
    user_name: _Text = ""
    trigger_id: _Id


_P = TypeVar("_P", bound=_Payload)


def _parsed(model: type[_P], payload: Mapping[str, object]) -> _P | None:
    """The payload as its model, None if it is malformed: a broken delivery is no message, and no reason to stop."""
    try:
        return model.model_validate(payload)
    except ValidationError:
        return None


def _edited(event: Mapping[str, object]) -> Mapping[str, object]:
    """The message inside a `message_changed`, as an event; empty where nobody changed its text."""
    match event:
        case {"message": dict(new), "previous_message": dict(old)} if new.get("text") != old.get("text"):
            mark = new.get("edited")
            if isinstance(mark, dict) and mark.get("user") == new.get("user"):
                place = {key: event[key] for key in ("channel", "channel_type") if key in event}
                return new | place
    return {}


def _mention_of(user_id: str) -> re.Pattern[str]:
    return re.compile(rf"[^\S\n]?<@{re.escape(user_id)}(?:\|[^<>]*)?>")


def _in_words(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    kind, rest = target[:1], target[1:]
    if kind in ("@", "#"):
        return f"{kind}{label or rest}"
    if kind == "!":  # <!here>, <!subteam^ID|@team>, <!date^...|shown>
        return label or f"@{rest.rpartition('^')[2]}"
    if not label or label == target:
        return target.removeprefix("mailto:")
    if target in (f"http://{label}", f"https://{label}", f"mailto:{label}", f"tel:{label}"):
        return label
    return f"{label} ({target})"


def _decoded(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _sender(user: _User) -> Sender:
    username = user.username or user.name
    return Sender(user_id=user.id, display_name=username or user.id, username=username or None)


def _attachment(file: _File) -> Attachment:
    mime_type = file.mimetype or "application/octet-stream"
    return Attachment(
        id=file.id or file.url_private,
        kind=_kind(mime_type),
        mime_type=mime_type,
        filename=file.name,
        size_bytes=file.size,
        source=file.url_private,
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
