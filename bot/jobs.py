"""Builds what takes and looks after background jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from agent.clock import Clock
from agent.conversation.intake import Intake
from agent.conversation.ports import Deliveries, Hooks, TurnSignals
from agent.jobs.records import JobRecords, JobRules
from agent.jobs.scheduler import JobScheduler
from agent.model.approval import ApprovalState, PendingApproval
from agent.model.ids import OPERATOR
from agent.model.job import Job, JobState
from agent.store import tool_health
from agent.store.base import Store, Transaction
from agent.store.errors import StoreError
from agent.tools.builtin.jobs import Containers, job_tools
from agent.tools.registry import AnyTool
from channels.base import Channel
from channels.web import OPERATOR_ID, EventName, WebChannel
from config.settings import Settings

log = structlog.get_logger(__name__)

LEAST_THRESHOLD = timedelta(seconds=300)
_MODEL_TRIES = 4
"""A model call that is repeated and led elsewhere may take some times its own limit before a job counts as hanging."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The rows' keeper, and the desk that people, tools and routines come to."""

    records: JobRecords
    scheduler: JobScheduler

    def tools(self, containers: Containers) -> tuple[AnyTool, ...]:
        """The tools about jobs."""
        return job_tools(self.scheduler, containers)


def build_jobs(
    settings: Settings,
    store: Store,
    clock: Clock,
    signals: TurnSignals,
    deliveries: Deliveries,
    hooks: Hooks,
    channels: Mapping[str, Channel],
) -> Jobs:
    """Jobs for these settings. Progress is shown where a message can be edited: on the platforms."""
    rules = JobRules(
        max_parallel=settings.agent.max_parallel_jobs,
        threshold=max(LEAST_THRESHOLD, settings.llm.timeout * _MODEL_TRIES),
        progress_channels=frozenset(channels) - {"web", "console"},
    )
    records = JobRecords(rules, signals, deliveries)
    records.listen(lambda job: log.info("job_changed", job_id=str(job.id), state=job.state.value))
    return Jobs(records, JobScheduler(records, store, clock, hooks))


def close_questions_at(records: JobRecords, intake: Intake) -> None:
    """Let the questions of jobs that end be closed at the door, so that their prompts show it."""

    def close(tx: Transaction, pending: PendingApproval, state: ApprovalState, by: str, now: datetime) -> None:
        intake.close_question(tx, pending, state, by=by, now=now)

    records.close_questions_with(close)


def tell_page(channels: Mapping[str, Channel], scheduler: JobScheduler) -> None:
    """Let the page know of each change of the operator's jobs, while somebody looks."""
    page = channels.get(WebChannel.name)
    if not isinstance(page, WebChannel):
        return

    def tell(job: Job) -> None:
        if job.user != OPERATOR or not page.hub.is_watched:
            return
        data: dict[str, object] = {"job_id": str(job.id), "title": job.title, "status": job.state.value}
        if job.state.is_over:
            page.hub.publish(EventName.JOB_RESULT, data | {"result": job.result, "error": job.error}, user=OPERATOR_ID)
        else:
            name = EventName.JOB_STARTED if job.state is JobState.PENDING else EventName.JOB_STATUS
            page.hub.publish(name, data, user=OPERATOR_ID)

    scheduler.on_change(tell)


class StoreToolHealth:
    """`agent.tools.execute.Health` on the store. A tool that works is written of only if it broke before."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._broke: set[str] = set()

    async def broke(self, tool: str) -> None:
        self._broke.add(tool)
        now = self._clock.now()
        await self._note(lambda tx: tool_health.note_failure(tx, tool, now))

    async def worked(self, tool: str) -> None:
        if tool in self._broke:
            self._broke.discard(tool)
            await self._note(lambda tx: tool_health.note_success(tx, tool))

    async def _note(self, work: Callable[[Transaction], None]) -> None:
        try:
            await self._store.write(work)
        except StoreError as error:  # what is not counted is counted the next time
            log.error("tool_health_not_kept", error=type(error).__name__)
