"""Slack's Socket Mode: one live WebSocket at all times, and an acknowledgement for what is safely ours.

The SDK's own socket client is not used: it closes the old connection before it opens the next, retries a refused token
for ever, and may acknowledge on a socket that is gone without noticing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import aiohttp
import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from channels.errors import RateLimited, Unavailable
from channels.pacing import Clock, backoff
from channels.slack_events import NAME

log = structlog.get_logger(__name__)


class SocketMode:
    """Keeps connected, hands each envelope to `handle` in the order of arrival, and acknowledges it if that says so.

    `open_socket` opens a new connection, which closes itself when its pings are not answered: how long ago one was
    decides, whatever TCP believes. `report` is told None when a connection stands, else why there is none.
    """

    def __init__(
        self,
        open_socket: Callable[[], Awaitable[aiohttp.ClientWebSocketResponse]],
        handle: Callable[[dict[str, object]], Awaitable[bool]],
        report: Callable[[str | None], None],
        clock: Clock,
    ) -> None:
        self._open_socket = open_socket
        self._handle = handle
        self._report = report
        self._clock = clock
        self._waiting: asyncio.Queue[_Arrival] = asyncio.Queue(_MOST_WAITING)  # full: the socket is read no further
        self._current: _Connection | None = None
        self._failures = 0

    async def run(self) -> None:
        """Run until cancelled; all sockets are closed then. Raises what `open_socket` raised, in an exception group."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            old: _Connection | None = None
            while True:
                fresh = await self._connect(group)
                self._current = fresh
                self._report(None)
                log.info("slack_connected")
                if old is not None:
                    group.create_task(old.retire(self._clock))
                await fresh.leaving.wait()
                old = fresh
                if not fresh.is_refresh:
                    await self._rest(fresh)

    async def _rest(self, lost: _Connection) -> None:
        self._report("the connection was lost")
        log.warning("slack_connection_lost", reason=lost.reason)
        await lost.socket.close()
        if self._clock.now() - lost.since > _STEADY:
            self._failures = 0
        await self._clock.sleep(self._next_wait())

    def _next_wait(self) -> timedelta:
        self._failures += 1
        return backoff(self._failures)

    async def _connect(self, group: asyncio.TaskGroup) -> _Connection:
        """A connection that has said hello; tries until there is one."""
        while True:
            try:
                return await self._try_to_connect(group)
            except RateLimited as error:
                reason, wait = "Slack asks to wait before connecting", error.retry_after
            except Unavailable as error:
                reason, wait = error.reason, self._next_wait()
            except TimeoutError:
                reason, wait = "no greeting in time", self._next_wait()
            if self._current is None or self._current.socket.closed:
                self._report(reason)
            log.warning("slack_connect_failed", reason=reason, wait_seconds=wait.total_seconds())
            await self._clock.sleep(wait)

    async def _try_to_connect(self, group: asyncio.TaskGroup) -> _Connection:
        connection = _Connection(await self._open_socket(), self._clock.now())
        group.create_task(self._listen(connection))
        try:
            async with asyncio.timeout(_GREETING.total_seconds()):
                await connection.greeted()
        finally:
            if not connection.is_greeted:
                await connection.socket.close()
        return connection

    async def _listen(self, connection: _Connection) -> None:
        """Read a connection to its end."""
        socket = connection.socket
        try:
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    await self._take(frame.data, connection)
        finally:
            connection.leave(f"closed ({socket.close_code})")
            await socket.close()

    async def _take(self, data: str, connection: _Connection) -> None:
        try:
            frame = _Frame.model_validate_json(data)
        except ValidationError:
            log.warning("slack_frame_malformed", length=len(data))
            return
        match frame.type:
            case "hello":
                connection.greet()
            case "disconnect":
                log.info("slack_asks_to_reconnect", reason=frame.reason)
                connection.is_refresh = frame.reason in _REFRESHES
                connection.leave(frame.reason)
            case _ if frame.envelope_id:
                await self._waiting.put(_Arrival(frame.envelope_id, frame.payload, connection))

    async def _work(self) -> None:
        while True:
            arrival = await self._waiting.get()
            if await self._handle(arrival.payload):
                await self._acknowledge(arrival)

    async def _acknowledge(self, arrival: _Arrival) -> None:
        """On the connection it came by, else on the present one; Slack sends again what stays unacknowledged."""
        socket = arrival.connection.socket
        if socket.closed and self._current is not None:
            socket = self._current.socket
        try:
            await socket.send_json({"envelope_id": arrival.envelope_id})
        except (aiohttp.ClientError, ConnectionError):
            log.info("slack_acknowledgement_lost")


# Slack sends at most a few unacknowledged envelopes at a time; this bounds what a flood can hold in memory.
_MOST_WAITING = 100
_GREETING = timedelta(seconds=15)
# How long a replaced connection stays open for acknowledgements on their way. Slack closes it by itself after that.
_GRACE = timedelta(seconds=5)
# A connection that lived shorter counts as one more failure.
_STEADY = timedelta(seconds=30)

# Slack, Socket Mode: why a connection is to be replaced while it still works. Any other reason (`link_disabled`,
# `too_many_websockets`) ends it first.
_REFRESHES = frozenset({"warning", "refresh_requested"})


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str = ""
    envelope_id: str = ""
    reason: str = ""
    payload: dict[str, object] = {}


@dataclass(slots=True)
class _Connection:
    """A socket and what Slack said about it."""

    socket: aiohttp.ClientWebSocketResponse
    since: datetime
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    decided: asyncio.Event = field(default_factory=asyncio.Event)  # greeted, or ended before that
    is_greeted: bool = False
    is_refresh: bool = False
    reason: str = ""

    def leave(self, reason: str) -> None:
        """Note that a new connection is needed; the first reason stays."""
        if not self.leaving.is_set():
            self.reason = reason
        self.leaving.set()
        self.decided.set()

    def greet(self) -> None:
        """Note that Slack said hello: events will come."""
        self.is_greeted = True
        self.decided.set()

    async def greeted(self) -> None:
        """Wait for the greeting; raises `Unavailable` if the connection ends instead."""
        await self.decided.wait()
        if not self.is_greeted:
            raise Unavailable(NAME, f"no greeting: {self.reason}")

    async def retire(self, clock: Clock) -> None:
        """Close after a while."""
        await clock.sleep(_GRACE)
        await self.socket.close()


@dataclass(frozen=True, slots=True)
class _Arrival:
    envelope_id: str
    payload: dict[str, object]
    connection: _Connection
