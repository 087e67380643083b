"""Deliveries of chat platforms and other programs: one POST route each, verified by its own handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import web

from bot.web.bodies import MAX_BODY_BYTES, read_body
from bot.web.errors import Refused

# Slack repeats a delivery that is not answered within 3 seconds, Telegram waits longer; a repeated one is harmless.
ANSWER_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """What the platform is told."""

    status: int = 200
    content_type: str = "text/plain"
    text: str = ""


Handle = Callable[[bytes, Mapping[str, str]], Awaitable[DeliveryAnswer]]


@dataclass(frozen=True, slots=True)
class DeliveryRoute:
    """A path and who verifies and takes what is posted there. Header names are matched in any case.

    `admit` raises Refused for headers that are enough to know that the body is not worth reading.
    """

    path: str
    handle: Handle
    max_bytes: int = MAX_BODY_BYTES
    answer_within: timedelta = ANSWER_WITHIN
    admit: Callable[[Mapping[str, str]], None] | None = None


@dataclass(frozen=True, slots=True)
class NamedRoute:
    """A path with a `{name}` in it, which its handler is told, too."""

    path: str
    handle: Callable[[str, bytes, Mapping[str, str]], Awaitable[DeliveryAnswer]]
    max_bytes: int = MAX_BODY_BYTES
    answer_within: timedelta = ANSWER_WITHIN


Route = DeliveryRoute | NamedRoute


def telegram_route(path: str, handle: Callable[[bytes, str | None], Awaitable[int]]) -> DeliveryRoute:
    """Telegram posts an update and its secret header; the handler answers with a status."""

    async def adapt(body: bytes, headers: Mapping[str, str]) -> DeliveryAnswer:
        # Telegram Bot API, setWebhook: the secret_token comes back in this header.
        return DeliveryAnswer(await handle(body, headers.get("X-Telegram-Bot-Api-Secret-Token")))

    return DeliveryRoute(path, adapt)


def slack_route(
    handle: Callable[[bytes, Mapping[str, str]], Awaitable[tuple[int, str, str]]], path: str = "/slack/events"
) -> DeliveryRoute:
    """Slack posts signed events; the handler answers with status, content type and text."""

    async def adapt(body: bytes, headers: Mapping[str, str]) -> DeliveryAnswer:
        return DeliveryAnswer(*await handle(body, headers))

    return DeliveryRoute(path, adapt)


def serve(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The request handler of a route. A handler that takes too long is cut off; the platform delivers again."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if isinstance(route, DeliveryRoute) and route.admit is not None:
            route.admit(request.headers)
        body = await read_body(request, route.max_bytes)
        try:
            async with asyncio.timeout(route.answer_within.total_seconds()):
                if isinstance(route, NamedRoute):
                    answer = await route.handle(request.match_info["name"], body, request.headers)
                else:
                    answer = await route.handle(body, request.headers)
        except TimeoutError as error:
            raise Refused(503, "busy", "Deliver this again later.", {"Retry-After": "5"}) from error
        headers = {"Content-Type": answer.content_type}  # may name a charset, which `content_type=` refuses
        return web.Response(status=answer.status, body=answer.text.encode(), headers=headers)

    return handler
