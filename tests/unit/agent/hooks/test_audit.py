from __future__ import annotations

import pytest
import structlog

from agent.hooks.audit import audit_hook
from agent.hooks.base import Event, Go, InboundEvent, OutboundEvent, Point, ResponseEvent, SessionEvent, ToolEvent
from agent.model.ids import UserId

ANN = UserId("telegram:5")
CANARY = "canary words"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (InboundEvent(ANN, "telegram", CANARY, "t1"), {"event": "audit_inbound", "channel": "telegram", "length": 12}),
        (OutboundEvent(ANN, "slack", CANARY, "t1"), {"event": "audit_outbound", "channel": "slack", "length": 12}),
        (ResponseEvent(ANN, "t1", CANARY), {"event": "audit_response", "thread": "t1", "length": 12}),
        (ToolEvent("shell", {CANARY: CANARY}, ANN, "chat"), {"event": "audit_tool_call", "tool": "shell"}),
        (SessionEvent(Point.SESSION_START, ANN, "s1"), {"event": "audit_session_start", "session": "s1"}),
        (SessionEvent(Point.SESSION_END, ANN, "s1"), {"event": "audit_session_end", "session": "s1"}),
    ],
)
async def test_each_event_is_one_line_without_its_content(event: Event, line: dict[str, object]) -> None:
    with structlog.testing.capture_logs() as logs:
        outcome = await audit_hook().run(event)

    assert outcome == Go()
    (found,) = logs
    assert found.items() >= {**line, "user": ANN, "log_level": "info"}.items()
    assert CANARY not in str(found)


def test_audit_stands_early_at_every_point_and_only_looks_on() -> None:
    hook = audit_hook()

    assert (hook.name, hook.points, hook.priority, hook.observes) == ("audit", frozenset(Point), 25, True)
