"""The wire to Discord: gateway events in, REST calls out, both through discord.py, whose only importer this is.

The library holds the socket, its heartbeats, RESUME and the rate limit buckets. Three things are ours:

- Events come out of `events` in order and at the reader's pace. The library would start a detached task for each and
  count all of them as seen in the next RESUME, stored or not.
- Pauses between attempts are short and end in `Unavailable`. The library's grow to a quarter of an hour, the
  supervisor's do not.
- 429 and 5xx are reported at once. The library would wait and repeat for up to half a minute, and a request cancelled
  while it waits for a global limit would block all others for good.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace, TracebackType
from typing import Self, TypeAlias

import aiohttp
import discord
import structlog
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import Route
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from channels.discord_events import NAME, Place
from channels.discord_render import Body
from channels.errors import RateLimited, Rejected, Unauthorized, Unavailable
from channels.pacing import Clock
from channels.settings import DiscordSettings

log = structlog.get_logger(__name__)


class Refused(Rejected):
    """Discord's own refusal of a request; `code` is its error code, 0 if it gave none."""

    def __init__(self, status: int, code: int) -> None:
        super().__init__(NAME, f"HTTP {status}, error code {code}")
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Session:
    """Where to go on after a lost connection. `sequence` is the last event that was handled."""

    id: str
    gateway: str
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Ready:
    """The connection stands. After a `resumed` one Discord sends what we missed; otherwise it does not."""

    resumed: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; another attempt follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One event: its name, the whole frame as JSON, and where it stands in which session."""

    name: str
    frame: str
    session_id: str
    sequence: int


Event: TypeAlias = Ready | Lost | Dispatch


class DiscordConnection:
    """One login. Used as a context manager, which logs in and, at the end, closes everything.

    Entering raises `Unauthorized` or `Unavailable`.
    """

    def __init__(self, settings: DiscordSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._client = _client()
        self._socket: DiscordWebSocket | None = None

    @property
    def own_id(self) -> str:
        """The bot's user id."""
        user = self._client.user
        assert user is not None, "the connection is entered"
        return str(user.id)

    def place(self, guild_id: str | None, channel_id: str) -> Place:
        """What the library has learned about a channel of a server; outside servers it knows nothing."""
        if guild_id is None:
            return Place(self.own_id)
        guild = self._client.get_guild(int(guild_id))
        if guild is None:
            return Place(self.own_id)
        role, channel = guild.self_role, guild.get_channel_or_thread(int(channel_id))
        title = f"{guild.name} #{channel.name}" if channel else guild.name
        return Place(self.own_id, own_role=str(role.id) if role else None, title=title)

    def session_before(self, pending: Iterable[Dispatch]) -> Session | None:
        """The present session, to be resumed at the first of the events that are still `pending`."""
        socket = self._socket
        if socket is None or socket.session_id is None:
            return None
        first = next((event.sequence for event in pending if event.session_id == socket.session_id), None)
        sequence = socket.sequence if first is None else first - 1
        return Session(socket.session_id, str(socket.gateway), sequence)

    async def __aenter__(self) -> Self:
        if self._settings.api_base_url is not None:
            Route.BASE = self._settings.api_base_url
        try:
            async with asyncio.timeout(_LOGIN.total_seconds()):
                await self._client.login(self._settings.bot_token.get_secret_value())
        except (discord.LoginFailure, ValueError) as error:
            await self._client.close()
            raise Unauthorized(NAME, _BAD_TOKEN) from error
        except (discord.DiscordException, _Busy, OSError, aiohttp.ClientError, LookupError, TypeError) as error:
            await self._client.close()
            raise Unavailable(NAME, f"cannot log in ({type(error).__name__})") from error
        except asyncio.CancelledError:
            await self._client.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # 1000 ends the session at Discord; after any other code it can be resumed.
        await self._close_socket(1000 if kind is asyncio.CancelledError else 4000)
        await self._client.close()

    async def events(self, session: Session | None) -> AsyncGenerator[Event, None]:
        """What the gateway sends, over as many connections as it takes, first trying to resume `session`.

        Raises `Unauthorized` where Discord does not want us, `Unavailable` after some attempts in a row that failed.
        """
        failures = 0
        while True:
            ready_at: datetime | None = None
            try:
                self._socket = socket = await self._open(session)
                while True:
                    await self._poll(socket)
                    for name, frame in self._client.take():
                        if name in _READY:
                            ready_at = self._clock.now()
                            yield Ready(resumed=name == "RESUMED")
                        else:
                            yield Dispatch(name, frame, socket.session_id or "", socket.sequence or 0)
            except ReconnectWebSocket as again:
                session = (self.session_before(()) or session) if again.resume else None
                reason = "the gateway asked for a new connection" if again.resume else "the session has ended"
            except discord.ConnectionClosed as closed:
                _check_close_code(closed.code)
                session = self.session_before(()) or session
                reason = f"closed with code {closed.code}"
            except (_Busy, OSError, TimeoutError, aiohttp.ClientError) as error:
                session = self.session_before(()) or session
                reason = f"no connection ({type(error).__name__})"
            await self._close_socket(4000)
            lasted = ready_at is not None and self._clock.now() - ready_at > _STABLE
            failures = 0 if lasted else failures + 1
            log.warning("discord_connection_lost", reason=reason, failures=failures)
            if failures > len(_PAUSES):
                raise Unavailable(NAME, reason)
            yield Lost(reason)
            if session is None:
                # Discord API, gateway: wait one to five seconds before a new session after an invalid one.
                await self._clock.sleep(timedelta(seconds=random.uniform(1, 5)))
            else:
                await self._clock.sleep(_PAUSES[max(failures - 1, 0)])

    async def create(self, channel_id: str, body: Body) -> str:
        """Post a message; its id."""
        answer = await self.call("POST", "/channels/{channel_id}/messages", body, channel_id=channel_id)
        return _id_in(answer)

    async def create_from(self, channel_id: str, form: Sequence[dict[str, object]]) -> str:
        """Post a message whose body comes in parts, files among them; its id."""
        route = Route("POST", "/channels/{channel_id}/messages", channel_id=channel_id)
        return _id_in(await self._answer(self._client.http.request(route, form=form), _UPLOAD))

    async def edit(self, channel_id: str, message_id: str, body: Body) -> None:
        """Replace the text and buttons of one of our messages."""
        path = "/channels/{channel_id}/messages/{message_id}"
        await self.call("PATCH", path, body, channel_id=channel_id, message_id=message_id)

    async def open_direct(self, user_id: str) -> str:
        """The id of the direct channel with a user."""
        return _id_in(await self.call("POST", "/users/@me/channels", {"recipient_id": user_id}))

    async def call(self, method: str, path: str, body: JsonValue = None, **ids: str) -> JsonValue:
        """One REST call; `ids` fill the braces of `path`. Raises `ChannelError`, `Refused` among them.

        Cancelling it leaves open whether Discord did the work.
        """
        route = Route(method, path, **ids)
        http = self._client.http
        return await self._answer(http.request(route) if body is None else http.request(route, json=body), _CALL)

    async def _answer(self, request: Awaitable[object], patience: timedelta) -> JsonValue:
        """The answer to a request of the library's."""
        try:
            async with asyncio.timeout(patience.total_seconds()):
                return _JSON.validate_python(await request)
        except discord.RateLimited as error:
            raise RateLimited(NAME, timedelta(seconds=error.retry_after)) from error
        except _Busy as error:
            if error.retry_after is not None:
                raise RateLimited(NAME, error.retry_after) from error
            raise Unavailable(NAME, f"HTTP {error.status}", maybe_sent=True) from error
        except discord.HTTPException as error:
            if error.status == 401:
                raise Unauthorized(NAME, _BAD_TOKEN) from error
            raise Refused(error.status, error.code) from error
        except (aiohttp.ClientConnectorError, RuntimeError) as error:  # RuntimeError: the session is closed
            raise Unavailable(NAME, type(error).__name__) from error
        except (OSError, TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise Unavailable(NAME, type(error).__name__, maybe_sent=True) from error

    async def _open(self, session: Session | None) -> DiscordWebSocket:
        configured = self._settings.gateway_url
        gateway = configured or (session.gateway if session else None)
        async with asyncio.timeout(_HANDSHAKE.total_seconds()):
            return await DiscordWebSocket.from_client(
                self._client,
                initial=True,
                gateway=yarl.URL(gateway) if gateway else None,
                session=session.id if session else None,
                sequence=session.sequence if session else None,
                resume=session is not None,
            )

    async def _poll(self, socket: DiscordWebSocket) -> None:
        try:
            await socket.poll_event()
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            # A payload that the library cannot read must not end the connection; what we read ourselves is kept.
            log.warning("discord_event_unreadable", error=type(error).__name__)

    async def _close_socket(self, code: int) -> None:
        socket = self._socket
        if socket is None or not socket.open:
            return
        try:
            async with asyncio.timeout(_GOODBYE.total_seconds()):
                await socket.close(code)
        except (TimeoutError, OSError):
            log.info("discord_goodbye_unanswered")


_LOGIN = timedelta(seconds=30)
_HANDSHAKE = timedelta(seconds=30)
_CALL = timedelta(seconds=60)
_UPLOAD = timedelta(seconds=300)
_GOODBYE = timedelta(seconds=2)
# How long a connection must stand to count as good, and the pauses after those in a row that did not.
_STABLE = timedelta(seconds=30)
_PAUSES = tuple(timedelta(seconds=seconds) for seconds in (0, 1, 2, 4))

_READY = frozenset({"READY", "RESUMED"})
_WANTED = _READY | {"MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "CHANNEL_CREATE"}
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

_BAD_TOKEN = "the bot token is wrong or was reset; set DISCORD_BOT_TOKEN to the one of the Developer Portal"
_CLOSE_CURES = {
    4004: _BAD_TOKEN,
    4010: "Discord wants another shard setup",
    4011: "the bot is in too many servers for one connection",
    4012: "Discord no longer serves this version of its API",
    4013: "Discord does not know an intent that was asked for",
    4014: "switch on the Message Content Intent: Developer Portal, your application, Bot, Privileged Gateway Intents",
}


def _check_close_code(code: int) -> None:
    """Raise `Unauthorized` for the close codes after which Discord's API says not to reconnect."""
    cure = _CLOSE_CURES.get(code)
    if cure is not None:
        raise Unauthorized(NAME, cure)


class _Created(BaseModel):
    id: str


def _id_in(answer: JsonValue) -> str:
    try:
        return _Created.model_validate(answer).id
    except ValidationError as error:
        raise Unavailable(NAME, "an answer without an id", maybe_sent=True) from error


class _Busy(Exception):
    """Discord answered 429 or 5xx."""

    def __init__(self, status: int, retry_after: timedelta | None) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.retry_after = retry_after


class _Client(discord.Client):
    """A client that keeps the raw events we want in a list and starts no task for any."""

    def __init__(self, *, intents: discord.Intents, trace: aiohttp.TraceConfig) -> None:
        super().__init__(
            intents=intents,
            http_trace=trace,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.0,
            max_ratelimit_timeout=_CALL.total_seconds() / 2,
            enable_debug_events=True,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self._frame = ""
        self._kept: list[tuple[str, str]] = []

    def dispatch(self, event: str, /, *args: object, **_: object) -> None:
        """Called by the library for each event: first with the frame, then with the name of what is in it."""
        match event, args:
            case "socket_raw_receive", (str() as frame,):
                self._frame = frame
            case "socket_event_type", (str() as name,) if name in _WANTED:
                self._kept.append((name, self._frame))

    def take(self) -> list[tuple[str, str]]:
        """The events that came since the last call."""
        kept, self._kept = self._kept, []
        return kept

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Nothing: `events` makes the pauses, before a connection is opened."""


def _client() -> _Client:
    # At DEBUG these two write the bodies of requests and events; what they say at INFO, `ChannelHealth` says too.
    for name in ("discord.http", "discord.gateway"):
        logging.getLogger(name).setLevel(logging.WARNING)
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # we do not speak, so nothing is missing
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(_refuse_busy)
    return _Client(intents=intents, trace=trace)


class _Flood(BaseModel):
    retry_after: float


async def _refuse_busy(
    _session: aiohttp.ClientSession, _context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
) -> None:
    """Ends a request that was answered with 429 or 5xx; the library would wait and repeat it up to half a minute."""
    status = end.response.status
    if status != 429 and status < 500:
        return
    body = await end.response.read()
    raise _Busy(status, _retry_after(body, end.response.headers.get("Retry-After", "")) if status == 429 else None)


def _retry_after(body: bytes, header: str) -> timedelta:
    try:
        seconds = _Flood.model_validate_json(body).retry_after
    except ValidationError:
        seconds = float(header) if header.replace(".", "", 1).isdecimal() else _UNSAID
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST))


# A 429 without a readable time, and one of absurd length.
_UNSAID, _LONGEST = 60.0, 3600.0
