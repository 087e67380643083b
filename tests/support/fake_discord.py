"""A strict Discord on loopback: REST API v10 and gateway, as far as a chat bot meets them.

It refuses what Discord refuses, keeps sessions for RESUME, speaks zlib-stream, counts whom a message would notify, and
can be told to misbehave. Everything that happens wakes `until`.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from tests.support.file_answer import file_answer

Json = dict[str, Any]

TOKEN = "MTIzNDU2Nzg5MDEyMzQ1Njc4.Gabcde.canary-token-of-the-fake-discord-0001"
BOT, APPLICATION = "500000000000000001", "500000000000000001"
ALICE, BORIS = "600000000000000001", "600000000000000002"
GUILD = "700000000000000001"
BOT_ROLE, HELD_ROLE, OTHER_BOT_ROLE = "710000000000000001", "710000000000000002", "710000000000000003"
GENERAL, THREAD = "800000000000000001", "800000000000000002"
DIRECT, GROUP_DIRECT = "810000000000000001", "810000000000000002"

_MESSAGE_CONTENT = 1 << 15
_PATIENCE = 10.0


@dataclass(frozen=True)
class Call:
    """One REST request as it arrived."""

    method: str
    path: str
    body: Json


@dataclass
class Fault:
    """An answer that replaces the next `times` ones to paths that contain `path`."""

    method: str
    path: str
    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    after_work: bool = False


@dataclass
class Session:
    """A gateway session; its events outlive its connections."""

    id: str
    events: list[Json] = field(default_factory=list)
    socket: _Socket | None = None


@dataclass(frozen=True)
class Uploaded:
    """A file of a request."""

    filename: str
    content_type: str
    data: bytes


@dataclass
class _Parsed:
    """The body of a request, read once."""

    body: Json
    uploads: Sequence[Uploaded] = ()


_BODY = web.RequestKey("body", _Parsed)


class _Socket:
    """One gateway connection, compressed if the client asked for it."""

    def __init__(self, socket: web.WebSocketResponse, *, compressed: bool) -> None:
        self.raw = socket
        self.dropped = False
        self._compressor = zlib.compressobj() if compressed else None

    async def drop(self, code: int) -> None:
        """Close it from the server's side."""
        self.dropped = True
        await self.raw.close(code=code)

    async def send(self, frame: Json) -> None:
        text = json.dumps(frame)
        if self._compressor is None:
            await self.raw.send_str(text)
            return
        data = self._compressor.compress(text.encode()) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        half = len(data) // 2
        for piece in (data[:half], data[half:]):  # Discord may cut a frame; only the suffix tells its end
            await self.raw.send_bytes(piece)


class FakeDiscord:
    """The server; `serve` starts it."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.gateway_token = TOKEN
        self.content_intent_granted = True
        self.api_url = ""
        self.gateway_url = ""
        self.calls: list[Call] = []
        self.identifies: list[Json] = []
        self.resumes: list[Json] = []
        self.heartbeats = 0
        self.pings: list[str] = []
        self.messages: dict[str, dict[str, Json]] = {channel: {} for channel in (GENERAL, THREAD, DIRECT, GROUP_DIRECT)}
        self.responses: dict[str, Json] = {}
        self.notes: list[Json] = []
        self.sessions: dict[str, Session] = {}
        self.files: dict[str, bytes] = {}
        self.file_headers: list[Mapping[str, str]] = []
        self.tells_length = True
        self.most_bytes = 10 * 1024 * 1024
        self.uploads: dict[str, Sequence[Uploaded]] = {}
        self.refuse_connections = 0
        self.waiting_at_gateway = 0
        self._gate: asyncio.Event | None = None
        self._faults: list[Fault] = []
        self._holds: list[tuple[str, asyncio.Event]] = []
        self._nonces: dict[tuple[str, str], str] = {}
        self._interactions: dict[str, Json] = {}
        self._numbers = int(snowflake_at(datetime.now(UTC)))
        self._changed = asyncio.Condition()

    # what tests do

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until something is so; looked at whenever anything changes here."""
        async with asyncio.timeout(_PATIENCE), self._changed:
            await self._changed.wait_for(happened)

    def fail(
        self, method: str, path: str, status: int, code: int = 0, *, times: int = 1, after_work: bool = False
    ) -> None:
        """Let the next calls fail; `after_work`: Discord does the work, but its answer is lost."""
        body = {"message": "told to fail", "code": code}
        self._faults.append(Fault(method, path, status, body, times=times, after_work=after_work))

    def flood(self, method: str, path: str, retry_after: float, *, is_global: bool = False) -> None:
        """Let the next call run into a rate limit."""
        body = {"message": "You are being rate limited.", "retry_after": retry_after, "global": is_global}
        headers = {"Via": "1.1 google", "Retry-After": str(int(retry_after) + 1), "X-RateLimit-Scope": "user"}
        self._faults.append(Fault(method, path, 429, body, headers))

    def hold(self, path: str) -> asyncio.Event:
        """Let the next call to a path that contains `path` wait until the event is set."""
        release = asyncio.Event()
        self._holds.append((path, release))
        return release

    def hold_gateway(self) -> asyncio.Event:
        """Let new gateway connections wait until the event is set."""
        self._gate = asyncio.Event()
        return self._gate

    async def say(
        self,
        content: str,
        *,
        channel: str = DIRECT,
        author: str = ALICE,
        replies_to: str | None = None,
        mentions: Sequence[str] = (),
        roles: Sequence[str] = (),
        offline: bool = False,
        **extra: Any,
    ) -> Json:
        """Somebody writes a message. `offline`: the gateway does not tell (a session has ended meanwhile)."""
        message = self._message(channel, author, content, mentions=mentions, roles=roles)
        if replies_to is not None:
            message["type"] = 19
            message["message_reference"] = {"type": 0, "message_id": replies_to, "channel_id": channel}
            message["referenced_message"] = self.messages[channel].get(replies_to)
        message.update(extra)
        self.messages[channel][message["id"]] = message
        if not offline:
            await self.emit("MESSAGE_CREATE", self._as_event(message))
        return message

    async def edit(self, message: Json, content: str, **extra: Any) -> None:
        """The writer of a message changes its text."""
        message.update({"content": content, "edited_timestamp": datetime.now(UTC).isoformat()} | extra)
        await self.emit("MESSAGE_UPDATE", self._as_event(message))

    async def preview(self, message: Json, *, whole: bool) -> None:
        """Discord shows a link of a message; it tells of the whole message, or of the change alone."""
        message["embeds"] = [{"type": "link", "url": "https://a.example"}]
        event = self._as_event(message)
        part = {key: event[key] for key in ("id", "channel_id", "embeds")}
        await self.emit("MESSAGE_UPDATE", event if whole else part)

    async def press(
        self,
        custom_id: str,
        *,
        channel: str = DIRECT,
        user: str = ALICE,
        expired: bool = False,
    ) -> Json:
        """Somebody taps a button of one of the bot's messages."""
        prompt = self._message(channel, BOT, "?")
        data = {"custom_id": custom_id, "component_type": 2, "id": 1}
        return await self._interact(3, data, channel, user, expired=expired, message=prompt)

    async def command(
        self, name: str, *options: Json, channel: str = DIRECT, user: str = ALICE, expired: bool = False
    ) -> Json:
        """Somebody calls a slash command."""
        data = {"id": self._number(), "name": name, "type": 1, "options": list(options)}
        return await self._interact(2, data, channel, user, expired=expired)

    async def emit(self, name: str, data: Json) -> None:
        """Send an event to each session; those not connected get it after RESUME."""
        for session in list(self.sessions.values()):
            await self._dispatch(session, name, data)

    async def again(self, sequence_from_end: int = 1) -> None:
        """Send an earlier event once more under a new number."""
        for session in list(self.sessions.values()):
            event = session.events[-sequence_from_end]
            await self._dispatch(session, event["t"], event["d"])

    async def drop(self, code: int = 4000) -> None:
        """Close all gateway connections."""
        for session in list(self.sessions.values()):
            if session.socket is not None:
                await session.socket.drop(code)

    async def ask_to_reconnect(self) -> None:
        """Op 7 on all connections."""
        for session in list(self.sessions.values()):
            if session.socket is not None:
                await session.socket.send({"op": 7, "d": None})

    async def end_sessions(self) -> None:
        """Op 9 without resuming, on all connections; the sessions are forgotten."""
        ended, self.sessions = self.sessions, {}
        for session in list(ended.values()):
            if session.socket is not None:
                await session.socket.send({"op": 9, "d": False})

    def sent(self, channel: str = DIRECT) -> list[Json]:
        """The bot's messages in a channel, oldest first."""
        return [message for message in self.messages[channel].values() if message["author"]["id"] == BOT]

    def made(self, method: str, path: str) -> list[Call]:
        """The calls with a path that contains `path`."""
        return [call for call in self.calls if call.method == method and path in call.path]

    # gateway

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        if self.refuse_connections > 0:
            self.refuse_connections -= 1
            return web.Response(status=503)
        if self._gate is not None:
            self.waiting_at_gateway += 1
            await self._notify()
            await self._gate.wait()
        raw = web.WebSocketResponse()
        await raw.prepare(request)
        socket = _Socket(raw, compressed=request.query.get("compress") == "zlib-stream")
        await socket.send({"op": 10, "d": {"heartbeat_interval": 41250}})
        session: Session | None = None
        try:
            async for packet in raw:
                if packet.type is WSMsgType.TEXT:
                    session = await self._frame(socket, session, json.loads(packet.data))
                    await self._notify()
        finally:
            if session is not None and session.socket is socket:
                session.socket = None
                if not socket.dropped and raw.close_code in (WSCloseCode.OK, WSCloseCode.GOING_AWAY):
                    self.sessions.pop(session.id, None)
            await self._notify()
        return raw

    async def _frame(self, socket: _Socket, session: Session | None, frame: Json) -> Session | None:
        match frame["op"]:
            case 1:
                assert frame["d"] is None or isinstance(frame["d"], int)
                self.heartbeats += 1
                await socket.send({"op": 11, "d": None})
            case 2 if session is None:
                return await self._identify(socket, frame["d"])
            case 6 if session is None:
                return await self._resume(socket, frame["d"])
            case 2 | 6:
                await socket.raw.close(code=4005)
            case _:
                await socket.raw.close(code=4001)
        return session

    async def _identify(self, socket: _Socket, data: Json) -> Session | None:
        self.identifies.append(data)
        if data["token"] != self.gateway_token:
            await socket.raw.close(code=4004)
            return None
        if data["intents"] & _MESSAGE_CONTENT and not self.content_intent_granted:
            await socket.raw.close(code=4014)
            return None
        session = Session(f"session-{self._number()}", socket=socket)
        self.sessions[session.id] = session
        ready = {
            "v": 10,
            "user": self._user(BOT),
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": self.gateway_url,
            "application": {"id": APPLICATION, "flags": 0},
        }
        await self._dispatch(session, "READY", ready)
        await self._dispatch(session, "GUILD_CREATE", _guild())
        return session

    async def _resume(self, socket: _Socket, data: Json) -> Session | None:
        self.resumes.append(data)
        session = self.sessions.get(data["session_id"])
        if session is None or data["token"] != self.gateway_token or not 0 <= (data["seq"] or 0) <= len(session.events):
            await socket.send({"op": 9, "d": False})
            return None
        session.socket = socket
        for event in session.events[data["seq"] or 0 :]:
            await socket.send(event)
        await self._dispatch(session, "RESUMED", {})
        return session

    async def _dispatch(self, session: Session, name: str, data: Json) -> None:
        event = {"op": 0, "t": name, "s": len(session.events) + 1, "d": data}
        session.events.append(event)
        if session.socket is not None and not session.socket.raw.closed:
            await session.socket.send(event)

    # REST

    @web.middleware
    async def _every_call(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        if request.path == "/gateway/" or request.path.startswith("/files/"):
            response: web.StreamResponse = await handler(request)
            return response
        body, uploads = await _read(request)
        path = request.path.removeprefix("/api/v10")
        self.calls.append(Call(request.method, path, body))
        await self._notify()
        for hold in [hold for hold in self._holds if hold[0] in path]:
            self._holds.remove(hold)
            await hold[1].wait()
        if request.headers.get("Authorization") != f"Bot {self.token}":
            return _answer(401, {"message": "401: Unauthorized", "code": 0})
        fault = next((f for f in self._faults if f.method == request.method and f.path in path and f.times > 0), None)
        if fault is not None:
            fault.times -= 1
            if not fault.after_work:
                return _answer(fault.status, fault.body, fault.headers)
        request[_BODY] = _Parsed(body, uploads)
        try:
            response = await handler(request)
        except _Refusal as refusal:
            return _answer(refusal.status, {"message": refusal.why, "code": refusal.code})
        finally:
            await self._notify()
        return _answer(fault.status, fault.body, fault.headers) if fault is not None else response

    async def _me(self, _: web.Request) -> web.Response:
        return _answer(200, self._user(BOT))

    async def _application(self, _: web.Request) -> web.Response:
        return _answer(
            200,
            {
                "id": APPLICATION,
                "name": "optim",
                "icon": None,
                "description": "",
                "bot_public": False,
                "bot_require_code_grant": False,
                "owner": self._user(ALICE),
                "verify_key": "00",
                "flags": 0,
            },
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.file_headers.append(request.headers)
        content = self.files.get(request.match_info["name"])
        if content is None:
            return web.Response(status=404, text="This content is no longer available.")
        return await file_answer(request, content, tells_length=self.tells_length)

    async def _get_channel(self, request: web.Request) -> web.Response:
        self._channel(request)
        return _answer(200, _channel(request.match_info["channel"]))

    async def _history(self, request: web.Request) -> web.Response:
        messages = self._channel(request)
        limit = int(request.query["limit"])
        if not 1 <= limit <= 100:
            raise _Refusal(400, 50035, "limit: int value should be between 1 and 100.")
        if "before" in request.query:
            found = [m for m in messages.values() if int(m["id"]) < int(request.query["before"])][-limit:]
        else:
            found = [m for m in messages.values() if int(m["id"]) > int(request.query["after"])][:limit]
        return _answer(200, [{key: value for key, value in m.items() if key != "member"} for m in reversed(found)])

    async def _post(self, request: web.Request) -> web.Response:
        messages, body, uploads = self._channel(request), request[_BODY].body, request[_BODY].uploads
        channel = request.match_info["channel"]
        if sum(len(each.data) for each in uploads) > self.most_bytes:
            raise _Refusal(413, 40005, "Request entity too large")
        if [(n, each.filename) for n, each in enumerate(uploads)] != [
            (each["id"], each["filename"]) for each in body.get("attachments", [])
        ]:
            raise _Refusal(400, 50035, "attachments: not those that came")
        _check_message(body, has_files=bool(uploads))
        nonce = body.get("nonce")
        if nonce is not None and body.get("enforce_nonce") and (channel, nonce) in self._nonces:
            return _answer(200, messages[self._nonces[channel, nonce]])
        message = self._message(channel, BOT, body.get("content", ""))
        message["components"] = body.get("components", [])
        message["attachments"] = [{"filename": each.filename, "size": len(each.data)} for each in uploads]
        self.uploads[message["id"]] = uploads
        message["flags"] = body.get("flags", 0)
        reference = body.get("message_reference")
        if reference is not None:
            if reference["message_id"] in messages:
                message["type"] = 19
                message["message_reference"] = reference
            elif reference.get("fail_if_not_exists", True):
                raise _Refusal(400, 50035, "Unknown message")
        if nonce is not None:
            self._nonces[channel, nonce] = message["id"]
        messages[message["id"]] = message
        self._ring(body)
        return _answer(200, message)

    async def _patch(self, request: web.Request) -> web.Response:
        messages, body = self._channel(request), request[_BODY].body
        message = messages.get(request.match_info["message"])
        if message is None:
            raise _Refusal(404, 10008, "Unknown Message")
        if message["author"]["id"] != BOT:
            raise _Refusal(403, 50005, "Cannot edit a message authored by another user")
        _check_message(body)
        message["content"] = body["content"]
        message["components"] = body.get("components", message["components"])
        self._ring(body)
        return _answer(200, message)

    async def _typing(self, request: web.Request) -> web.Response:
        self._channel(request)
        return web.Response(status=204)

    async def _open_direct(self, request: web.Request) -> web.Response:
        if request[_BODY].body["recipient_id"] not in (ALICE, BORIS):
            raise _Refusal(400, 50033, "Invalid Recipient(s)")
        return _answer(200, {"id": DIRECT, "type": 1})

    async def _callback(self, request: web.Request) -> web.Response:
        interaction = self._interactions.get(request.match_info["id"])
        if interaction is None or interaction["token"] != request.match_info["token"] or interaction["expired"]:
            raise _Refusal(404, 10062, "Unknown interaction")
        if interaction["id"] in self.responses:
            raise _Refusal(400, 40060, "Interaction has already been acknowledged.")
        if request[_BODY].body["type"] != {2: 5, 3: 6}[interaction["type"]]:
            raise _Refusal(400, 50035, "Invalid Form Body")
        self.responses[interaction["id"]] = request[_BODY].body
        return web.Response(status=204)

    async def _follow_up(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        known = next((i for i in self._interactions.values() if i["token"] == token), None)
        if known is None or known["id"] not in self.responses:
            raise _Refusal(404, 10015, "Unknown Webhook")
        self.notes.append({"method": request.method, **request[_BODY].body})
        return web.Response(status=204) if request.method == "DELETE" else _answer(200, {"id": self._number()})

    # parts

    def _channel(self, request: web.Request) -> dict[str, Json]:
        messages = self.messages.get(request.match_info["channel"])
        if messages is None:
            raise _Refusal(404, 10003, "Unknown Channel")
        return messages

    def _ring(self, body: Json) -> None:
        allowed = body.get("allowed_mentions", {"parse": ["everyone", "roles", "users"]})["parse"]
        for token, kind in (("@everyone", "everyone"), ("@here", "everyone"), ("<@&", "roles"), ("<@6", "users")):
            if token in body.get("content", "") and kind in allowed:
                self.pings.append(token)

    async def _interact(
        self, kind: int, data: Json, channel: str, user: str, *, expired: bool, message: Json | None = None
    ) -> Json:
        number = self._number()
        in_guild = channel in (GENERAL, THREAD)
        interaction: Json = {
            "id": number,
            "application_id": APPLICATION,
            "type": kind,
            "token": f"interaction-token-{number}",
            "version": 1,
            "attachment_size_limit": 1000,
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": 0 if in_guild else 1,
            "channel_id": channel,
            "channel": _channel(channel),
            "locale": "en-US",
            "app_permissions": "0",
            "data": data,
        }
        if in_guild:
            interaction |= {"guild_id": GUILD, "member": {**_member(), "user": self._user(user), "permissions": "0"}}
        else:
            interaction["user"] = self._user(user)
        if message is not None:
            interaction["message"] = message
        self._interactions[number] = {"id": number, "token": interaction["token"], "type": kind, "expired": expired}
        await self.emit("INTERACTION_CREATE", interaction)
        return interaction

    def _message(
        self, channel: str, author: str, content: str, *, mentions: Sequence[str] = (), roles: Sequence[str] = ()
    ) -> Json:
        return {
            "id": self._number(),
            "channel_id": channel,
            "author": self._user(author),
            "content": content,
            "timestamp": datetime.now(UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [self._user(user) for user in mentions],
            "mention_roles": list(roles),
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "flags": 0,
            "type": 0,
        }

    def _as_event(self, message: Json) -> Json:
        """What the gateway adds to a stored message."""
        channel = message["channel_id"]
        if channel in (GENERAL, THREAD):
            return {"channel_type": _channel(channel)["type"], **message, "guild_id": GUILD, "member": _member()}
        return {"channel_type": _channel(channel)["type"], **message}

    def _user(self, user: str) -> Json:
        names = {BOT: "optim", ALICE: "alice", BORIS: "boris"}
        return {
            "id": user,
            "username": names.get(user, f"user{user[-2:]}"),
            "discriminator": "0",
            "avatar": None,
            "global_name": None if user == BOT else names.get(user, "user").capitalize(),
            "bot": user == BOT,
        }

    def _number(self) -> str:
        self._numbers += 1
        return str(self._numbers)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def routes(self) -> Sequence[web.RouteDef]:
        api = "/api/v10"
        follow_up = f"{api}/webhooks/{APPLICATION}/{{token}}"
        return (
            web.get("/gateway/", self._gateway),
            web.get("/files/{name}", self._file),
            web.get(f"{api}/users/@me", self._me),
            web.get(f"{api}/channels/{{channel}}", self._get_channel),
            web.get(f"{api}/oauth2/applications/@me", self._application),
            web.get(f"{api}/channels/{{channel}}/messages", self._history),
            web.post(f"{api}/channels/{{channel}}/messages", self._post),
            web.patch(f"{api}/channels/{{channel}}/messages/{{message}}", self._patch),
            web.post(f"{api}/channels/{{channel}}/typing", self._typing),
            web.post(f"{api}/users/@me/channels", self._open_direct),
            web.post(f"{api}/interactions/{{id}}/{{token}}/callback", self._callback),
            web.post(follow_up, self._follow_up),
            web.patch(f"{follow_up}/messages/@original", self._follow_up),
            web.delete(f"{follow_up}/messages/@original", self._follow_up),
        )

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeDiscord]:
        """Listen on a free port until the block ends."""
        application = web.Application(middlewares=[self._every_call], client_max_size=64_000_000)
        application.add_routes(self.routes())
        runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.api_url = f"http://127.0.0.1:{port}/api/v10"
        self.gateway_url = f"ws://127.0.0.1:{port}/gateway/"
        try:
            yield self
        finally:
            await self.drop(1001)
            await runner.cleanup()


def snowflake_at(moment: datetime) -> str:
    """The first id that Discord could give at a moment: milliseconds since 2015 above 22 other bits."""
    return str(int((moment - datetime(2015, 1, 1, tzinfo=UTC)).total_seconds() * 1000) << 22)


class _Refusal(Exception):
    def __init__(self, status: int, code: int, why: str) -> None:
        super().__init__(why)
        self.status, self.code, self.why = status, code, why


def _answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    # The client library reads a body as JSON only under exactly this type, without a charset.
    return web.Response(
        status=status, body=json.dumps(body).encode(), headers={"Content-Type": "application/json", **(headers or {})}
    )


async def _read(request: web.Request) -> tuple[Json, Sequence[Uploaded]]:
    """The JSON of a request and its files."""
    if request.content_type != "multipart/form-data":
        return (await request.json() if request.can_read_body else {}), ()
    form = await request.post()
    fields = [value for name, value in form.items() if name.startswith("files[")]
    uploads = [Uploaded(f.filename, f.content_type, f.file.read()) for f in fields if isinstance(f, web.FileField)]
    return json.loads(str(form["payload_json"])), uploads


def _check_message(body: Json, *, has_files: bool = False) -> None:
    content = body.get("content", "" if has_files else None)
    if not isinstance(content, str) or not (content.strip() or has_files):
        raise _Refusal(400, 50006, "Cannot send an empty message")
    if len(content) > 2000:
        raise _Refusal(400, 50035, "Must be 2000 or fewer in length.")
    if len(body.get("nonce", "")) > 25:
        raise _Refusal(400, 50035, "nonce: Must be 25 or fewer in length.")
    rows = body.get("components", [])
    buttons = [button for row in rows for button in row["components"]]
    ids = [button["custom_id"] for button in buttons]
    if (
        len(rows) > 5
        or len(set(ids)) < len(ids)
        or any(row["type"] != 1 or not 1 <= len(row["components"]) <= 5 for row in rows)
        or any(b["type"] != 2 or not 1 <= len(b["label"]) <= 80 or not 1 <= len(b["custom_id"]) <= 100 for b in buttons)
    ):
        raise _Refusal(400, 50035, "Invalid components")


def _channel(channel: str) -> Json:
    types = {GENERAL: 0, THREAD: 11, DIRECT: 1, GROUP_DIRECT: 3}
    return {"id": channel, "type": types[channel], "name": "general", "last_message_id": None, "recipients": []}


def _member() -> Json:
    return {
        "nick": None,
        "roles": [],
        "joined_at": "2026-01-01T00:00:00+00:00",
        "deaf": False,
        "mute": False,
        "flags": 0,
    }


def _role(role: str, name: str, **extra: Any) -> Json:
    return {
        "id": role,
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 1,
        "permissions": "0",
        "managed": bool(extra),
        "mentionable": True,
        "flags": 0,
        **extra,
    }


def _guild() -> Json:
    channel = {"id": GENERAL, "type": 0, "name": "general", "position": 0, "permission_overwrites": [], "nsfw": False}
    return {
        "id": GUILD,
        "name": "Guild",
        "owner_id": ALICE,
        "member_count": 3,
        "unavailable": False,
        "roles": [
            _role(GUILD, "@everyone"),
            _role(BOT_ROLE, "optim", tags={"bot_id": BOT}),
            _role(HELD_ROLE, "helpers"),
            _role(OTHER_BOT_ROLE, "other", tags={"bot_id": BORIS}),
        ],
        "channels": [channel],
        "threads": [],
        "members": [{**_member(), "user": {"id": BOT, "username": "optim", "discriminator": "0", "avatar": None}}],
        "emojis": [],
        "stickers": [],
        "features": [],
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "preferred_locale": "en-US",
        "system_channel_flags": 0,
    }
