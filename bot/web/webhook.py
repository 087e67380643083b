"""`POST /webhook`: other programs talk to the bot. A post is known by its signature before a byte of it is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Protocol, assert_never

from pydantic import SecretStr

from agent.clock import Clock
from agent.store.blobs import Blob
from bot.web.access import FixedWindow, bears_signature, has_signature
from bot.web.deliveries import DeliveryAnswer, DeliveryRoute
from bot.web.errors import Refused
from bot.web.webhook_post import MOST_BYTES, Post, parse_post
from channels.files import refused_notice
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, OutgoingMessage, Sender
from channels.webhook import (
    CALLER_ID,
    MOST_WAITING,
    NAME,
    PATIENCE,
    Reply,
    Silence,
    TooManyWaiting,
    WebhookChannel,
    replies_to,
)

PATH = "/webhook"
POSTS_PER_WINDOW = 60
WINDOW = timedelta(seconds=60)
_ANSWER_WITHIN = PATIENCE + timedelta(seconds=15)
_JSON = "application/json"


class Files(Protocol):
    """Keeps the files of a post until its turn has read them."""

    async def keep(self, files: Sequence[Blob]) -> None: ...


class WebhookPosts:
    """Takes posts, and answers those who wait."""

    def __init__(self, channel: WebhookChannel, files: Files, secret: SecretStr, clock: Clock) -> None:
        self._channel = channel
        self._files = files
        self._secret = secret
        self._clock = clock
        self._posts = FixedWindow(POSTS_PER_WINDOW, WINDOW)

    @property
    def route(self) -> DeliveryRoute:
        """Where it listens. What bears no signature at all is refused before its body is read."""
        return DeliveryRoute(PATH, self.handle, MOST_BYTES, _ANSWER_WITHIN, _admit_headers)

    async def handle(self, body: bytes, headers: Mapping[str, str]) -> DeliveryAnswer:
        """Take one post. Raises Refused."""
        if not await asyncio.to_thread(bears_signature, headers, body, self._secret.get_secret_value()):
            raise _unsigned()
        self._admit()
        post = await asyncio.to_thread(parse_post, body)
        if post.waits and self._channel.waiting >= MOST_WAITING:
            raise _too_many()  # before anything of it is kept
        if post.files:
            await self._files.keep(post.files)
        message = self._message(post)
        if not post.waits:
            await self._channel.submit(message)
            return _answer(202, _receipt(post))
        try:
            said = await self._channel.ask(message)
        except TooManyWaiting as error:
            raise _too_many() from error
        return _told(post, said)

    def _admit(self) -> None:
        """Only signed posts count: who has no secret cannot use up the minute of those who have it."""
        wait = self._posts.admit(self._clock.now())
        if wait is not None:
            seconds = max(1, ceil(wait.total_seconds()))
            text = f"At most {POSTS_PER_WINDOW} posts a minute; wait {seconds} seconds and send it again."
            raise Refused(429, "rate_limited", text, {"Retry-After": str(seconds)})

    def _message(self, post: Post) -> IncomingMessage:
        return IncomingMessage(
            message_id=post.message_id,
            address=Address(channel=NAME, chat_id=post.conversation),
            sender=Sender(user_id=CALLER_ID),
            text=post.text,
            attachments=post.attachments,
            metadata=MessageMetadata(chat_type=ChatType.PRIVATE),
            received_at=self._clock.now(),
            reply_address=replies_to(post.conversation, post.message_id),
        )


def _told(post: Post, said: Reply | Silence) -> DeliveryAnswer:
    again = f'Post it again with "id": "{post.message_id}" and the same thread_id to have the answer.'
    match said:
        case Reply(message, ahead):
            return _answer(200, _receipt(post) | _reply(message, ahead))
        case Silence.NOT_YET:
            seconds = int(PATIENCE.total_seconds())
            text = f"The answer was not ready within {seconds} seconds. The message is kept and being answered. {again}"
            return _failure(504, "not_ready", text, post)
        case Silence.STOPPING:
            text = f"The bot is stopping. The message is kept and will be answered after its start. {again}"
            return _failure(503, "stopping", text, post)
        case Silence.NONE:
            return _answer(200, _receipt(post) | {"response": None, "kind": "none", "messages": []})
        case unreachable:
            assert_never(unreachable)


def _receipt(post: Post) -> dict[str, object]:
    return {"message_id": post.message_id, "thread_id": post.conversation}


def _reply(message: OutgoingMessage, ahead: Sequence[OutgoingMessage]) -> dict[str, object]:
    told: dict[str, object] = {
        "response": _text(message),
        "kind": message.kind.value,
        "messages": [_text(each) for each in ahead],
    }
    return told | ({"request_id": message.approval_id} if message.approval_id else {})


def _text(message: OutgoingMessage) -> str:
    """The text as Markdown, with a line in the place of each file."""
    return "\n\n".join(filter(None, (message.text, *(refused_notice(file, "the webhook") for file in message.files))))


def _failure(status: int, code: str, message: str, post: Post) -> DeliveryAnswer:
    return _answer(status, {"error": {"code": code, "message": message}} | _receipt(post))


def _answer(status: int, content: Mapping[str, object]) -> DeliveryAnswer:
    return DeliveryAnswer(status, _JSON, json.dumps(content, ensure_ascii=False))


def _admit_headers(headers: Mapping[str, str]) -> None:
    if not has_signature(headers):
        raise _unsigned()


def _unsigned() -> Refused:
    text = (
        "Send the header X-Hub-Signature-256: sha256= and the HMAC-SHA256 of the body under WEBHOOK_SECRET, in "
        "hexadecimal. A secret in the body is not looked at."
    )
    return Refused(401, "bad_signature", text)


def _too_many() -> Refused:
    text = f"{MOST_WAITING} callers wait already; nothing was kept. Try again, or post without wait_for_response."
    return Refused(503, "too_many_waiting", text, {"Retry-After": "10"})
