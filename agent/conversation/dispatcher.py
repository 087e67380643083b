"""The conversational delegate: asks the model, asks people before risky calls, runs the rest, and keeps the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from agent.conversation import replies
from agent.conversation.envelope import Envelope
from agent.conversation.live import Live, TextSoFar, ToolBegan, ToolEnded, TurnPlace
from agent.conversation.memories import Counted
from agent.conversation.ports import Journal, Skills
from agent.conversation.told import Told, told
from agent.llm.base import Completion, FinishReason, LLMProvider, OnText, ToolDefinition
from agent.llm.clean import StreamCleaner, clean
from agent.llm.errors import ContextTooLong
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.loop import guards
from agent.loop.agentic_loop import (
    AwaitsSecret,
    Continue,
    Finish,
    Inject,
    LoopSignal,
    NeedApproval,
    Proceed,
    Responded,
    Step,
)
from agent.loop.context import ReasoningContext
from agent.loop.tool_calls import Planned, plan_batches
from agent.model.tool_call import ToolCall, ToolOutput
from agent.safety.layer import SafetyLayer
from agent.tools.base import Approval, Effect, IterationBudget, ToolContext
from agent.tools.builtin.auth import awaited
from agent.tools.execute import Prepared, Refusal, ToolExecutor
from agent.tools.registry import Audience, ToolRegistry

log = structlog.get_logger(__name__)

PREVIEW_LENGTH = 200
_CUT = "[system note] Earlier messages of this conversation were left out here, since they did not fit."
_CHANGED = "What was allowed is not what would run now, so nothing was run. Ask for it again."
_NARROWED = (
    "not available while an installed skill ({skills}) is in use in this conversation. It was not run. The person can "
    "start a new conversation with /new."
)
_WITHHELD = (
    "not available to a background job. It was not run. If the person needs it, say so at the end: they can ask for it "
    "in the conversation."
)
_NOBODY = "it needs a person's consent, and nobody can be asked here. It was not run."
_UNKNOWN_OUTCOME = (
    "The program was interrupted while this ran. Whether it took effect is not known, so it was not run again. "
    "Check before you repeat it."
)


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """Settings of the loop in a chat or a job.

    `asks`: whether somebody can be asked; if not, what needs consent is refused. `allowed`: tools that run without
    asking although they ask each time. `unattended`: nobody waits for the answer.
    """

    max_iterations: int
    auto_approve: bool
    streams: bool
    model: str | None = None
    steers: bool = False
    asks: bool = True
    allowed: frozenset[str] = frozenset()
    unattended: bool = False


class ToolOffer:
    """Which tools a turn may use at a moment: those of its audience, less what a skill in use takes away."""

    def __init__(
        self,
        registry: ToolRegistry,
        audience: Audience,
        skills: Skills,
        before: Told,
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self._registry = registry
        self._audience = audience
        self._skills = skills
        self._before = before
        self._withheld = withheld

    def tools(self, added: Sequence[ChatMessage]) -> tuple[ToolDefinition, ...]:
        """The tools to offer, after the turn has added these messages."""
        now = self._before.then(told(added))
        tools = self._registry.offered_to(self._audience, now.tools)
        if self._withheld:
            tools = tuple(tool for tool in tools if tool.name not in self._withheld)
        allowed = self._skills.narrowed(now.skills)
        if allowed is None:
            return tools
        log.info("tools_narrowed", skills=[skill.name for skill in now.skills if skill.is_installed])
        return tuple(tool for tool in tools if tool.name in allowed)

    def asks_addresses(self, name: str) -> bool:
        """Whether a tool's results come from the addresses that its calls name."""
        tool = self._registry.get(name)
        return tool is not None and tool.spec.told_address is not None

    def refusal(self, name: str, added: Sequence[ChatMessage]) -> str | None:
        """Why a tool may not be used at this moment, or None."""
        if name in self._withheld:
            return _WITHHELD
        now = self._before.then(told(added))
        allowed = self._skills.narrowed(now.skills)
        if allowed is None or name in allowed:
            return None
        return _NARROWED.format(skills=", ".join(skill.name for skill in now.skills if skill.is_installed))


class ChatDelegate:
    """One turn of a chat, as the loop drives it."""

    def __init__(
        self,
        envelope: Envelope,
        place: TurnPlace,
        tool_context: ToolContext,
        *,
        llm: LLMProvider,
        executor: ToolExecutor,
        safety: SafetyLayer,
        journal: Journal,
        live: Live,
        offer: ToolOffer,
        rules: DispatchRules,
        count: Callable[[Counted], None],
    ) -> None:
        self._envelope = envelope
        self._place = place
        self._budget = IterationBudget(rules.max_iterations)
        self._tool_context = replace(tool_context, budget=self._budget, consents=_Consents(rules, journal))
        self._llm = llm
        self._executor = executor
        self._safety = safety
        self._journal = journal
        self._live = live
        self._offer = offer
        self._rules = rules
        self._count = count
        self._shortened = False
        self._awaited: AwaitsSecret | None = None
        self.latest: ReasoningContext | None = None
        """The context as it was last seen: what a stopped turn has done."""

    async def check_signals(self) -> LoopSignal:
        """New messages, where they join the running turn. A stop cancels the turn's task instead, and acts at once."""
        if self._rules.steers and self.latest is not None and not self.latest.open_calls:
            text = await self._journal.take_more(self.latest.added)
            if text is not None:
                return Inject(text)
        return Proceed()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        self._budget.own = iteration
        if context.tools:
            context = replace(context, tools=self._offer.tools(context.added))
        self.latest = context
        if self._budget.left == 1 and context.tools:
            return Continue(context.with_messages(UserText(guards.LAST_ROUND)))
        if self._budget.left == 0:
            return Continue(context.without_tools())
        return Continue(context)

    async def call_llm(self, context: ReasoningContext) -> Completion:
        self.latest = context
        try:
            return await self._ask(context)
        except ContextTooLong:
            if self._shortened or not context.history:
                raise
            self._shortened = True
            log.warning("context_cut_for_this_turn", messages=len(context.history))
            return await self._ask(context)

    async def _ask(self, context: ReasoningContext) -> Completion:
        """One model call; without the history once that was found not to fit."""
        seen = context.without_history(_CUT) if self._shortened else context
        request = replace(
            seen.request(),
            model=self._rules.model,
            account=str(self._envelope.turn.id),
            unattended=self._rules.unattended,
        )
        completion = await self._llm.complete(request, self._on_text() if self._rules.streams else None)
        weight = completion.usage.input_tokens + completion.usage.output_tokens
        if completion.usage.input_tokens and not self._shortened:
            self._count(Counted(len(request.messages) + 1, weight))
        return completion

    async def handle_text_response(self, completion: Completion, context: ReasoningContext) -> Step:
        text = self._safety.hide_secrets(clean(completion.text))
        if not text.strip():
            text = self._safety.hide_secrets(_said_before(context)) or replies.EMPTY_ANSWER
        elif completion.finish is FinishReason.LENGTH:
            text += replies.CUT_OFF
        return Finish(Responded(text), context)

    async def execute_tool_calls(self, context: ReasoningContext) -> Step:
        self.latest = context
        results: dict[str, ToolResult] = {}
        ready: list[_Ready] = []
        question: NeedApproval | None = None
        for call in context.open_calls:
            match await self._preflight(call, context):
                case ToolResult() as result:
                    results[call.id] = result
                case _Ready() as slot:
                    ready.append(slot)
                case NeedApproval() as question:
                    break
        leaves_traces = any(slot.prepared.effect is not Effect.READ for slot in ready)
        if leaves_traces:
            await self._journal.begin(context.added, [slot.call.id for slot in ready])
        for batch in plan_batches([slot.planned for slot in ready]):
            for result in await self._run(batch):
                results[result.call_id] = result
        context = context.with_messages(*(results[c.id] for c in context.open_calls if c.id in results))
        self.latest = context
        if leaves_traces:
            await self._journal.record(context.added)
        if self._awaited is not None:  # a credential comes first: nobody else may answer for it
            return Finish(self._awaited, context)
        return Finish(question, context) if question else Continue(context)

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        self.latest = context

    # -- before a call ------------------------------------------------------------------------------------------
    async def _preflight(self, call: ToolCall, context: ReasoningContext) -> ToolResult | _Ready | NeedApproval:
        if (reason := self._offer.refusal(call.name, context.added)) is not None:
            return self._refused(call, reason)
        prepared = await self._executor.prepare(call, self._tool_context)
        if isinstance(prepared, Refusal):
            return self._executor.present(call, prepared.output)
        if call.id in self._envelope.journal.begun and prepared.effect is not Effect.READ:
            return self._refused(call, _UNKNOWN_OUTCOME)
        decision = self._envelope.decisions.get(call.id)
        if decision is not None and decision.releases(prepared.display):
            return _Ready(call, prepared)
        if await self._must_ask(prepared, context):
            if decision is not None:
                return self._refused(call, _CHANGED)
            if not self._rules.asks:
                return self._refused(call, _NOBODY)
            may_be_always = prepared.approval is not Approval.ALWAYS
            return NeedApproval(call, prepared.spec.description, prepared.display, may_be_always)
        return _Ready(call, prepared)

    def _is_told(self, prepared: Prepared, context: ReasoningContext) -> bool:
        """Whether the address that a call asks stands, as it is, in what people wrote or in what addresses answered.

        Results of other tools do not count: some repeat what the model tells them.
        """
        find = prepared.spec.told_address
        address = find(prepared.arguments) if find is not None else None
        return address is not None and any(
            address in message.text
            for message in (*context.history, *context.added)
            if isinstance(message, UserText)
            or (isinstance(message, ToolResult) and self._offer.asks_addresses(message.name))
        )

    def _refused(self, call: ToolCall, reason: str) -> ToolResult:
        return self._executor.present(call, ToolOutput(reason, is_error=True))

    async def _must_ask(self, prepared: Prepared, context: ReasoningContext) -> bool:
        match prepared.approval:
            case Approval.NEVER:
                return False
            case Approval.UNLESS_ALWAYS if self._is_told(prepared, context):
                return False
            case Approval.UNLESS_ALWAYS:
                assert self._tool_context.consents is not None  # the constructor gave it
                return not await self._tool_context.consents.allows(prepared.spec.name)
            case Approval.ALWAYS:
                return prepared.spec.name not in self._rules.allowed

    # -- the call -----------------------------------------------------------------------------------------------
    async def _run(self, batch: Sequence[_Ready]) -> list[ToolResult]:
        if len(batch) == 1:
            return [await self._run_one(batch[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run_one(slot)) for slot in batch]
        return [task.result() for task in tasks]

    async def _run_one(self, slot: _Ready) -> ToolResult:
        self._live.publish(ToolBegan(self._place, slot.call.id, slot.call.name))
        output = await self._executor.run(slot.prepared, replace(self._tool_context, call_id=slot.call.id))
        if request := awaited(slot.call.name, output):
            self._awaited = AwaitsSecret(request.name, request.instructions)
        result = self._executor.present(slot.call, output)
        preview = " ".join(self._safety.hide_secrets(output.text).split())[:PREVIEW_LENGTH]
        self._live.publish(ToolEnded(self._place, slot.call.id, slot.call.name, not output.is_error, preview))
        return result

    # -- the answer while it is written -------------------------------------------------------------------------
    def _on_text(self) -> OnText:
        answer = _AnswerSoFar(self._safety)

        def on_text(piece: str) -> None:
            answer.hear(piece)
            self._live.publish(TextSoFar(self._place, answer.render))

        return on_text


class _Consents:
    """What need not be asked about in this turn."""

    def __init__(self, rules: DispatchRules, journal: Journal) -> None:
        self._rules = rules
        self._journal = journal

    async def allows(self, tool: str) -> bool:
        return self._rules.auto_approve or await self._journal.allows(tool)


def _said_before(context: ReasoningContext) -> str:
    """What the model told the person last in this turn, beside its calls: some say all there and end with nothing."""
    said = (clean(message.text) for message in reversed(context.added) if isinstance(message, AssistantTurn))
    return next((text for text in said if text.strip() and not guards.announces_action(text)), "")


class _AnswerSoFar:
    """Text as it arrives, cleaned and screened only when somebody is about to see it."""

    def __init__(self, safety: SafetyLayer) -> None:
        self._safety = safety
        self._unread: list[str] = []
        self._start_over()

    def hear(self, piece: str) -> None:
        if piece:
            self._unread.append(piece)
        else:  # the provider begins anew
            self._unread.clear()
            self._start_over()

    def render(self) -> str:
        """All that may be shown: no thinking, no half of a secret."""
        self._cleaner.feed("".join(self._unread))
        self._unread.clear()
        return self._gate.feed(self._cleaner.visible)

    def _start_over(self) -> None:
        self._cleaner = StreamCleaner()
        self._gate = self._safety.stream_gate()


@dataclass(frozen=True, slots=True)
class _Ready:
    call: ToolCall
    prepared: Prepared

    @property
    def planned(self) -> Planned[_Ready]:
        return Planned(self, self.prepared.effect, self.prepared.scope)
