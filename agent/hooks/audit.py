"""The audit hook: one log line for each event, without content."""

from __future__ import annotations

from typing import assert_never

import structlog

from agent.hooks.base import (
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

log = structlog.get_logger(__name__)

AUDIT_PRIORITY = 25


def audit_hook() -> Hook:
    """A hook at all points that writes who did what where, and how long it was."""
    return Hook("audit", frozenset(Point), _audit, AUDIT_PRIORITY, observes=True)


async def _audit(event: Event) -> Outcome:
    match event:
        case InboundEvent(user=user, channel=channel, content=content, thread=thread):
            log.info("audit_inbound", user=user, channel=channel, thread=thread, length=len(content))
        case OutboundEvent(user=user, channel=channel, content=content, thread=thread):
            log.info("audit_outbound", user=user, channel=channel, thread=thread, length=len(content))
        case ResponseEvent(user=user, thread=thread, content=content):
            log.info("audit_response", user=user, thread=thread, length=len(content))
        case ToolEvent(tool=tool, arguments=arguments, user=user, context=context):
            log.info("audit_tool_call", user=user, tool=tool, context=context, arguments=len(arguments))
        case SessionEvent(point=Point.SESSION_START, user=user, session=session):
            log.info("audit_session_start", user=user, session=session)
        case SessionEvent(user=user, session=session):
            log.info("audit_session_end", user=user, session=session)
        case unreachable:
            assert_never(unreachable)
    return Go()
