"""A lightweight run: one question to the model, a few rounds of tools that never ask, one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, assert_never
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.conversation import prompt
from agent.hooks.base import InboundEvent, Passed, Stopped
from agent.llm.base import Completion, FinishReason, LLMProvider, ToolDefinition
from agent.llm.clean import clean
from agent.llm.errors import BudgetExceeded, ContextTooLong, LLMError
from agent.llm.messages import ToolResult, UserText
from agent.loop import agentic_loop
from agent.loop.agentic_loop import Continue, Finish, LoopSignal, Proceed, Responded, Step, run_agentic_loop
from agent.loop.context import ReasoningContext
from agent.loop.tool_calls import Planned, plan_batches
from agent.model.ids import ThreadId
from agent.model.routine import Ending, Lightweight, Routine, Run, RunStatus, state_path
from agent.model.tool_call import ToolCall, ToolOutput
from agent.routines import runs
from agent.routines.heartbeat import AllClear, Failed, NeedsAttention, read_answer
from agent.safety.layer import SafetyLayer, split_at_bytes
from agent.tools.base import Approval, ToolContext
from agent.tools.execute import Prepared, Refusal, ToolExecutor
from agent.tools.registry import AnyTool, ToolRegistry
from agent.workspace.errors import WorkspaceError
from agent.workspace.identity import Identity
from agent.workspace.scope import OperatorScope, Scope
from agent.workspace.workspace import Workspace

log = structlog.get_logger(__name__)

LONGEST_RUN = timedelta(minutes=15)
MOST_ROUNDS = 5
LONGEST_RESULT_BYTES = 8 * 1024
LONGEST_DOCUMENT_BYTES = 16 * 1024
_TRIES_AGAIN_AFTER = (timedelta(seconds=1), timedelta(seconds=2))  # for an answer without a word in it
_NO_BUDGET = "the budget for the language model is used up for now"
# What needs a person or a conversation, and what would let a run make more runs. Most of it would be refused anyway.
_WITHHELD = frozenset({
    "task", "message", "restart", "tool_search", "tool_auth", "tool_install", "tool_activate", "tool_remove",
    "secret_delete", "skill_install", "skill_remove", "routine_create", "routine_update", "routine_delete",
    "routine_fire", "event_emit", "create_job", "cancel_job", "job_prompt",
})  # fmt: skip


class Hooks(Protocol):
    """What the operator put in the way of a person's words."""

    async def inbound(self, event: InboundEvent) -> Passed | Stopped: ...


@dataclass(frozen=True, slots=True)
class LightweightSettings:
    """The operator's settings for such runs."""

    agent_name: str
    zone: ZoneInfo
    max_tokens: int
    uses_tools: bool
    max_rounds: int


class LightweightRunner:
    """Runs routines that are a question to the model. Nothing of it needs a chat, and it asks nobody."""

    def __init__(
        self,
        settings: LightweightSettings,
        *,
        clock: Clock,
        llm: LLMProvider,
        registry: ToolRegistry,
        executor: ToolExecutor,
        safety: SafetyLayer,
        workspace: Workspace,
        identity: Identity,
        hooks: Hooks,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._llm = llm
        self._registry = registry
        self._executor = executor
        self._safety = safety
        self._workspace = workspace
        self._identity = identity
        self._hooks = hooks

    async def run(self, routine: Routine, run: Run, action: Lightweight) -> Ending:
        """The end of one run. Raises nothing of the model's or the workspace's."""
        cause = await self._cause(routine, run)
        if isinstance(cause, Ending):
            return cause
        try:
            async with asyncio.timeout(LONGEST_RUN.total_seconds()):
                await self._llm.warm_up()
                return await self._ask(routine, run, action, cause)
        except TimeoutError:
            return _failed(f"it took longer than {LONGEST_RUN.total_seconds() / 60:g} minutes")
        except BudgetExceeded as error:
            may_see_sums = isinstance(runs.scope_of_routine(routine), OperatorScope)
            return Ending(RunStatus.MISSED, error.text if may_see_sums else _NO_BUDGET)
        except ContextTooLong:
            return _failed("what it has to read is too long for the language model")
        except LLMError as error:
            log.warning("routine_model_failed", error=type(error).__name__, detail=error.detail)
            return _failed("the language model did not answer")

    async def _ask(self, routine: Routine, run: Run, action: Lightweight, cause: str) -> Ending:
        context = self._tool_context(routine, run)
        tools = self._tools(context)
        scope = runs.scope_of_routine(routine)
        start = ReasoningContext(
            await self._system(routine, scope),
            tools,
            (),
            (UserText(await self._question(routine, action, cause, context, may_write_state=bool(tools))),),
        )
        rounds = min(self._settings.max_rounds, MOST_ROUNDS) if tools else 1
        delegate = _Rounds(self._llm, self._executor, self._clock, context, rounds, self._settings.max_tokens)
        finish = await run_agentic_loop(delegate, start, max_iterations=rounds)
        return self._ending(finish.outcome, cut_off=delegate.is_cut_off)

    def _ending(self, outcome: agentic_loop.LoopOutcome, *, cut_off: bool) -> Ending:
        if not isinstance(outcome, Responded):
            return _failed("it used up its rounds without an answer")
        if prompt.is_silent(outcome.text):
            return Ending(RunStatus.OK)
        match read_answer(outcome.text, cut_off=cut_off, token=runs.OK_TOKEN):
            case AllClear():
                return Ending(RunStatus.OK)
            case NeedsAttention(text=text):
                return Ending(RunStatus.ATTENTION, self._safety.hide_secrets(text))
            case Failed(reason=reason):
                return _failed(reason)
            case unreachable:
                assert_never(unreachable)

    # -- what the model is told ----------------------------------------------------------------------------------
    async def _system(self, routine: Routine, scope: Scope) -> str:
        snapshot = await self._identity.snapshot(scope)
        origin = routine.plan.origin
        facts = prompt.PromptFacts(self._settings.agent_name, origin.address.channel, origin.chat_type, snapshot.text)
        return prompt.system_prompt(facts)

    async def _question(
        self, routine: Routine, action: Lightweight, cause: str, context: ToolContext, *, may_write_state: bool
    ) -> str:
        state = await self._document(context.scope, state_path(routine.name))
        return runs.question(
            action.prompt,
            name=routine.name,
            now=context.now.astimezone(context.zone),
            notes=await self._identity.notes(context.scope, context.zone) or "",
            documents="\n\n".join(
                [
                    self._safety.wrap_external(path, text)
                    for path in action.context_paths
                    if (text := await self._document(context.scope, path))
                ]
            ),
            state=self._safety.wrap_external("state", state) if state else "",
            cause=cause,
            may_write_state=may_write_state,
        )

    async def _document(self, scope: Scope, path: str) -> str:
        """A document of the owner's without its secrets; empty where it is missing or cannot be read."""
        try:
            text = (await self._workspace.read(scope, path)).strip()
        except WorkspaceError:
            return ""
        shown, beyond = split_at_bytes(self._safety.hide_secrets(text), LONGEST_DOCUMENT_BYTES)
        return f"{shown}\n[cut]" if beyond else shown

    async def _cause(self, routine: Routine, run: Run) -> str | Ending:
        """What set the run off, as data; a person's words as hooks leave them, or the end if a hook refuses them."""
        if not run.detail or run.cause == "schedule":
            return run.detail
        if run.cause != "message":
            return self._safety.wrap_external(run.cause, self._safety.hide_secrets(run.detail))
        event = InboundEvent(routine.user, routine.plan.origin.address.channel, run.detail, str(run.id))
        match await self._hooks.inbound(event):
            case Passed(content=content):
                return self._safety.wrap_external("message of the owner", content)
            case Stopped():
                return _failed("the message that set it off was refused by a hook")
            case unreachable:
                assert_never(unreachable)

    # -- tools ---------------------------------------------------------------------------------------------------
    def _tool_context(self, routine: Routine, run: Run) -> ToolContext:
        origin = routine.plan.origin
        return ToolContext(
            user=routine.user,
            is_operator=routine.is_operators,
            is_shared=origin.chat_type.is_shared,
            scope=runs.scope_of_routine(routine),
            address=origin.address,
            thread=ThreadId(run.id),
            turn=run.id,
            call_id="",
            zone=runs.zone_of(routine, self._settings.zone),
            now=self._clock.now(),
            origin=f"routine:{routine.id}",
        )

    def _tools(self, context: ToolContext) -> tuple[ToolDefinition, ...]:
        if not self._settings.uses_tools or not self._llm.supports_tools or self._settings.max_rounds < 2:
            return ()
        offered = self._registry.offered_to(self._executor.audience(context))
        return tuple(definition for definition in offered if _may_be_free(self._registry.get(definition.name)))


class _Rounds:
    """What a call, an answer and the last round mean in such a run."""

    def __init__(
        self,
        llm: LLMProvider,
        executor: ToolExecutor,
        clock: Clock,
        context: ToolContext,
        limit: int,
        max_tokens: int,
    ) -> None:
        self._llm = llm
        self._executor = executor
        self._clock = clock
        self._context = context
        self._limit = limit
        self._max_tokens = max_tokens
        self.is_cut_off = False
        """Whether the last answer was longer than it may be."""

    async def check_signals(self) -> LoopSignal:
        return Proceed()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        return Continue(context.without_tools() if iteration == self._limit else context)

    async def call_llm(self, context: ReasoningContext) -> Completion:
        completion = await self._complete(context)
        for wait in _TRIES_AGAIN_AFTER:
            if completion.calls or completion.finish is FinishReason.LENGTH or clean(completion.text).strip():
                break
            await self._clock.sleep(wait)
            completion = await self._complete(context)
        self.is_cut_off = completion.finish is FinishReason.LENGTH
        return completion

    async def _complete(self, context: ReasoningContext) -> Completion:
        request = context.request(max_tokens=self._max_tokens, temperature=0.3)
        return await self._llm.complete(replace(request, account="routine", unattended=True))

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step:
        return Finish(Responded(clean(completion.text).strip()), context)

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        results: dict[str, ToolResult] = {}
        ready: list[Planned[Prepared]] = []
        for call in context.open_calls:
            match await self._preflight(call, context.tools):
                case Prepared() as prepared:
                    ready.append(Planned(prepared, prepared.effect, prepared.scope))
                case ToolOutput() as refused:
                    results[call.id] = self._executor.present(call, refused)
        for batch in plan_batches(ready):
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(self._run(prepared)) for prepared in batch]
            results |= {result.call_id: result for result in (each.result() for each in running)}
        return Continue(context.with_messages(*(results[call.id] for call in context.open_calls)))

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        return None

    async def _preflight(self, call: ToolCall, tools: Sequence[ToolDefinition]) -> Prepared | ToolOutput:
        if not any(tool.name == call.name for tool in tools):
            return _refused("it is not available to a routine.")
        prepared = await self._executor.prepare(call, self._context)
        if isinstance(prepared, Refusal):
            return prepared.output
        if prepared.approval is not Approval.NEVER:
            return _refused("it needs a person's consent, and a routine cannot ask.")
        return prepared

    async def _run(self, prepared: Prepared) -> ToolResult:
        output = await self._executor.run(prepared, replace(self._context, call_id=prepared.call.id))
        shown, beyond = split_at_bytes(output.text, LONGEST_RESULT_BYTES)
        if beyond:
            output = replace(output, text=f"{shown}\n[cut: the first {LONGEST_RESULT_BYTES} bytes are shown]")
        return self._executor.present(prepared.call, output)


def _may_be_free(tool: AnyTool | None) -> bool:
    """Whether there are calls of a tool that need no consent, and a run has a use for them."""
    if tool is None or tool.spec.name in _WITHHELD:
        return False
    return tool.spec.assess is not None or tool.spec.approval is Approval.NEVER


def _refused(reason: str) -> ToolOutput:
    return ToolOutput(f"{reason} It was not run.", is_error=True)


def _failed(reason: str) -> Ending:
    return Ending(RunStatus.FAILED, f"{reason[0].upper()}{reason[1:]}.")
