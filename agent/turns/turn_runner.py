"""Runs turns, each exactly once at a time on its thread: claim, handle, commit behind the fence."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import structlog

from agent.agent_loop import Agent, is_job
from agent.clock import Clock
from agent.commands.base import CommandReply
from agent.conversation import replies, settle
from agent.conversation.envelope import Envelope
from agent.conversation.live import Live, TurnBegan, TurnEnded
from agent.conversation.memories import ThreadMemories
from agent.conversation.ports import Deliveries
from agent.conversation.settle import Settlement
from agent.conversation.thread_commands import Commit
from agent.conversation.thread_ops import turn_place
from agent.errors import Fenced
from agent.llm.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ContextTooLong,
    LLMError,
    ModelUnavailable,
    RequestRefused,
)
from agent.loop.context import ReasoningContext
from agent.model import ids
from agent.model.history import HistoryView
from agent.model.ids import ThreadId
from agent.model.session import Thread
from agent.store import approvals, credentials, inbox, outbox, turns
from agent.store.base import Store, Transaction
from agent.store.errors import StoreError
from agent.store.inbox import Lane, Waiting
from agent.store.turns import Ending
from agent.turns.claim import ThreadTask, claim, next_command
from agent.turns.journal import StepJournal
from channels.message import IncomingMessage, OutgoingMessage, ReplyKind

log = structlog.get_logger(__name__)

RETRY_AFTER = timedelta(seconds=2)


class TurnRunner:
    """Serves the lanes of threads until nothing waits there."""

    def __init__(
        self,
        agent: Agent,
        *,
        store: Store,
        clock: Clock,
        memories: ThreadMemories,
        deliveries: Deliveries,
        live: Live,
        quit_bot: Callable[[], None],
        asked: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._store = store
        self._clock = clock
        self._memories = memories
        self._deliveries = deliveries
        self._live = live
        self._quit_bot = quit_bot
        self._asked = asked
        self.counts: Counter[str] = Counter()
        self._running: dict[ThreadId, asyncio.Task[Settlement | Fenced | StoreError]] = {}
        self._unheard: set[ThreadId] = set()  # stops that found nothing running: a claim may have been under way

    async def serve(self, thread: ThreadId, lane: Lane) -> None:
        """Serve everything that waits on a lane. While the database is away it tries again and loses nothing."""
        while True:
            try:
                match lane:
                    case Lane.TURN:
                        await self._serve_turns(thread)
                    case Lane.CONTROL:
                        await self._serve_commands(thread)
                return
            except Fenced:
                log.warning("turn_overtaken", thread_id=str(thread))
                self._memories.forget(thread)
                return
            except StoreError as error:
                log.error("store_unavailable", thread_id=str(thread), reason=str(error))
                await self._clock.sleep(RETRY_AFTER)
            except Exception:
                # A defect of ours: this lane rests until something new comes, the others go on.
                log.exception("lane_broke", thread_id=str(thread), lane=lane.value)
                self._memories.forget(thread)
                return

    def stop(self, thread: ThreadId) -> None:
        """Cut off the running turn of a thread. Its row says the same, for a turn that is about to start."""
        if task := self._running.get(thread):
            task.cancel()
        else:
            self._unheard.add(thread)

    async def backlog(self) -> tuple[tuple[ThreadId, Lane], ...]:
        """Every lane an earlier process left work on."""

        def look(tx: Transaction) -> tuple[tuple[ThreadId, Lane], ...]:
            threads = {*turns.unfinished(tx), *approvals.answered(tx)}
            lanes = {(thread, Lane.TURN) for thread in threads} | set(inbox.lanes_with_work(tx))
            return tuple(sorted(lanes))

        return await self._store.read(look)

    # -- turns ---------------------------------------------------------------------------------------------------
    async def _serve_turns(self, thread: ThreadId) -> None:
        while (taken := await self._store.write(partial(claim, thread, self._clock.now()))) is not None:
            match taken:
                case Envelope(message=message, turn=turn):
                    with structlog.contextvars.bound_contextvars(
                        channel=message.address.channel, thread_id=str(thread), turn_id=str(turn.id)
                    ):
                        await self._serve_turn(taken)
                case ThreadTask(waiting=waiting):
                    with structlog.contextvars.bound_contextvars(
                        channel=waiting.message.address.channel, thread_id=str(thread)
                    ):
                        await self._serve_task(taken)

    async def _serve_turn(self, envelope: Envelope) -> None:
        journal = StepJournal(self._store, self._clock, envelope, self._agent.words)
        place = turn_place(envelope)
        live = Live() if is_job(envelope.thread) else self._live  # nobody sits and waits for a job
        live.publish(TurnBegan(place))
        try:
            settlement = self._agent.fit_to_keep(await self._handle(envelope, journal))
            await live.rest(place)
            view, ending = await self._settle(envelope, settlement, journal)
        finally:
            live.publish(TurnEnded(place))
        self._memories.extend(envelope.thread.id, view, ending.entries)
        self.counts[ending.turn_state.value] += 1
        log.info("turn_settled", turn=envelope.turn.number, outcome=ending.turn_state.value)

    async def _settle(
        self, envelope: Envelope, settlement: Settlement, journal: StepJournal
    ) -> tuple[HistoryView, Ending]:
        """Commit the turn. One that cannot be stored would be run again with each new message: it fails instead."""
        try:
            return await self._store.write(partial(self._commit, envelope, settlement, journal))
        except (Fenced, StoreError):
            raise
        except Exception:
            log.exception("turn_not_storable")
            nothing = ReasoningContext("", (), ())
            failure = settle.failed(envelope, nothing, replies.SOMETHING_BROKE)
            return await self._store.write(partial(self._commit, envelope, failure, journal))

    async def _handle(self, envelope: Envelope, journal: StepJournal) -> Settlement:
        """The turn as a task of its own, so that a stop can cut it off and still be settled."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._guarded(envelope, journal))
            self._running[envelope.thread.id] = task
            try:
                await asyncio.wait([task])
            finally:
                del self._running[envelope.thread.id]
        if task.cancelled():
            return settle.stopped(envelope, await self._cut_off_context(envelope), dropped=0)
        match task.result():
            case Settlement() as settlement:
                return settlement
            case error:
                raise error

    async def _guarded(self, envelope: Envelope, journal: StepJournal) -> Settlement | Fenced | StoreError:
        """A fault that ends the attempt and not the turn comes back as a value: the group must not wrap it."""
        try:
            return await self._agent.handle(await self._with_unheard_stop(envelope), journal)
        except (Fenced, StoreError) as error:
            return error
        except LLMError as error:
            log.warning("model_failed", error=type(error).__name__, detail=error.detail)
            is_private = envelope.is_operator and not envelope.chat_type.is_shared
            reply = _model_reply(error, may_see_sums=is_private)
            return settle.failed(envelope, await self._cut_off_context(envelope), reply)
        except Exception:
            log.exception("turn_broke")
            return settle.failed(envelope, await self._cut_off_context(envelope), replies.SOMETHING_BROKE)

    async def _with_unheard_stop(self, envelope: Envelope) -> Envelope:
        """The envelope with a stop that came after the turn was claimed and before it could be cut off."""
        if envelope.thread.id not in self._unheard:
            return envelope
        self._unheard.discard(envelope.thread.id)
        turn = await self._store.read(lambda tx: turns.open_turn(tx, envelope.thread.id))
        return envelope if turn is None or turn.id != envelope.turn.id else replace(envelope, turn=turn)

    async def _cut_off_context(self, envelope: Envelope) -> ReasoningContext:
        """What a turn that ended early has done: what its journal holds by now."""
        written = await self._store.write(lambda tx: turns.journal(tx, envelope.turn.id))
        return await self._agent.context_so_far(replace(envelope, journal=written))

    def _commit(
        self, envelope: Envelope, settlement: Settlement, journal: StepJournal, tx: Transaction
    ) -> tuple[HistoryView, Ending]:
        now = self._clock.now()
        if settlement.question is not None and turns.is_to_stop(tx, envelope.turn.id):
            settlement = settle.stopped(envelope, ReasoningContext("", (), (), settlement.journal), dropped=0)
        settlement = self._agent.at_commit(tx, envelope, settlement)
        view = turns.settle(tx, envelope.thread, envelope.turn, settlement.ending, now)
        if settlement.question is not None:
            turns.add_steps(tx, envelope.turn.id, *journal.unwritten(settlement.journal), now)
            approvals.add(tx, settlement.question, envelope.message.replies_go_to)
            tx.after_commit(self._asked)
        else:
            inbox.finish_turn(tx, envelope.turn.id, now)
        if settlement.awaits_secret is not None:
            credentials.await_secret(tx, envelope.thread.id, settlement.awaits_secret, envelope.thread.user, now)
        draft = outbox.take_draft(tx, settle.answer_id(envelope))
        for reply in settlement.replies:
            edits, draft = (draft, None) if reply.edits is None else (reply.edits, draft)
            parcel = outbox.add(tx, reply.model_copy(update={"edits": edits}), now)
            tx.after_commit(partial(self._deliveries.offer, parcel))
        return view, settlement.ending

    # -- commands that change history --------------------------------------------------------------------------------
    async def _serve_task(self, task: ThreadTask) -> None:
        commit = await self._prepared(task)
        await self._store.write(partial(self._commit_task, task, commit))

    async def _prepared(self, task: ThreadTask) -> Commit:
        try:
            return await self._agent.change_history(task.command, task.thread, task.waiting.message)
        except (Fenced, StoreError):
            raise
        except Exception:
            log.exception("command_broke")
            return lambda tx: replies.SOMETHING_BROKE

    def _commit_task(self, task: ThreadTask, commit: Commit, tx: Transaction) -> None:
        turns.fenced_place(tx, task.thread.id, task.thread.epoch)
        if inbox.finish_one(tx, task.thread.id, task.waiting.seq, self._clock.now()):
            self._reply(tx, task.thread, task.waiting, CommandReply(commit(tx)))

    # -- commands ------------------------------------------------------------------------------------------------
    async def _serve_commands(self, thread: ThreadId) -> None:
        while (found := await self._store.write(partial(next_command, thread))) is not None:
            owner, waiting = found
            with structlog.contextvars.bound_contextvars(
                channel=waiting.message.address.channel, thread_id=str(thread)
            ):
                reply = await self._command(owner, waiting.message)
                await self._store.write(partial(self._commit_command, owner, waiting, reply))

    async def _command(self, thread: Thread, message: IncomingMessage) -> CommandReply:
        try:
            return await self._agent.command(thread, message)
        except StoreError:
            raise
        except LLMError as error:
            log.warning("model_failed", error=type(error).__name__, detail=error.detail)
            is_private = thread.user == ids.OPERATOR and not message.metadata.chat_type.is_shared
            return CommandReply(_model_reply(error, may_see_sums=is_private))
        except Exception:
            log.exception("command_broke")
            return CommandReply(replies.SOMETHING_BROKE)

    def _commit_command(self, thread: Thread, waiting: Waiting, reply: CommandReply, tx: Transaction) -> None:
        if inbox.finish_one(tx, thread.id, waiting.seq, self._clock.now()):  # else another process has answered it
            self._reply(tx, thread, waiting, reply)

    def _reply(self, tx: Transaction, thread: Thread, waiting: Waiting, reply: CommandReply) -> None:
        message = OutgoingMessage(
            id=ids.reply_id(thread.id, f"command {waiting.seq}"),
            address=waiting.message.replies_go_to,
            kind=ReplyKind.NOTICE,
            text=reply.text,
        )
        tx.after_commit(partial(self._deliveries.offer, outbox.add(tx, message, self._clock.now())))
        if reply.quits:
            tx.after_commit(self._quit_bot)


def _model_reply(error: LLMError, *, may_see_sums: bool) -> str:
    """What a person is told of a model's fault: one neutral sentence; the log has the rest.

    `may_see_sums`: what the operator spends is for the operator in private.
    """
    match error:
        case BudgetExceeded(text=text):
            return text if may_see_sums else replies.BUDGET_USED_UP
        case ContextTooLong():
            return replies.CONTEXT_TOO_LONG
        case AuthenticationFailed() | ModelUnavailable():
            return replies.MODEL_REFUSES_KEY
        case RequestRefused():
            return replies.MODEL_REFUSES_REQUEST
        case _:
            return replies.MODEL_AWAY
