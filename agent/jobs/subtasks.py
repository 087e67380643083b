"""Small pieces of work on behalf of a job: calls of tools and handlers, side by side, with results in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from agent.jobs import wording
from agent.model.ids import JobId
from agent.model.job import Job, JobRequest
from agent.model.tool_call import ToolCall, ToolOutput
from agent.store import jobs
from agent.store.base import Store
from agent.tools.base import Approval, ToolContext
from agent.tools.execute import Prepared, Refusal, ToolExecutor

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolExec:
    """One call of a tool for a job."""

    parent: JobId
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Background:
    """Any other work that ends by itself."""

    handler: Callable[[], Awaitable[ToolOutput]]


Subtask = ToolExec | Background | JobRequest
"""A job is in the union so that it can be refused in words: jobs do not nest."""


class Subtasks:
    """Runs subtasks through the one pipeline that every call goes through. Nobody is asked: what would ask is refused,
    unless the job may run it unasked.
    """

    def __init__(self, executor: ToolExecutor, store: Store) -> None:
        self._executor = executor
        self._store = store

    async def spawn_subtask(self, task: Subtask, context: ToolContext) -> ToolOutput:
        """The result of one subtask; a failure is a result too."""
        match task:
            case JobRequest():
                return _refused(wording.NO_NESTING)
            case ToolExec():
                return await self._call(task, context)
            case Background(handler=handler):
                return await _guarded(handler)
            case unreachable:
                assert_never(unreachable)

    async def spawn_batch(self, tasks: Sequence[Subtask], context: ToolContext) -> tuple[ToolOutput, ...]:
        """The results of all, which start at once, in the order of the tasks. One that fails harms no other."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self.spawn_subtask(task, context)) for task in tasks]
        return tuple(each.result() for each in running)

    async def _call(self, task: ToolExec, context: ToolContext) -> ToolOutput:
        parent = await self._store.read(lambda tx: jobs.get(tx, task.parent))
        if parent is None or parent.state.is_over:
            return _refused(wording.PARENT_IS_OVER)
        context = replace(context, origin=f"job:{parent.id}", call_id=task.call.id)
        match await self._executor.prepare(task.call, context):
            case Refusal(output=output):
                return output
            case Prepared() as prepared:
                if not _runs_unasked(prepared, parent):
                    return _refused(wording.NEEDS_CONSENT.format(tool=task.call.name))
                return await self._executor.run(prepared, context)
            case unreachable:
                assert_never(unreachable)


def _runs_unasked(prepared: Prepared, parent: Job) -> bool:
    """Whether a call of a job may run with nobody asked: by the rules of unattended jobs, else only what never asks."""
    match prepared.approval:
        case Approval.NEVER:
            return True
        case Approval.UNLESS_ALWAYS:
            return parent.allowed_tools is not None
        case Approval.ALWAYS:
            return parent.allowed_tools is not None and prepared.spec.name in parent.allowed_tools


async def _guarded(handler: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
    try:
        return await handler()
    except Exception as error:  # noqa: BLE001 - like a tool's: a fault of one must not end the others
        log.error("subtask_failed", error=type(error).__name__)
        return _refused("it broke with an unexpected fault.")


def _refused(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
