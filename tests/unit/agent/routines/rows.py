"""Routines to test with."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from agent.model.ids import OPERATOR, RoutineId, UserId
from agent.model.routine import Action, Cron, Guardrails, Lightweight, Notify, Origin, Plan, Routine, Trigger
from channels.message import Address, ChatType
from tests.support.builders import NOON

HERE = Address(channel="telegram", chat_id="1")
GROUP = Address(channel="telegram", chat_id="-100", thread_id="7")


def make_routine(
    name: str = "morning",
    *,
    trigger: Trigger | None = None,
    action: Action | None = None,
    user: UserId = OPERATOR,
    address: Address = HERE,
    chat_type: ChatType = ChatType.PRIVATE,
    due_at: datetime | None = None,
    cooldown: timedelta = timedelta(0),
    notify: Notify | None = None,
    dedup: timedelta | None = None,
) -> Routine:
    """A routine; at nine in the morning unless told otherwise."""
    return Routine(
        id=RoutineId(uuid4()),
        user=user,
        name=name,
        description="",
        enabled=True,
        plan=Plan(
            trigger or Cron("0 9 * * *", "UTC"),
            action or Lightweight("look"),
            Guardrails(cooldown, dedup_window=dedup),
            notify or Notify(),
            Origin(address, chat_type, "1", "UTC"),
        ),
        due_at=due_at,
        wake_at=due_at,
        last_run_at=None,
        run_count=0,
        consecutive_failures=0,
        created_at=NOON,
        updated_at=NOON,
    )
