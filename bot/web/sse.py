"""The event stream: server-sent events as in the HTML standard, section 9.2."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from aiohttp import web

from bot.web.errors import Refused
from channels.web import OPERATOR_ID, EventHub, PageEvent, Subscription, TooManyStreams

KEEP_ALIVE = timedelta(seconds=30)
WRITE_TIMEOUT = timedelta(seconds=60)
RECONNECT_AFTER_MS = 2000


def frame(event: PageEvent) -> bytes:
    """An event as it goes over the wire."""
    return f"id: {event.id}\nevent: {event.name}\ndata: {event.data}\n\n".encode()


class EventStreams:
    """Serves the event hub to connected pages."""

    def __init__(self, hub: EventHub, keep_alive: timedelta = KEEP_ALIVE) -> None:
        self._hub = hub
        self._keep_alive = keep_alive.total_seconds()
        self._open: dict[Subscription, web.Request] = {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream events until the page goes away or the hub closes."""
        if self._hub.is_full:
            await self._drop_the_dead()
        try:
            with self._hub.subscribe(OPERATOR_ID, _last_event_id(request)) as stream:
                self._open[stream] = request
                try:
                    return await self._serve(request, stream)
                finally:
                    del self._open[stream]
        except TooManyStreams as error:
            text = "Too many pages are connected; close some."
            raise Refused(503, "too_many_streams", text, {"Retry-After": "30"}) from error

    async def _serve(self, request: web.Request, stream: Subscription) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would hold events back
            }
        )
        try:
            await response.prepare(request)
            await _write(response, f": connected\nretry: {RECONNECT_AFTER_MS}\n\n".encode())
            while True:
                try:
                    async with asyncio.timeout(self._keep_alive):
                        event = await stream.next()
                except TimeoutError:
                    await _write(response, b": keep-alive\n\n")
                    continue
                if event is None:
                    break
                await _write(response, frame(event))
        except (ConnectionError, TimeoutError):
            pass  # the page is gone, or has not read for a minute
        return response

    async def _drop_the_dead(self) -> None:
        """End streams whose page has gone since the last write, and let their handlers give up their places."""
        for stream, request in self._open.items():
            if request.transport is None or request.transport.is_closing():
                stream.close()
        await asyncio.sleep(0)


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_TIMEOUT.total_seconds()):
        await response.write(data)


def _last_event_id(request: web.Request) -> int | None:
    text = request.headers.get("Last-Event-ID", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
