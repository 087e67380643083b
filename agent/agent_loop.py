"""The agent: takes one submission, gives back what to store and to say. It knows no platform."""

from __future__ import annotations

from collections.abc import Sequence

from agent.clock import Clock
from agent.commands import NOT_BUILT
from agent.commands.base import Command, CommandContext, CommandReply, Services
from agent.commands.router import find, route, unknown
from agent.conversation import replies
from agent.conversation.envelope import Envelope
from agent.conversation.ports import Journal
from agent.conversation.settle import Settlement
from agent.conversation.thread_ops import ThreadOps
from agent.loop.context import ReasoningContext
from agent.model.ids import OPERATOR
from agent.model.session import Thread
from agent.model.submission import parse_submission
from channels.message import IncomingMessage


class Agent:
    """Serves turns and commands."""

    def __init__(self, thread_ops: ThreadOps, commands: Sequence[Command], services: Services, clock: Clock) -> None:
        self._thread_ops = thread_ops
        self._commands = commands
        self._services = services
        self._clock = clock

    async def handle(self, envelope: Envelope, journal: Journal) -> Settlement:
        """Serve a turn of a conversation."""
        return await self._thread_ops.process_user_input(envelope, journal)

    async def context_so_far(self, envelope: Envelope) -> ReasoningContext:
        """What a turn that was cut off has done."""
        return await self._thread_ops.context_so_far(envelope)

    async def command(self, thread: Thread, message: IncomingMessage) -> CommandReply:
        """Serve a command, beside whatever turn runs."""
        routed = route(parse_submission(message))
        command = find(self._commands, routed.name)
        if command is None:
            text = replies.NOT_BUILT.format(command=routed.name) if routed.name in NOT_BUILT else None
            return CommandReply(text or unknown(self._commands, routed.name))
        is_operator = thread.user == OPERATOR
        context = CommandContext(self._services, thread, message, is_operator, self._clock.now())
        return await command.run(context, routed.args)
