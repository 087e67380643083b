"""Serves the turns of jobs: the same claim, journal, questions and commit as a chat's, another loop and another end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.conversation import hooked, prompt, replies, settle
from agent.conversation.dispatcher import ChatDelegate, DispatchRules, ToolOffer
from agent.conversation.envelope import Envelope
from agent.conversation.live import Live
from agent.conversation.memories import ThreadMemories, ThreadMemory
from agent.conversation.ports import Hooks, Journal, Skills
from agent.conversation.settle import Settlement
from agent.conversation.thread_ops import turn_place
from agent.jobs import planning, wording
from agent.jobs.container.ports import ContainerWork
from agent.jobs.container.wish import wish_of
from agent.jobs.delegate import JobDelegate, follow_plan
from agent.jobs.prompt import job_prompt
from agent.jobs.records import JobRecords
from agent.jobs.vitals import StoreVitals
from agent.llm.base import LLMProvider
from agent.llm.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ContextTooLong,
    LLMError,
    ModelUnavailable,
    RequestRefused,
)
from agent.llm.messages import ToolResult, UserText
from agent.loop.agentic_loop import Continue, Exhausted, Failed, Finish, run_agentic_loop
from agent.loop.context import ReasoningContext
from agent.model.approval import ApprovalState
from agent.model.job import Job, JobState
from agent.model.session import TurnState
from agent.safety.layer import SafetyLayer
from agent.store import conversations, inbox, jobs
from agent.store.base import Store, Transaction
from agent.store.conversations import Prefix
from agent.store.inbox import Lane
from agent.tools.base import ToolContext
from agent.tools.execute import ToolExecutor
from agent.tools.registry import Audience, LocalToolsFor, ToolRegistry
from agent.workspace.identity import Identity

log = structlog.get_logger(__name__)

# What needs the conversation itself, and what starts work that goes on by itself: a job starts no further ones.
WITHHELD = frozenset({
    "tool_auth", "tool_activate", "tool_install", "tool_remove", "restart", "build_software",
    "create_job", "cancel_job", "job_prompt", "routine_create", "routine_update", "routine_fire", "event_emit",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What the operator chose for the runs of jobs."""

    agent_name: str
    zone: ZoneInfo
    auto_approve: bool
    approval_timeout: timedelta
    local_tools_for: LocalToolsFor


class JobTurns:
    """Runs a job's turn and says what its end means for the job."""

    def __init__(
        self,
        settings: JobSettings,
        records: JobRecords,
        *,
        store: Store,
        clock: Clock,
        llm: LLMProvider,
        registry: ToolRegistry,
        executor: ToolExecutor,
        safety: SafetyLayer,
        identity: Identity,
        memories: ThreadMemories,
        skills: Skills,
        hooks: Hooks,
        containers: ContainerWork,
    ) -> None:
        self._settings = settings
        self._records = records
        self._store = store
        self._clock = clock
        self._llm = llm
        self._registry = registry
        self._executor = executor
        self._safety = safety
        self._identity = identity
        self._memories = memories
        self._skills = skills
        self._hooks = hooks
        self._containers = containers

    async def serve(self, envelope: Envelope, journal: Journal) -> Settlement:
        """Serve a turn of a job, from its start or from where an earlier run left it."""
        job = await self._store.read(lambda tx: jobs.of_thread(tx, envelope.thread.id))
        if job is None or job.state is not JobState.IN_PROGRESS or envelope.turn.stop_requested:
            return settle.stopped(envelope, self.context_so_far(envelope), dropped=0)
        if not envelope.journal.messages:
            admitted = await hooked.let_in(self._hooks, envelope)
            if isinstance(admitted, str):
                return settle.failed(envelope, ReasoningContext("", (), ()), admitted)
            envelope = admitted
        with structlog.contextvars.bound_contextvars(job_id=str(job.id)):
            return await self._serve(envelope, journal, job)

    async def _serve(self, envelope: Envelope, journal: Journal, job: Job) -> Settlement:
        vitals = StoreVitals(self._records, self._store, self._clock, self._registry, job, envelope)
        try:
            finish = await self._run(envelope, journal, job, vitals)
        except LLMError as error:
            return await self._without_model(envelope, error, vitals)
        finish = await hooked.reword(self._hooks, envelope, _named(finish))
        settlement = settle.settle(envelope, finish, self._clock.now(), self._settings.approval_timeout)
        return await hooked.let_out(self._hooks, envelope, settlement)

    def context_so_far(self, envelope: Envelope) -> ReasoningContext:
        """What a turn that was cut off has done, by its journal."""
        return ReasoningContext("", (), (), envelope.journal.messages or (self._wish(envelope),))

    def at_commit(self, tx: Transaction, envelope: Envelope, settlement: Settlement, now: datetime) -> Settlement:
        """What the turn's end means for its job, in the transaction that commits it; the notices are the job's own."""
        job = jobs.of_thread(tx, envelope.thread.id)
        if job is None or job.state is not JobState.IN_PROGRESS:
            return replace(settlement, replies=())  # who ended or halted it has said so
        if settlement.question is not None:
            jobs.note(tx, job.id, deadline=None, alive_until=None)  # a person's time is not the job's
            return settlement
        ending, shown = settlement.ending, "".join(reply.text for reply in settlement.replies)
        if ending.turn_state is not TurnState.FAILED and inbox.waiting(tx, job.thread, Lane.TURN, 1):
            return replace(settlement, replies=())  # its person has said more, or it was started again: it goes on
        match ending.turn_state:
            case TurnState.COMPLETE:
                self._records.end(tx, job, JobState.COMPLETED, ending.response or "", now, shown)
            case TurnState.INTERRUPTED:
                self._records.end(tx, job, JobState.CANCELLED, "stopped", now)
            case TurnState.FAILED:
                self._records.end(tx, job, JobState.FAILED, ending.error or "", now, shown)
            case TurnState.RUNNING | TurnState.WAITING:
                pass
            case unreachable:
                assert_never(unreachable)
        return replace(settlement, replies=())

    # -- a run -------------------------------------------------------------------------------------------------------
    async def _run(self, envelope: Envelope, journal: Journal, job: Job, vitals: StoreVitals) -> Finish:
        await self._llm.warm_up()
        memory = await self._memories.load(envelope.thread)
        offer = self._offer(envelope, memory)
        added = envelope.journal.messages or (self._wish(envelope),)
        context = ReasoningContext(
            await self._prefix(envelope, memory),
            offer.tools(added) if self._llm.supports_tools else (),
            memory.history,
            added,
        )
        delegate = JobDelegate(self._inner(envelope, journal, job, offer), job, vitals, self._safety, journal.record)
        if (wish := wish_of(job)) is not None:
            return await self._containers.work(wish, job, envelope, delegate, vitals.pulse)
        context = _with_refusals(envelope, context)
        if not envelope.journal.messages and not memory.history:
            context = await self._planned(envelope, job, context, journal)
        match await follow_plan(delegate, context):
            case Continue(context=context):
                return await run_agentic_loop(delegate, context, max_iterations=job.limits.max_iterations)
            case Finish() as finish:
                return finish
            case unreachable:
                assert_never(unreachable)

    async def _planned(
        self, envelope: Envelope, job: Job, context: ReasoningContext, journal: Journal
    ) -> ReasoningContext:
        """The context with a plan, if the model makes one. Without one the job simply begins."""
        plan = await self._plan(envelope, job, context) if context.tools else None
        log.info("job_planned", actions=len(plan.actions) if plan else 0)
        if plan is not None:
            context = context.with_messages(planning.plan_note(plan))
        await journal.record(context.added)  # a run that comes after this one does not plan again
        return context

    async def _plan(self, envelope: Envelope, job: Job, context: ReasoningContext) -> planning.Plan | None:
        request = replace(
            planning.plan_request(context.system, context.added, context.tools),
            model=envelope.model,
            account=str(envelope.turn.id),
            unattended=job.is_unattended,
        )
        try:
            completion = await self._llm.complete(request)
        except BudgetExceeded:
            raise
        except LLMError as error:
            log.warning("job_not_planned", error=type(error).__name__)
            return None
        return planning.parse_plan(self._safety.hide_secrets(completion.text))

    async def _without_model(self, envelope: Envelope, error: LLMError, vitals: StoreVitals) -> Settlement:
        """The model gave no answer: a fault that may pass leaves the job stuck, to be tried again; others fail it."""
        log.warning("model_failed", error=type(error).__name__, detail=error.detail)
        context = self.context_so_far(await vitals.renewed(envelope))
        match error:
            case BudgetExceeded(text=text):
                is_private = envelope.is_operator and not envelope.chat_type.is_shared
                return settle.failed(envelope, context, text if is_private else replies.BUDGET_USED_UP)
            case ContextTooLong():
                return settle.failed(envelope, context, wording.TOO_LONG_FOR_MODEL)
            case AuthenticationFailed() | ModelUnavailable():
                return settle.failed(envelope, context, replies.MODEL_REFUSES_KEY)
            case RequestRefused():
                return settle.failed(envelope, context, wording.MODEL_REFUSES)
            case _:
                await vitals.halt(wording.MODEL_AWAY)
                return settle.stopped(envelope, context, dropped=0)

    # -- what a run is made of -------------------------------------------------------------------------------------
    def _wish(self, envelope: Envelope) -> UserText:
        zone = prompt.zone_of(envelope.message, self._settings.zone)
        return UserText(prompt.user_text(envelope.messages, envelope.turn.started_at, zone))

    def _offer(self, envelope: Envelope, memory: ThreadMemory) -> ToolOffer:
        audience = Audience.of(
            is_operator=envelope.is_operator,
            is_shared=envelope.chat_type.is_shared,
            local_tools_for=self._settings.local_tools_for,
        )
        return ToolOffer(self._registry, audience, self._skills, memory.told, WITHHELD)

    async def _prefix(self, envelope: Envelope, memory: ThreadMemory) -> str:
        """The job's prefix as it was first rendered, for all its runs."""
        if memory.prefix is not None:
            return memory.prefix.body
        snapshot = await self._identity.snapshot(envelope.scope)
        rendered = Prefix(snapshot.stamp, job_prompt(self._settings.agent_name, envelope.chat_type, snapshot.text))
        await self._store.write(partial(conversations.keep_prefix, thread=envelope.thread.id, value=rendered))
        self._memories.note_prefix(envelope.thread.id, rendered)
        return rendered.body

    def _inner(self, envelope: Envelope, journal: Journal, job: Job, offer: ToolOffer) -> ChatDelegate:
        tool_context = ToolContext(
            user=envelope.thread.user,
            is_operator=envelope.is_operator,
            is_shared=envelope.chat_type.is_shared,
            scope=envelope.scope,
            address=envelope.message.replies_go_to,
            thread=envelope.thread.id,
            turn=envelope.turn.id,
            call_id="",
            zone=prompt.zone_of(envelope.message, self._settings.zone),
            now=envelope.turn.started_at,
            origin=f"job:{job.id}",
            model=envelope.model,
        )
        rules = DispatchRules(
            max_iterations=job.limits.max_iterations,
            auto_approve=self._settings.auto_approve or job.is_unattended,
            streams=False,
            model=envelope.model,
            steers=True,
            asks=job.origin is not None and not job.is_unattended,
            allowed=job.allowed_tools or frozenset(),
            unattended=job.is_unattended,
        )
        return ChatDelegate(
            envelope,
            turn_place(envelope),
            tool_context,
            llm=self._llm,
            executor=self._executor,
            safety=self._safety,
            journal=journal,
            live=Live(),  # its calls are shown nowhere: the chat of origin may be busy with something else
            offer=offer,
            rules=rules,
            count=lambda counted: None,
        )


def _with_refusals(envelope: Envelope, context: ReasoningContext) -> ReasoningContext:
    """The context where calls that a person did not release have their result: the job goes on without them."""
    refused: list[ToolResult] = []
    for call in context.open_calls:
        decision = envelope.decisions.get(call.id)
        if decision is not None and decision.state is not ApprovalState.APPROVED:
            refused.append(ToolResult(call.id, call.name, replies.denied_result(decision.state), is_error=True))
    return context.with_messages(*refused)


def _named(finish: Finish) -> Finish:
    """The end of the loop with the job's own words where the limit of steps is reached."""
    match finish.outcome:
        case Exhausted(iterations=count):
            return replace(finish, outcome=Failed(wording.OUT_OF_STEPS.format(count=count)))
        case _:
            return finish
