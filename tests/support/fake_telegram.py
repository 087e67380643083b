"""A strict Bot API on a loopback socket, and a clock that makes waiting for it instant.

It refuses what Telegram refuses: texts outside 1-4096 UTF-16 units, entities that lie outside the text, halve a
character or mix code with other styles, unchanged edits, replies to and edits of unknown messages, unknown topics (1
too), long button data, a second answer to a button, a second poller, a wrong token.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import web

from tests.support.file_answer import file_answer

TOKEN = "123456789:AAfakeTokenForTestsOnLoopbackSocket0"
BOT_ID = 123456789
USERNAME = "Our_Bot"

Json = dict[str, Any]


class LeapingClock:
    """A clock whose sleeps are over at once: time leaps ahead. `slept` lists them."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
        self.slept: list[timedelta] = []

    def now(self) -> datetime:
        return self._now

    def advance(self, duration: timedelta) -> None:
        self._now += duration

    async def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration)
        self._now += duration
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Call:
    """One request, with the parameters as Telegram reads them."""

    method: str
    params: Json
    refused: str = ""


@dataclass(frozen=True)
class Uploaded:
    """A file of a request."""

    filename: str
    content_type: str
    data: bytes


@dataclass(frozen=True)
class Refusal(Exception):
    """An answer other than ok. `processed`: the request takes effect all the same; `status` 0 cuts the connection."""

    status: int
    description: str
    parameters: Json = field(default_factory=dict)
    processed: bool = False


def flood(seconds: int) -> Refusal:
    return Refusal(429, f"Too Many Requests: retry after {seconds}", {"retry_after": seconds})


CONFLICT = Refusal(409, "Conflict: terminated by other getUpdates request")
CANT_PARSE = Refusal(400, "Bad Request: can't parse entities: unsupported")


class FakeTelegram:
    """An async context manager; `refuse` plans faults, `said` and the like make updates, `wait` waits for calls."""

    def __init__(self, *, reads_all: bool = True) -> None:
        self.calls: list[Call] = []
        self.messages: dict[tuple[int, int], Json] = {}
        self.topics: set[tuple[int, int]] = set()
        self.buttons: set[str] = set()
        self.updates: list[Json] = []
        self.webhook: Json = {}
        self.offsets: list[int] = []
        self.reads_all = reads_all
        self.files: dict[str, bytes] = {}
        self.file_path = "documents/{}"
        self.tells_length = True
        self.most_bytes = 50_000_000
        self.base_url = ""
        self._planned: dict[str, deque[Refusal | None]] = defaultdict(deque)
        self._numbers = 100
        self._poll = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64_000_000)
        app.router.add_post("/bot{token}/{method}", self._handle)
        app.router.add_get("/file/bot{token}/documents/{file}", self._file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        self._poll += 1
        await self._notify()
        await self._runner.cleanup()

    # What tests arrange

    def refuse(self, method: str, *refusals: Refusal | None) -> None:
        """Plan the answers to the next calls of a method; None lets one through."""
        self._planned[method].extend(refusals)

    async def push(self, *updates: Json) -> None:
        """Make updates available, in one batch."""
        self.updates.extend(updates)
        await self._notify()

    def update(self, **payload: Any) -> Json:
        self._numbers += 1
        return {"update_id": self._numbers, **payload}

    def said(
        self, text: str | None, *, chat_id: int = 7, user_id: int = 7, topic: int | None = None, **more: Any
    ) -> Json:
        """An update with a message of a person; in a supergroup if `chat_id` is negative."""
        chat: Json = {"id": chat_id, "type": "private", "first_name": "Ada"}
        if chat_id < 0:
            chat = {"id": chat_id, "type": "supergroup", "title": "Crew"}
        self._numbers += 1
        message = {
            "message_id": self._numbers,
            "date": 1_772_000_000,
            "chat": chat,
            "from": {"id": user_id, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada"},
            "text": text,
        }
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        message |= more
        self.messages[chat_id, self._numbers] = message
        return self.update(message={key: value for key, value in message.items() if value is not None})

    def edited(self, update: Json, text: str, **more: Any) -> Json:
        """An update in which the writer of an earlier one has changed its text."""
        return self.update(edited_message=update["message"] | {"text": text, "edit_date": 1_772_000_005} | more)

    def pressed(self, data: str, *, chat_id: int = 7, message_id: int = 1, query: str = "q1") -> Json:
        """An update with a button that somebody pressed."""
        self.buttons.add(query)
        message = {"message_id": message_id, "date": 0, "chat": {"id": chat_id, "type": "private"}}
        person = {"id": 7, "is_bot": False, "first_name": "Ada"}
        return self.update(callback_query={"id": query, "from": person, "message": message, "data": data})

    # What tests look at

    def made(self, method: str) -> list[Json]:
        """The parameters of all calls of a method that were not refused."""
        return [call.params for call in self.calls if call.method == method and not call.refused]

    def tried(self, method: str) -> list[Json]:
        """The parameters of all calls of a method."""
        return [call.params for call in self.calls if call.method == method]

    async def wait(self, holds: Callable[[], bool]) -> None:
        """Return as soon as something holds; it is looked at after each call."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(holds)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # The server

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        params = await _params(request)
        method, refusal, result = request.match_info["method"], None, None
        try:
            if request.match_info["token"] != TOKEN:
                raise Refusal(401, "Unauthorized")
            planned = self._planned[method].popleft() if self._planned[method] else None
            if planned is not None and not planned.processed:
                raise planned
            result = await self._get_updates(params) if method == "getUpdates" else self._answer(method, params)
            if planned is not None:
                raise planned
        except Refusal as raised:
            refusal = raised
        self.calls.append(Call(method, params, refusal.description if refusal else ""))
        await self._notify()
        if refusal is None:
            return web.json_response({"ok": True, "result": result})
        if refusal.status == 0:
            assert request.transport is not None
            request.transport.abort()
        body: Json = {"ok": False, "error_code": refusal.status, "description": refusal.description}
        return web.json_response(
            body | ({"parameters": refusal.parameters} if refusal.parameters else {}), status=refusal.status or 500
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(Call("file", dict(request.match_info)))
        planned = self._planned["file"].popleft() if self._planned["file"] else None
        content = self.files.get(request.match_info["file"])
        if planned is not None and planned.status == 0:
            assert request.transport is not None
            request.transport.abort()
        if planned is not None or content is None or request.match_info["token"] != TOKEN:
            return web.Response(status=planned.status if planned else 404)
        return await file_answer(request, content, tells_length=self.tells_length)

    async def _get_updates(self, params: Json) -> list[Json]:
        if self.webhook:
            raise Refusal(409, "Conflict: can't use getUpdates method while webhook is active")
        self._poll += 1
        mine = self._poll
        offset = int(params.get("offset", 0))
        self.offsets.append(offset)
        self.updates = [
            update
            for update in self.updates
            if not isinstance(update.get("update_id"), int) or update["update_id"] >= offset
        ]
        await self._notify()
        allowed = set(params.get("allowed_updates", []))

        def wanted() -> list[Json]:
            return [u for u in self.updates if not allowed or allowed & u.keys() or len(u) == 1]

        try:
            async with asyncio.timeout(int(params.get("timeout", 0))), self._changed:
                await self._changed.wait_for(lambda: wanted() or self._poll != mine)
        except TimeoutError:
            pass
        if self._poll != mine:
            raise CONFLICT
        return wanted()[: int(params.get("limit", 100))]

    def _answer(self, method: str, params: Json) -> object:
        match method:
            case "getMe":
                return _me() | {
                    "can_join_groups": True,
                    "can_read_all_group_messages": self.reads_all,
                    "supports_inline_queries": False,
                }
            case "sendMessage":
                return self._send(params)
            case "sendPhoto" | "sendDocument":
                return self._upload(method, params)
            case "editMessageText":
                return self._edit(params)
            case "sendMessageDraft":
                return self._draft(params)
            case "sendChatAction":
                self._check_topic(params)
            case "answerCallbackQuery":
                if params["callback_query_id"] not in self.buttons:
                    raise Refusal(
                        400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
                    )
                self.buttons.discard(params["callback_query_id"])
            case "getFile":
                if params["file_id"] not in self.files:
                    raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
                size = {"file_size": len(self.files[params["file_id"]])} if self.tells_length else {}
                path = self.file_path.format(params["file_id"])
                return {"file_id": params["file_id"], "file_unique_id": "u", "file_path": path} | size
            case "setWebhook":
                self.webhook = params
            case "deleteWebhook":
                self.webhook = {}
                if params.get("drop_pending_updates"):
                    self.updates.clear()
            case "setMyCommands":
                pass
            case _:
                raise Refusal(404, "Not Found")
        return True

    def _send(self, params: Json) -> Json:
        self._check_topic(params)
        chat_id = int(params["chat_id"])
        reply = params.get("reply_parameters")
        if (
            reply
            and not reply.get("allow_sending_without_reply")
            and (chat_id, reply["message_id"]) not in self.messages
        ):
            raise Refusal(400, "Bad Request: message to be replied not found")
        self._numbers += 1
        return self._store(chat_id, self._numbers, params)

    def _upload(self, method: str, params: Json) -> Json:
        """A file counts as a photo only where Telegram could make one of it."""
        name = {"sendPhoto": "photo", "sendDocument": "document"}[method]
        upload: Uploaded = params[name]
        if len(upload.data) > self.most_bytes:
            raise Refusal(413, "Request Entity Too Large")
        if name == "photo" and not upload.data.startswith((b"\x89PNG", b"\xff\xd8\xff", b"RIFF")):
            raise Refusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
        self._check_topic(params)
        self._numbers += 1
        chat_id = int(params["chat_id"])
        message = {
            "message_id": self._numbers,
            "date": 1_772_000_001,
            "chat": {"id": chat_id, "type": "supergroup" if chat_id < 0 else "private"},
            "from": _me(),
        }
        self.messages[chat_id, self._numbers] = message
        return message

    def _edit(self, params: Json) -> Json:
        chat_id, message_id = int(params["chat_id"]), int(params["message_id"])
        old = self.messages.get((chat_id, message_id))
        if old is None or not old["from"]["is_bot"]:
            raise Refusal(400, "Bad Request: message to edit not found")
        same = all(old.get(key) == params.get(key) for key in ("text", "entities", "reply_markup"))
        if same:
            raise Refusal(400, "Bad Request: message is not modified: specified new message content is the same")
        return self._store(chat_id, message_id, params)

    def _store(self, chat_id: int, message_id: int, params: Json) -> Json:
        _check_text(params)
        for row in params.get("reply_markup", {}).get("inline_keyboard", []):
            for button in row:
                if not 1 <= len(button["callback_data"].encode()) <= 64:
                    raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
        kind = "supergroup" if chat_id < 0 else "private"
        message = {
            "message_id": message_id,
            "date": 1_772_000_001,
            "chat": {"id": chat_id, "type": kind},
            "from": _me(),
        }
        message |= {key: params[key] for key in ("text", "entities", "reply_markup") if key in params}
        self.messages[chat_id, message_id] = message
        return message

    def _draft(self, params: Json) -> bool:
        if int(params["chat_id"]) < 0:
            raise Refusal(400, "Bad Request: drafts are for private chats")
        if not int(params["draft_id"]):
            raise Refusal(400, "Bad Request: DRAFT_ID_INVALID")
        _check_text(params)
        return True

    def _check_topic(self, params: Json) -> None:
        topic = params.get("message_thread_id")
        if topic is not None and (int(params["chat_id"]), int(topic)) not in self.topics:
            raise Refusal(400, "Bad Request: message thread not found")


def _me() -> Json:
    return {"id": BOT_ID, "is_bot": True, "first_name": "Ours", "username": USERNAME}


async def _params(request: web.Request) -> Json:
    if request.content_type == "multipart/form-data":
        return await _form(request)
    pairs = [*request.query.items(), *parse_qsl((await request.read()).decode(), keep_blank_values=True)]
    return {
        key: json.loads(value) if value[:1] in ("{", "[") and key not in ("text", "url") else value
        for key, value in pairs
    }


async def _form(request: web.Request) -> Json:
    params: Json = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            params[name] = Uploaded(value.filename, value.content_type, value.file.read())
        else:
            params[name] = json.loads(str(value)) if str(value)[:1] in ("{", "[") else value
    return params


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def styled(params: Json) -> list[tuple[str, str]]:
    """The entities of a message as (type, text)."""
    units = utf16(params["text"])
    return [
        (entity["type"], units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le"))
        for entity in params.get("entities", [])
    ]


def _check_text(params: Json) -> None:
    text = params["text"]
    units = utf16(text)
    if not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    if len(units) // 2 > 4096:
        raise Refusal(400, "Bad Request: message is too long")
    try:
        text.encode()
        ranges = [(e["type"], e["offset"], e["offset"] + e["length"]) for e in params.get("entities", [])]
        for _, start, end in ranges:
            if not 0 <= start < end <= len(units) // 2:
                raise Refusal(400, "Bad Request: can't parse entities: out of range")
            for piece in (units[: 2 * start], units[: 2 * end]):
                piece.decode("utf-16-le")
    except UnicodeError:
        raise Refusal(400, "Bad Request: strings must be encoded in UTF-8") from None
    for kind, start, end in ranges:
        for other, begin, stop in ranges:
            overlaps = start < stop and begin < end and (kind, start, end) != (other, begin, stop)
            if overlaps and kind in ("code", "pre") and other != "blockquote":
                raise Refusal(400, "Bad Request: can't parse entities: code may not mix with other styles")
            if overlaps and kind == other == "blockquote":
                raise Refusal(400, "Bad Request: can't parse entities: nested quotes")
