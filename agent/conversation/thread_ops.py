"""What a turn of a chat does, from its messages to its settlement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.conversation import hooked, prompt, settle
from agent.conversation.dispatcher import ChatDelegate, DispatchRules, ToolOffer
from agent.conversation.envelope import Envelope
from agent.conversation.live import Live, TurnPlace
from agent.conversation.memories import ThreadMemories, ThreadMemory
from agent.conversation.ports import Hooks, Journal, Skills, Surroundings
from agent.conversation.room import RoomKeeper
from agent.conversation.settle import Settlement
from agent.llm.base import LLMProvider
from agent.llm.messages import AssistantTurn, ChatMessage, UserText
from agent.llm.sight import sees_pictures
from agent.loop.agentic_loop import run_agentic_loop
from agent.loop.context import ReasoningContext
from agent.media.block import ReadFile
from agent.media.reader import AttachmentReader, Desk
from agent.model.approval import ApprovalState
from agent.model.session import BusyMode
from agent.model.tool_call import ToolCall
from agent.safety.layer import SafetyLayer
from agent.store import conversations
from agent.store.base import Store, Transaction
from agent.store.conversations import Prefix
from agent.tools.base import ToolContext
from agent.tools.execute import ToolExecutor
from agent.tools.registry import Audience, LocalToolsFor, ToolRegistry
from agent.workspace.identity import Identity
from channels.message import EarlierMessage, IncomingMessage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What the operator chose for chats. `live_channels` show an answer while it is written."""

    agent_name: str
    zone: ZoneInfo
    max_iterations: int
    auto_approve: bool
    approval_timeout: timedelta
    live_channels: frozenset[str]
    local_tools_for: LocalToolsFor
    busy_mode: BusyMode


class ThreadOps:
    """Serves turns. Everything durable is in the settlement it gives back, or goes through the journal."""

    def __init__(
        self,
        settings: ChatSettings,
        *,
        store: Store,
        clock: Clock,
        llm: LLMProvider,
        registry: ToolRegistry,
        executor: ToolExecutor,
        safety: SafetyLayer,
        identity: Identity,
        memories: ThreadMemories,
        room: RoomKeeper,
        surroundings: Surroundings,
        live: Live,
        skills: Skills,
        hooks: Hooks,
        attachments: AttachmentReader,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._llm = llm
        self._registry = registry
        self._executor = executor
        self._safety = safety
        self._identity = identity
        self._memories = memories
        self._room = room
        self._surroundings = surroundings
        self._live = live
        self._skills = skills
        self._hooks = hooks
        self._attachments = attachments

    async def process_user_input(self, envelope: Envelope, journal: Journal) -> Settlement:
        """Serve a turn, from its start or from where an earlier run left it."""
        if not envelope.journal.messages:
            admitted = await hooked.let_in(self._hooks, envelope)
            if isinstance(admitted, str):
                return settle.failed(envelope, ReasoningContext("", (), ()), admitted)
            envelope = admitted
        return await hooked.let_out(self._hooks, envelope, await self._serve(envelope, journal))

    async def _serve(self, envelope: Envelope, journal: Journal) -> Settlement:
        context = await self._context(envelope, make_room=True)
        if unreleased := _unreleased(envelope):
            return settle.not_released(envelope, context, unreleased)
        if envelope.turn.stop_requested:
            return settle.stopped(envelope, context, dropped=0)
        if not envelope.journal.messages and any(message.attachments for message in envelope.messages):
            await journal.record(context.added)  # a turn that goes on after a crash need not fetch them again
        await self._llm.warm_up()
        delegate = await self._delegate(envelope, journal)
        limit = self._settings.max_iterations + 1
        finish = await run_agentic_loop(delegate, context, max_iterations=limit)
        finish = await hooked.reword(self._hooks, envelope, finish)
        return settle.settle(envelope, finish, self._clock.now(), self._settings.approval_timeout)

    def words(self, messages: Sequence[IncomingMessage]) -> str:
        """Messages as the model is told them."""
        return prompt.user_text(messages, self._clock.now(), prompt.zone_of(messages[-1], self._settings.zone))

    def fit_to_keep(self, settlement: Settlement) -> Settlement:
        """The settlement without the secrets that the model itself wrote: the history would tell them again."""
        entries = tuple(map(self._without_secrets, settlement.ending.entries))
        return replace(settlement, ending=replace(settlement.ending, entries=entries))

    async def context_so_far(self, envelope: Envelope) -> ReasoningContext:
        """What a turn that was cut off has done, by its journal."""
        return await self._context(envelope)

    def _without_secrets(self, message: ChatMessage) -> ChatMessage:
        if not isinstance(message, AssistantTurn):
            return message  # what people write and tools give is screened before it gets here
        calls = tuple(map(self._call_without_secrets, message.calls))
        return AssistantTurn(self._safety.hide_secrets(message.text), calls)

    def _call_without_secrets(self, call: ToolCall) -> ToolCall:
        tool = self._registry.get(call.name)
        sensitive = tool.spec.sensitive if tool is not None else frozenset()
        malformed = None if call.malformed is None else self._safety.hide_secrets(call.malformed)
        arguments = self._safety.redact_arguments(sensitive, call.arguments)
        name = call.name if tool is not None else self._safety.hide_secrets(call.name)
        return replace(call, name=name, arguments=arguments, malformed=malformed)

    async def _context(self, envelope: Envelope, *, make_room: bool = False) -> ReasoningContext:
        if make_room and not envelope.journal.messages:
            memory = await self._room.make_room(envelope.thread, envelope.scope)
        else:
            memory = await self._memories.current(envelope.thread)
        added = envelope.journal.messages or (await self._user_message(envelope, memory, reads=make_room),)
        return ReasoningContext(
            system=await self._prefix(envelope, memory),
            tools=self._offer(envelope, memory).tools(added) if self._llm.supports_tools else (),
            history=memory.history,
            added=added,
        )

    def _offer(self, envelope: Envelope, memory: ThreadMemory) -> ToolOffer:
        audience = Audience.of(
            is_operator=envelope.is_operator,
            is_shared=envelope.chat_type.is_shared,
            local_tools_for=self._settings.local_tools_for,
        )
        return ToolOffer(self._registry, audience, self._skills, memory.told)

    async def _user_message(self, envelope: Envelope, memory: ThreadMemory, *, reads: bool) -> UserText:
        """The turn's first message. `reads`: its files are fetched; a turn that was cut off only names them."""
        zone = prompt.zone_of(envelope.message, self._settings.zone)
        notes = await self._identity.notes(envelope.scope, zone)
        is_first = not memory.history and envelope.chat_type.is_shared
        chosen = await self._skills.for_message("\n".join(message.text for message in envelope.messages))
        fresh = [each for each in chosen if each.skill not in memory.told.skills]
        news = prompt.News(
            skills=tuple(each.skill for each in fresh),
            skill_text="\n".join(each.text for each in fresh),
            notes=notes if notes and prompt.notes_digest(notes) != memory.told.notes_digest else "",
            earlier=await self._said_before(envelope) if is_first else (),
            files=await self._files(envelope, zone) if reads else (),
        )
        text = prompt.user_text(envelope.messages, envelope.turn.started_at, zone, news)
        return UserText(text, tuple(file.image for each in news.files for file in each if file.image is not None))

    async def _files(self, envelope: Envelope, zone: ZoneInfo) -> Sequence[Sequence[ReadFile]]:
        sees = sees_pictures(self._llm.name, envelope.model or self._llm.model)
        day = envelope.turn.started_at.astimezone(zone).date()
        return await self._attachments.read(envelope.messages, Desk(envelope.scope, day, sees, str(envelope.turn.id)))

    async def _said_before(self, envelope: Envelope) -> Sequence[EarlierMessage]:
        """What others said in the thread, without the secrets that nobody kept from them there."""
        earlier = await self._surroundings.earlier(envelope.messages[0], prompt.MOST_EARLIER)
        return [each.model_copy(update={"text": self._safety.hide_secrets(each.text)}) for each in earlier]

    async def _prefix(self, envelope: Envelope, memory: ThreadMemory) -> str:
        """The thread's prefix as it was first rendered; anew only when a person edited a file it shows."""
        snapshot = await self._identity.snapshot(envelope.scope)
        if memory.prefix is not None and memory.prefix.stamp == snapshot.stamp:
            return memory.prefix.body
        facts = prompt.PromptFacts(
            self._settings.agent_name, envelope.message.address.channel, envelope.chat_type, snapshot.text
        )
        rendered = Prefix(snapshot.stamp, prompt.system_prompt(facts))
        await self._store.write(partial(_keep_prefix, envelope, rendered))
        self._memories.note_prefix(envelope.thread.id, rendered)
        return rendered.body

    async def _delegate(self, envelope: Envelope, journal: Journal) -> ChatDelegate:
        message = envelope.message
        memory = await self._memories.current(envelope.thread)
        place = turn_place(envelope)
        tool_context = ToolContext(
            user=envelope.thread.user,
            is_operator=envelope.is_operator,
            is_shared=envelope.chat_type.is_shared,
            scope=envelope.scope,
            address=message.replies_go_to,
            thread=envelope.thread.id,
            turn=envelope.turn.id,
            call_id="",
            zone=prompt.zone_of(message, self._settings.zone),
            now=envelope.turn.started_at,
            model=envelope.model,
        )
        is_live = message.address.channel in self._settings.live_channels and not self._hooks.may_change_replies
        is_steered = BusyMode(envelope.thread.busy_mode or self._settings.busy_mode) is BusyMode.STEER
        rules = DispatchRules(
            max_iterations=self._settings.max_iterations,
            auto_approve=self._settings.auto_approve,
            streams=is_live,
            model=envelope.model,
            steers=is_steered and not self._hooks.may_change_messages,
        )
        return ChatDelegate(
            envelope,
            place,
            tool_context,
            llm=self._llm,
            executor=self._executor,
            safety=self._safety,
            journal=journal,
            live=self._live,
            offer=self._offer(envelope, memory),
            rules=rules,
            count=partial(self._memories.note_count, envelope.thread.id),
        )


def turn_place(envelope: Envelope) -> TurnPlace:
    """Where a turn's live events belong."""
    message = envelope.message
    reply_to = message.message_id if envelope.chat_type.is_shared else None
    return TurnPlace(envelope.thread.id, settle.answer_id(envelope), message.replies_go_to, reply_to)


def _unreleased(envelope: Envelope) -> ApprovalState | None:
    """How the turn's question ended, where it ended without a yes."""
    for decision in envelope.decisions.values():
        if decision.state in (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.CANCELLED):
            return decision.state
    return None


def _keep_prefix(envelope: Envelope, prefix: Prefix, tx: Transaction) -> None:
    conversations.keep_prefix(tx, envelope.thread.id, prefix)
