"""Outbound webhooks: tell a server of the operator that something happened. Never what was said."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import assert_never

import structlog

from agent.clock import Clock
from agent.hooks.base import (
    SOURCE_MARK,
    Event,
    Go,
    Hook,
    InboundEvent,
    OutboundEvent,
    Outcome,
    Point,
    ResponseEvent,
    SessionEvent,
    ToolEvent,
)
from agent.hooks.entries import WebhookEntry

log = structlog.get_logger(__name__)

_LOCAL_NAMES = (".local", ".localhost", ".internal", ".lan", ".home.arpa", ".intranet")


class BadWebhook(ValueError):
    """A webhook whose address may not be asked. The text says why."""


Post = Callable[[str, Mapping[str, str], Mapping[str, object]], Awaitable[int]]
"""Posts JSON to an address with headers and gives the status. Raises `agent.net.address.Unreachable`."""


async def post_to_the_web(url: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
    """Asks the internet. The HTTP client loads at the first call."""
    from agent.net.client import WebClient

    return await WebClient().post_json(url, headers, payload)


def webhook_hook(source: str, entry: WebhookEntry, post: Post, clock: Clock) -> Hook:
    """The hook that an entry describes. Raises BadWebhook."""
    check_webhook_url(entry.url)
    name = f"{source}{SOURCE_MARK}{entry.name}"
    webhook = OutboundWebhook(name, entry, post, clock)
    timeout = timedelta(milliseconds=entry.timeout_ms)
    return Hook(name, entry.points, webhook.run, entry.priority, timeout=timeout, observes=True)


def check_webhook_url(url: str) -> None:
    """Refuse an address by its form. What its name leads to is judged at each request. Raises BadWebhook."""
    from agent.net.address import Unreachable, check_url, holds_credential, is_public

    try:
        host = (check_url(url).host or "").rstrip(".").lower()
    except Unreachable as error:
        raise BadWebhook(f"its address cannot be used: {error}") from None
    if holds_credential(url):
        raise BadWebhook("its address holds a credential.")
    try:
        is_local = not is_public(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        is_local = "." not in host or host.endswith(_LOCAL_NAMES)
    if is_local:
        raise BadWebhook("its address leads to this machine or its network.")


class OutboundWebhook:
    """One webhook. What comes while too many of its requests are under way is dropped and counted."""

    def __init__(self, name: str, entry: WebhookEntry, post: Post, clock: Clock) -> None:
        self._name = name
        self._entry = entry
        self._post = post
        self._clock = clock
        self._in_flight = 0
        self.dropped = 0

    async def run(self, event: Event) -> Outcome:
        """Tell of the event. A server that is away or refuses is logged, and that is all."""
        from agent.net.address import Unreachable

        if self._in_flight >= self._entry.max_in_flight:
            self.dropped += 1
            log.warning("webhook_dropped", hook=self._name, dropped=self.dropped)
            return Go()
        self._in_flight += 1
        try:
            payload = {"at": self._clock.now().isoformat(), **metadata(event)}
            status = await self._post(self._entry.url, self._entry.headers, payload)
        except Unreachable as error:
            log.warning("webhook_unreachable", hook=self._name, reason=str(error))
        else:
            if not 200 <= status < 300:
                log.warning("webhook_refused", hook=self._name, status=status)
        finally:
            self._in_flight -= 1
        return Go()


def metadata(event: Event) -> dict[str, object]:
    """What is told of an event: who, where, how long. No text, no arguments, no names of files."""
    match event:
        case InboundEvent(user=user, channel=channel, content=content, thread=thread):
            return _about(Point.BEFORE_INBOUND, user=user, channel=channel, thread=thread, length=len(content))
        case OutboundEvent(user=user, channel=channel, content=content, thread=thread):
            return _about(Point.BEFORE_OUTBOUND, user=user, channel=channel, thread=thread, length=len(content))
        case ResponseEvent(user=user, thread=thread, content=content):
            return _about(Point.TRANSFORM_RESPONSE, user=user, thread=thread, length=len(content))
        case ToolEvent(tool=tool, arguments=arguments, user=user, context=context):
            return _about(Point.BEFORE_TOOL_CALL, user=user, tool=tool, context=context, argument_count=len(arguments))
        case SessionEvent(point=point, user=user, session=session):
            return _about(point, user=user, session=session)
        case unreachable:
            assert_never(unreachable)


def _about(point: Point, **facts: object) -> dict[str, object]:
    return {"event": point.value, **facts}
