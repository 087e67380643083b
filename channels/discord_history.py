"""What was said in a Discord thread before the bot was called into it. A channel's own history stays where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter, ValidationError

from channels.discord_connection import DiscordConnection
from channels.discord_events import NAME, WRITTEN, Channel, Message, Place, sender_of, without_mentions
from channels.errors import Unavailable
from channels.message import ChatType, EarlierMessage, IncomingMessage


async def thread_before(
    connection: DiscordConnection, message: IncomingMessage, limit: int
) -> tuple[EarlierMessage, ...]:
    """At most `limit` messages of a thread before this one, oldest first; none outside threads.

    Of the channel that the thread hangs below, only the message that it began with. Raises `ChannelError`.
    """
    if message.metadata.chat_type is not ChatType.GROUP or not message.message_id.isdecimal() or limit < 1:
        return ()
    chat_id = message.address.chat_id
    try:
        found = await connection.call("GET", "/channels/{channel_id}", channel_id=chat_id)
        if Channel.model_validate(found).type not in _THREADS:
            return ()
        answer = await connection.call(
            "GET",
            "/channels/{channel_id}/messages?before={before}&limit={limit}",
            channel_id=chat_id,
            before=message.message_id,
            limit=str(min(limit, _MOST)),
        )
        return tuple(_said(_HISTORY.validate_python(answer), Place(connection.own_id)))
    except ValidationError as error:
        raise Unavailable(NAME, "a history that is not Discord's") from error


def _said(found: Sequence[Message], place: Place) -> Iterator[EarlierMessage]:
    for message in sorted(found, key=lambda message: int(message.id)):
        starter = message.referenced_message if message.type == _STARTER else None
        if starter is None and message.type not in WRITTEN:
            continue
        author, content = (starter or message).author, (starter or message).content
        text = without_mentions(content, place)
        if text:
            sent_at = (starter.timestamp if starter else None) or message.timestamp
            yield EarlierMessage(
                sender=sender_of(author, None), text=text, sent_at=sent_at, is_ours=author.id == place.own_id
            )


# Discord API, channel types: threads of announcements, public and private ones.
_THREADS = frozenset({10, 11, 12})
# Discord API, message types: THREAD_STARTER_MESSAGE, which refers to the message in the channel above.
_STARTER = 21
# Discord API, channel messages: 1-100 at a time.
_MOST = 100

_HISTORY: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])
