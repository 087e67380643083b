"""The agent: takes one submission, gives back what to store and to say. It knows no platform."""

from __future__ import annotations

from collections.abc import Sequence

from agent.clock import Clock
from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply, Services
from agent.commands.router import find, route, unknown
from agent.conversation.envelope import Envelope
from agent.conversation.ports import Journal
from agent.conversation.settle import Settlement
from agent.conversation.thread_commands import Commit, HistoryCommand, ThreadCommands
from agent.conversation.thread_ops import ThreadOps
from agent.jobs.turns import JobTurns
from agent.loop.context import ReasoningContext
from agent.model.ids import OPERATOR
from agent.model.job import JOB_PLACE
from agent.model.session import Thread
from agent.model.submission import parse_submission
from agent.store.base import Transaction
from agent.workspace.scope import scope_of
from channels.message import IncomingMessage


class Agent:
    """Serves turns and commands."""

    def __init__(
        self,
        thread_ops: ThreadOps,
        job_turns: JobTurns,
        thread_commands: ThreadCommands,
        commands: Sequence[Command],
        services: Services,
        clock: Clock,
    ) -> None:
        self._thread_ops = thread_ops
        self._job_turns = job_turns
        self._thread_commands = thread_commands
        self._commands = commands
        self._services = services
        self._clock = clock

    async def handle(self, envelope: Envelope, journal: Journal) -> Settlement:
        """Serve a turn of a conversation or of a job."""
        if is_job(envelope.thread):
            return await self._job_turns.serve(envelope, journal)
        return await self._thread_ops.process_user_input(envelope, journal)

    def fit_to_keep(self, settlement: Settlement) -> Settlement:
        """What may be stored of what a turn leaves behind."""
        return self._thread_ops.fit_to_keep(settlement)

    def words(self, messages: Sequence[IncomingMessage]) -> str:
        """Messages as the model is told them."""
        return self._thread_ops.words(messages)

    async def context_so_far(self, envelope: Envelope) -> ReasoningContext:
        """What a turn that was cut off has done."""
        if is_job(envelope.thread):
            return self._job_turns.context_so_far(envelope)
        return await self._thread_ops.context_so_far(envelope)

    def at_commit(self, tx: Transaction, envelope: Envelope, settlement: Settlement) -> Settlement:
        """What else a turn's end changes, in the transaction that commits it, and what is said of it after all."""
        if is_job(envelope.thread):
            return self._job_turns.at_commit(tx, envelope, settlement, self._clock.now())
        return settlement

    async def change_history(self, command: HistoryCommand, thread: Thread, message: IncomingMessage) -> Commit:
        """Prepare a command that changes the thread's history; the runner commits it."""
        chat_type, is_operator = message.metadata.chat_type, thread.user == OPERATOR
        scope = scope_of(message.address, message.sender.user_id, chat_type, is_operator=is_operator)
        return await self._thread_commands.prepare(command, thread, scope)

    async def command(self, thread: Thread, message: IncomingMessage) -> CommandReply:
        """Serve a command, beside whatever turn runs."""
        routed = route(parse_submission(message))
        command = find(self._commands, routed.name)
        if command is None:
            return CommandReply(unknown(self._commands, routed.name))
        is_operator = thread.user == OPERATOR
        apply_now = command.cache_impact is CacheImpact.IMMEDIATE or (
            command.cache_impact is CacheImpact.DEFERRED and routed.apply_now
        )
        context = CommandContext(self._services, thread, message, is_operator, self._clock.now(), apply_now)
        return await command.run(context, routed.args)


def is_job(thread: Thread) -> bool:
    """Whether a thread is a job's, and no conversation."""
    return thread.key.channel == JOB_PLACE
