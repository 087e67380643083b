"""What a job has done so far, told from its changes of state and from its conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.job import Job, JobEvent
from agent.store import conversations, turns
from agent.store.base import Transaction

LONGEST = 500
"""Characters of a call or a result that an event shows."""


def events_of(tx: Transaction, job: Job, limit: int) -> tuple[JobEvent, ...]:
    """The last events of a job, oldest first."""
    found = [JobEvent("status", f"{each.after}: {each.reason}"[:LONGEST]) for each in job.transitions[:-1]]
    thread = conversations.get(tx, job.thread)
    if thread is not None:
        messages = list(turns.history(tx, thread.id, thread.view))
        if (turn := turns.open_turn(tx, thread.id)) is not None:
            messages += turns.journal(tx, turn.id).messages
        found += _told(messages)
    found += [JobEvent("status", f"{each.after}: {each.reason}"[:LONGEST]) for each in job.transitions[-1:]]
    if job.result is not None:
        found.append(JobEvent("result", job.result[:LONGEST]))
    return tuple(found[-limit:])


def _told(messages: Iterable[ChatMessage]) -> Iterator[JobEvent]:
    for message in messages:
        match message:
            case UserText(text=text):
                yield JobEvent("message", f"to the job: {text}"[:LONGEST])
            case AssistantTurn(text=text, calls=calls):
                if text.strip():
                    yield JobEvent("message", text[:LONGEST])
                for call in calls:
                    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
                    yield JobEvent("tool_use", f"{call.name} {arguments}"[:LONGEST])
            case ToolResult(name=name, text=text):
                yield JobEvent("tool_result", f"{name}: {text}"[:LONGEST])
