"""The page's chat API: messages, approvals, threads, history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from math import ceil
from urllib.parse import quote
from uuid import UUID, uuid4

from aiohttp import web

from agent.clock import Clock
from bot.web.access import FixedWindow
from bot.web.backend import History, SentView, ThreadSummary, WebBackend
from bot.web.bodies import ApprovalAction, ApprovalBody, SendBody, read_json
from bot.web.errors import Refused
from channels.base import Accepted
from channels.files import SHOWN_IMAGES
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, Sender
from channels.web import MAIN_CONVERSATION, OPERATOR_ID, EventName, WebChannel, file_data

SENDS_PER_WINDOW = 30
WINDOW = timedelta(seconds=60)


class ChatApi:
    """The request handlers below `/api/chat/`. Who may call them is decided before."""

    def __init__(self, channel: WebChannel, backend: WebBackend, clock: Clock) -> None:
        self._channel = channel
        self._backend = backend
        self._clock = clock
        self._sends = FixedWindow(SENDS_PER_WINDOW, WINDOW)

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Take a message. The same `Idempotency-Key` (a UUID) makes a repeated request harmless."""
        body = await read_json(request, SendBody)
        message_id = _idempotency_key(request) or uuid4()
        self._admit()
        address = await self._address(body.thread_id, message_id)
        metadata = MessageMetadata(chat_type=ChatType.PRIVATE, timezone=body.timezone)
        accepted = await self._submit(str(message_id), address, body.content, metadata)
        # Another page of the operator learns that the conversation went on; the text itself is in the store alone.
        notice = {"code": "message_received", "message_id": str(message_id), "conversation": address.chat_id}
        self._channel.hub.publish(EventName.STATUS, notice, user=OPERATOR_ID)
        return web.json_response(_receipt(str(message_id), address, accepted), status=202)

    async def approval(self, request: web.Request) -> web.StreamResponse:
        """Take the answer to an approval question. Only the first answer to a question counts."""
        body = await read_json(request, ApprovalBody)
        address = await self._address(body.thread_id, body.request_id)
        answer = {
            "request_id": str(body.request_id),
            "approved": body.action is not ApprovalAction.DENY,
            "always": body.action is ApprovalAction.ALWAYS,
        }
        metadata = MessageMetadata(chat_type=ChatType.PRIVATE, structured=True, answers_approval=str(body.request_id))
        # One id for every answer to a question: the second is taken for a repeated delivery of the first.
        message_id = f"approval-{body.request_id}"
        accepted = await self._submit(message_id, address, json.dumps({"ExecApproval": answer}), metadata)
        return web.json_response(_receipt(message_id, address, accepted), status=202)

    async def threads(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"threads": [_thread_json(each) for each in await self._backend.threads()]})

    async def history(self, request: web.Request) -> web.StreamResponse:
        """A thread's turns; without `thread_id` those of the present thread of the main conversation."""
        text = request.query.get("thread_id")
        try:
            thread_id = UUID(text) if text else None
        except ValueError as error:
            raise Refused(
                400, "bad_request", "thread_id: a UUID is expected, as /api/chat/threads lists them."
            ) from error
        return web.json_response(_history_json(await self._backend.history(thread_id)))

    async def file(self, request: web.Request) -> web.StreamResponse:
        """The content of a file that was sent to the page. Only plain images are shown, all else is saved."""
        found = await self._backend.file(request.match_info["digest"])
        is_shown = found.file.mime_type in SHOWN_IMAGES
        name = quote(found.file.filename, safe="")
        disposition = f"{'inline' if is_shown else 'attachment'}; filename*=UTF-8''{name}"
        headers = {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=found.data, content_type=found.file.mime_type, headers=headers)

    def _admit(self) -> None:
        wait = self._sends.admit(self._clock.now())
        if wait is not None:
            seconds = max(1, ceil(wait.total_seconds()))
            text = f"At most {SENDS_PER_WINDOW} messages a minute; wait {seconds} seconds and send it again."
            raise Refused(429, "rate_limited", text, {"Retry-After": str(seconds)})

    async def _address(self, thread_id: UUID | str | None, message_id: UUID) -> Address:
        """Where a message belongs. A new conversation is named after its first message: a repeat opens no second."""
        match thread_id:
            case None:
                return Address(channel=self._channel.name, chat_id=MAIN_CONVERSATION)
            case UUID():
                return await self._backend.address_of(thread_id)
            case _:
                return Address(channel=self._channel.name, chat_id=message_id.hex)

    async def _submit(self, message_id: str, address: Address, text: str, metadata: MessageMetadata) -> Accepted:
        message = IncomingMessage(
            message_id=message_id,
            address=address,
            sender=Sender(user_id=OPERATOR_ID),
            text=text,
            metadata=metadata,
            received_at=self._clock.now(),
        )
        return await self._channel.submit(message)


def _idempotency_key(request: web.Request) -> UUID | None:
    text = request.headers.get("Idempotency-Key")
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise Refused(400, "bad_request", "Idempotency-Key: a UUID is expected.") from error


def _receipt(message_id: str, address: Address, accepted: Accepted) -> Mapping[str, str | None]:
    return {
        "message_id": message_id,
        "thread_id": str(accepted.thread_id) if accepted.thread_id else None,
        "conversation": address.chat_id,
        "note": accepted.note,
    }


def _thread_json(thread: ThreadSummary) -> Mapping[str, str]:
    return {
        "id": str(thread.id),
        "conversation": thread.conversation,
        "title": thread.title,
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.updated_at.isoformat(),
        "state": thread.state,
    }


def _sent_json(sent: SentView) -> Mapping[str, object]:
    files = [file_data(file) for file in sent.files]
    return {"message_id": str(sent.message_id), "text": sent.text, "files": files}


def _history_json(history: History) -> Mapping[str, object]:
    pending = history.pending_approval
    return {
        "thread_id": str(history.thread_id),
        "conversation": history.conversation,
        "turns": [
            asdict(turn)
            | {
                "message_id": str(turn.message_id) if turn.message_id else None,
                "messages": [_sent_json(each) for each in turn.messages],
            }
            for turn in history.turns
        ],
        "pending_approval": None if pending is None else asdict(pending) | {"request_id": str(pending.request_id)},
    }
