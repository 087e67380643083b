"""A strict fake of Slack on a loopback socket: Web API, Socket Mode, and signatures for the Events API.

It refuses what Slack refuses (tokens, unknown places, long texts, malformed blocks, foreign edits) and notes what Slack
would let through but we must not send. Nothing happens by timers: a test delivers, repeats, breaks and waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import WSMsgType, web

from tests.support.file_answer import file_answer

BOT_TOKEN = "xoxb-1-loopback-canary"
APP_TOKEN = "xapp-1-loopback-canary"
SIGNING_SECRET = "signing-secret-canary"
BOT_USER, BOT_ID, TEAM = "U0BOT", "B0BOT", "T0TEAM"

_PINGS = re.compile(r"<[!@#]|@(?:everyone|channel|here)\b", re.IGNORECASE)
_LINK = re.compile(r"<(?:https?://|mailto:)[^<>|\s]*(?:\|[^<>|]*)?>")


class Refused(Exception):
    """Slack says `ok: false` with this error."""


@dataclass
class Call:
    method: str
    params: dict[str, Any]


@dataclass
class Post:
    """A message in a chat, as the chat shows it now."""

    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] | None = None
    ephemeral_for: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def buttons(self) -> list[dict[str, Any]]:
        return [e for block in self.blocks if block["type"] == "actions" for e in block["elements"]]


@dataclass
class Upload:
    """A file on its way in; `data` is None until it has arrived. `shown`: a post shows it."""

    id: str
    filename: str
    length: int
    data: bytes | None = None
    shown: bool = False


@dataclass
class Envelope:
    body: dict[str, Any]
    acked: asyncio.Event = field(default_factory=asyncio.Event)
    deliveries: int = 0


@dataclass
class Fault:
    """What the next calls of a method get instead of an answer."""

    times: int
    status: int = 200
    error: str = ""
    retry_after: str | None = None
    lose_answer: bool = False
    scope: str | None = None


class FakeSlack:
    """`async with FakeSlack() as slack:`; its address is `api_base_url`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.posts: dict[tuple[str, str], Post] = {}
        self.violations: list[str] = []
        self.people = {"U1": "alice", "U2": "bob"}
        self.channels = {"D1", "C1", "G1"}
        self.sockets: list[web.WebSocketResponse] = []
        self.connections = 0
        self.answers_pings = True
        self.greets = True
        self.hold: dict[str, asyncio.Event] = {}
        self.files: dict[str, bytes] = {}
        self.file_requests: list[tuple[str, str]] = []
        self.files_need_sign_in = False
        self.tells_length = True
        self.uploads: dict[str, Upload] = {}
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._envelopes: dict[str, Envelope] = {}
        self._count = 0
        self._changed = asyncio.Condition()
        self._port = 0

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64_000_000)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link", self._socket)
        app.router.add_get("/files-pri/{name}", self._file)
        app.router.add_post("/upload/{id}", self._take_upload)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for event in self.hold.values():
            event.set()
        for socket in self.sockets:
            await socket.close()
        await self._runner.cleanup()

    @property
    def api_base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api/"

    @property
    def files_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/files-pri"

    # -- what tests do ---------------------------------------------------------------------------------------------
    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something is so; it is looked at after each change."""
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: bool(holds()))

    def fail(self, method: str, times: int = 1, **fault: Any) -> None:
        self._faults[method].append(Fault(times, **fault))

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def files_in(self, channel: str) -> list[tuple[str, bytes | None, str | None]]:
        """The files a chat shows, oldest first: name, content, thread."""
        return [
            (self.uploads[each["id"]].filename, self.uploads[each["id"]].data, post.thread_ts)
            for post in self.shown(channel)
            for each in post.extra.get("files", [])
        ]

    def shown(self, channel: str) -> list[Post]:
        """What everybody sees in a chat, oldest first."""
        return [post for post in self.posts.values() if post.channel == channel and post.ephemeral_for is None]

    def ts(self) -> str:
        self._count += 1
        return f"1780000000.{self._count:06d}"

    def say(self, text: str, channel: str = "C1", user: str = "U1", **extra: Any) -> dict[str, Any]:
        """The `message` event of a person who writes in a chat."""
        kind = {"D": "im", "G": "group"}.get(channel[0], "channel")
        event = {"type": "message", "channel": channel, "channel_type": kind, "user": user, "text": text}
        event |= {"ts": self.ts(), "team": TEAM, "client_msg_id": "x"} | extra
        marks: dict[str, Any] = {key: value for key, value in extra.items() if key in ("subtype", "bot_id", "username")}
        post = Post(channel, event["ts"], user, text, event.get("thread_ts"), extra=marks)
        self.posts[channel, event["ts"]] = post
        return event

    def change(self, said: dict[str, Any], text: str, by: str | None = None, **extra: Any) -> dict[str, Any]:
        """The event of a changed message: edited by a person, or else by Slack itself."""
        old = {key: value for key, value in said.items() if key not in ("channel", "channel_type")}
        edited = {"edited": {"user": by, "ts": self.ts()}} if by else {}
        new = old | {"text": text} | edited | extra
        place = {"channel": said["channel"], "channel_type": said["channel_type"], "hidden": True}
        changed = {"type": "message", "subtype": "message_changed", "message": new, "previous_message": old}
        return changed | place | {"ts": self.ts()}

    async def deliver(self, event: dict[str, Any]) -> Envelope:
        """Deliver an event by Socket Mode."""
        body = {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{self.ts()}", "event": event}
        return await self.send("events_api", body)

    async def press(self, post: Post, value: str, user: str = "U1") -> Envelope:
        """Deliver the press of a button."""
        return await self.send("interactive", self.press_payload(post, value, user))

    def press_payload(self, post: Post, value: str, user: str = "U1") -> dict[str, Any]:
        button = next(b for b in post.buttons if b["value"] == value)
        thread = {"thread_ts": post.thread_ts} if post.thread_ts else {}
        return {
            "type": "block_actions",
            "user": {"id": user, "username": self.people[user], "name": self.people[user], "team_id": TEAM},
            "container": {"type": "message", "message_ts": post.ts, "channel_id": post.channel} | thread,
            "channel": {"id": post.channel, "name": "x"},
            "message": {"ts": post.ts, "text": post.text} | thread,
            "trigger_id": f"trigger-{self.ts()}",
            "actions": [button | {"block_id": "b", "action_ts": self.ts()}],
        }

    async def send(self, kind: str, payload: dict[str, Any]) -> Envelope:
        envelope_id = f"envelope-{self.ts()}"
        envelope = Envelope({"type": kind, "envelope_id": envelope_id, "payload": payload})
        self._envelopes[envelope_id] = envelope
        await self.repeat(envelope)
        return envelope

    async def repeat(self, envelope: Envelope) -> None:
        """Deliver an envelope, once more if it was before, on the newest connection."""
        await self.until(lambda: self.sockets)
        extra = {"retry_attempt": envelope.deliveries, "retry_reason": "timeout"} if envelope.deliveries else {}
        envelope.deliveries += 1
        await self.sockets[-1].send_json(envelope.body | extra)

    async def ask_to_reconnect(self, reason: str = "refresh_requested") -> None:
        await self.sockets[-1].send_json({"type": "disconnect", "reason": reason, "debug_info": {}})

    def drop(self) -> None:
        """The newest connection dies without a word."""
        transport = self.sockets[-1]._req.transport if self.sockets[-1]._req else None
        assert transport is not None
        transport.close()

    # -- Socket Mode -----------------------------------------------------------------------------------------------
    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=self.answers_pings)
        await socket.prepare(request)
        self.connections += 1
        if self.greets:
            await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self.sockets.append(socket)
        await self._tell()
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                self._envelopes[json.loads(frame.data)["envelope_id"]].acked.set()
                await self._tell()
        self.sockets.remove(socket)
        await self._tell()
        return socket

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name, content = request.match_info["name"], self.files.get(request.match_info["name"])
        self.file_requests.append((name, request.headers.get("Authorization", "")))
        if self.files_need_sign_in:
            raise web.HTTPFound("https://team.slack.com/?redir=files")
        if content is None:
            return web.Response(status=404)
        return await file_answer(request, content, tells_length=self.tells_length)

    async def _take_upload(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            self.violations.append("a token for an upload")
        self.calls.append(Call("upload", {"id": request.match_info["id"]}))
        upload = self.uploads[request.match_info["id"]]
        upload.data = await request.read()
        fault = next((f for f in self._faults["upload"] if f.times > 0), None)
        await self._tell()
        if fault is not None:
            fault.times -= 1
            return web.Response(status=fault.status)
        return web.Response(text=f"OK - {len(upload.data)}")

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- Web API ---------------------------------------------------------------------------------------------------
    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        params = await _params(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.append(Call(method, params))
        if "token" in params or "canary" in str(request.rel_url):
            self.violations.append("a token in the address")
        if method in self.hold:
            await self._tell()
            await self.hold[method].wait()
        fault = next((f for f in self._faults[method] if f.times > 0), None)
        if fault is not None:
            fault.times -= 1
        try:
            if fault is not None and not fault.lose_answer:
                return _refusal(fault)
            answer = self._answer(method, params, token)
            if fault is not None and request.transport is not None:
                request.transport.close()
            return web.json_response({"ok": True} | answer)
        except Refused as error:
            return web.json_response({"ok": False, "error": str(error)})
        finally:
            await self._tell()

    def _answer(self, method: str, params: dict[str, Any], token: str) -> dict[str, Any]:
        if token != (APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN):
            raise Refused("invalid_auth" if token else "not_authed")
        match method:
            case "auth.test":
                return {"user_id": BOT_USER, "bot_id": BOT_ID, "team_id": TEAM, "user": "optimclaw"}
            case "apps.connections.open":
                return {"url": f"ws://127.0.0.1:{self._port}/link?ticket=ticket-canary-{self.ts()}"}
            case "chat.postMessage":
                return self._post(params)
            case "chat.postEphemeral":
                self._known_user(params["user"])
                post = self._new_post(params)
                post.ephemeral_for = params["user"]
                return {"message_ts": post.ts}
            case "chat.update":
                return self._update(params)
            case "files.getUploadURLExternal":
                upload = Upload(f"F{len(self.uploads) + 1}", params["filename"], int(params["length"]))
                self.uploads[upload.id] = upload
                return {"upload_url": f"http://127.0.0.1:{self._port}/upload/{upload.id}", "file_id": upload.id}
            case "files.completeUploadExternal":
                return self._complete(params)
            case "assistant.threads.setStatus":
                self._thread(params["channel_id"], params["thread_ts"])
                return {}
            case "users.info":
                name = self._known_user(params["user"])
                profile = {"display_name": name.title(), "real_name": name.title()}
                return {"user": {"id": params["user"], "name": name, "profile": profile}}
            case "conversations.open":
                self._known_user(params["users"])
                return {"channel": {"id": f"D{params['users'][1:]}"}}
            case "conversations.history":
                return self._history(params, lambda post: post.thread_ts is None)
            case "conversations.replies":
                self._thread(params["channel"], params["ts"])
                return self._history(params, lambda post: params["ts"] in (post.ts, post.thread_ts))
            case _:
                raise Refused("unknown_method")

    def _known_user(self, user: str) -> str:
        if user not in self.people:
            raise Refused("user_not_found")
        return self.people[user]

    def _thread(self, channel: str, thread_ts: str | None) -> None:
        if channel not in self.channels:
            raise Refused("channel_not_found")
        if thread_ts is not None and (channel, thread_ts) not in self.posts:
            raise Refused("thread_not_found")

    def _post(self, params: dict[str, Any]) -> dict[str, Any]:
        post = self._new_post(params)
        return {"channel": post.channel, "ts": post.ts, "message": {"text": post.text}}

    def _new_post(self, params: dict[str, Any]) -> Post:
        self._thread(params["channel"], params.get("thread_ts"))
        self._check(params)
        post = Post(
            params["channel"],
            self.ts(),
            BOT_USER,
            params["text"],
            params.get("thread_ts"),
            params.get("blocks") or [],
            params.get("metadata"),
        )
        self.posts[post.channel, post.ts] = post
        return post

    def _complete(self, params: dict[str, Any]) -> dict[str, Any]:
        self._thread(params["channel_id"], params.get("thread_ts"))
        for given in json.loads(params["files"]):
            upload = self.uploads.get(given["id"])
            if upload is None or upload.data is None or len(upload.data) != upload.length:
                raise Refused("file_not_found")
            if upload.shown:
                raise Refused("file_already_completed")
            upload.shown = True
            post = Post(params["channel_id"], self.ts(), BOT_USER, "", params.get("thread_ts"))
            post.extra = {"files": [{"id": upload.id, "title": given["title"]}], "subtype": "file_share"}
            self.posts[post.channel, post.ts] = post
        return {"files": []}

    def _update(self, params: dict[str, Any]) -> dict[str, Any]:
        post = self.posts.get((params["channel"], params["ts"]))
        if post is None:
            raise Refused("message_not_found")
        if post.user != BOT_USER:
            raise Refused("cant_update_message")
        self._check(params)
        post.text = params["text"]
        post.blocks = params.get("blocks", post.blocks)
        post.metadata = params.get("metadata", post.metadata)
        return {"channel": post.channel, "ts": post.ts, "text": post.text}

    def _check(self, params: dict[str, Any]) -> None:
        text, blocks = params.get("text") or "", params.get("blocks") or []
        if not text.strip():
            raise Refused("no_text")
        if len(text) > 4000:
            raise Refused("msg_too_long")
        if len(blocks) > 50:
            raise Refused("invalid_blocks")
        for block in blocks:
            _check_block(block)
        shown = [text, *(block["text"]["text"] for block in blocks if block["type"] == "section")]
        self.violations += [f"a post may ping: {t!r}" for t in shown if _PINGS.search(_LINK.sub("", t))]

    def _history(self, params: dict[str, Any], belongs: Callable[[Post], bool]) -> dict[str, Any]:
        if params["channel"] not in self.channels:
            raise Refused("channel_not_found")
        oldest, latest = str(params.get("oldest", "0")), str(params.get("latest") or "9")
        found = [p for p in self.shown(params["channel"]) if belongs(p) and oldest < p.ts < latest]
        start = int(params.get("cursor") or 0)
        size = int(params.get("limit", 100))
        page = found[start : start + size]
        cursor = str(start + size) if start + size < len(found) else ""
        with_metadata = str(params.get("include_all_metadata")) in ("1", "True", "true")
        messages = [
            {"ts": p.ts, "user": p.user, "text": p.text}
            | p.extra
            | ({"metadata": p.metadata} if with_metadata and p.metadata else {})
            for p in page
        ]
        return {"messages": messages, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def signed(body: str, at: int, *, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """The headers of a request that Slack has signed."""
    digest = hmac.new(secret.encode(), f"v0:{at}:{body}".encode(), hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json" if body.startswith("{") else "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": str(at),
        "X-Slack-Signature": f"v0={digest}",
    }


async def _params(request: web.Request) -> dict[str, Any]:
    params: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        params |= json.loads(await request.read() or b"{}")
    elif request.method == "POST":
        params |= dict(await request.post())
    for key in ("blocks", "metadata"):
        if isinstance(params.get(key), str):
            params[key] = json.loads(params[key])
    return params


def _refusal(fault: Fault) -> web.Response:
    if fault.status >= 500:
        return web.Response(status=fault.status, text="<html>trouble</html>", content_type="text/html")
    headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    answer: dict[str, Any] = {"ok": False, "error": fault.error}
    if fault.scope:
        answer["needed"] = fault.scope
    return web.json_response(answer, status=fault.status, headers=headers)


def _check_block(block: dict[str, Any]) -> None:
    match block:
        case {"type": "section", "text": {"type": "mrkdwn", "text": str(text)}} if 1 <= len(text) <= 3000:
            return
        case {"type": "actions", "elements": list(buttons)} if 1 <= len(buttons) <= 25:
            ids = [button.get("action_id") for button in buttons]
            labels = [button["text"] for button in buttons]
            if len(set(ids)) == len(ids) and all(
                label["type"] == "plain_text" and 1 <= len(label["text"]) <= 75 for label in labels
            ):
                return
    raise Refused("invalid_blocks")
