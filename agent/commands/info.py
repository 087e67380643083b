"""/help, /version, /ping, /debug, /model, /status, /quit, and what /new and /stop say of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.conversation import replies
from agent.llm.errors import LLMError
from agent.store import approvals, inbox
from agent.store.base import Transaction
from agent.store.inbox import Lane
from channels.base import ChannelState


def help_command(commands: Sequence[Command]) -> Command:
    """The list of all commands, itself included."""

    async def run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
        if args:
            return CommandReply(replies.NOT_BUILT.format(command="help ID"))
        lines = ["**Commands**", ""]
        for command in sorted((*commands, entry), key=lambda each: each.name):
            if command.operator_only and not context.is_operator:
                continue
            words = " ".join(("/" + command.name, command.arguments)).strip()
            also = f" (also {', '.join('/' + alias for alias in command.aliases)})" if command.aliases else ""
            lines.append(f"- `{words}`: {command.help}{also}")
        return CommandReply("\n".join(lines))

    entry = Command("help", "what can be typed here", CacheImpact.NONE, run, aliases=("?",))
    return entry


async def _version(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply(f"optimclaw {context.services.version}")


async def _ping(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply("pong")


async def _debug(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply("Details are shown by the terminal and the page; the log has the rest (`LOG_LEVEL=debug`).")


async def _model(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    llm = context.services.llm
    if args:
        return CommandReply(
            f"The model is {llm.model}. Choosing another one here is not available yet: set `LLM_MODEL` and restart."
        )
    try:
        known = await llm.list_models()
    except LLMError:
        known = ()
    lines = [f"Model: **{llm.model}** ({llm.name})"]
    if not llm.supports_tools:
        lines.append("It is a small local model that can chat but not use tools. Set a model key for a real agent.")
    lines += [f"- {name}{' ←' if name == llm.model else ''}" for name in known[:40]]
    return CommandReply("\n".join(lines))


async def _status(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if args:
        return CommandReply(replies.NOT_BUILT.format(command="status ID"))
    services, thread = context.services, context.thread

    def look(tx: Transaction) -> tuple[str | None, int]:
        pending = approvals.open_of(tx, thread.id)
        return pending.tool if pending else None, len(inbox.waiting(tx, thread.id, Lane.TURN))

    asked, waiting = await services.store.read(look)
    lines = [
        f"**optimclaw {services.version}**, up since {services.started_at:%Y-%m-%d %H:%M} UTC",
        f"- conversation: {thread.state.replace('_', ' ')}, {thread.turn_count} turns",
        f"- model: {services.llm.model} ({services.llm.name})",
    ]
    if asked:
        lines.append(f"- waiting for your answer about **{asked}**")
    if waiting:
        lines.append(f"- {waiting} message{'s' if waiting > 1 else ''} waiting")
    lines.append("- jobs: 0 in progress")
    if context.is_operator and not context.message.metadata.chat_type.is_shared:
        spending = await services.spending.spending()
        lines.append(
            f"- spent today (UTC): ${spending.dollars_today:.2f}; model calls this hour: {len(spending.calls)}"
        )
        for name, health in sorted(services.health().items()):
            reason = f" ({health.reason})" if health.reason and health.state is not ChannelState.CONNECTED else ""
            lines.append(f"- {name}: {health.state}{reason}")
    return CommandReply("\n".join(lines))


async def _quit(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not context.is_operator:
        return CommandReply(replies.QUIT_REFUSED)
    return CommandReply(replies.QUITTING, quits=True)


async def _at_the_door(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    """`/new` and `/stop` act as soon as they arrive; with words behind them they are something else."""
    return CommandReply("That command takes no words; type it alone.")


INFO_COMMANDS = (
    Command("version", "name and version", CacheImpact.NONE, _version),
    Command("ping", "is it there?", CacheImpact.NONE, _ping),
    Command("debug", "where details are shown", CacheImpact.NONE, _debug),
    Command("model", "which model answers", CacheImpact.NONE, _model),
    Command("status", "how things stand", CacheImpact.NONE, _status, aliases=("progress",)),
    Command("new", "begin a new conversation here", CacheImpact.IMMEDIATE, _at_the_door),
    Command("stop", "stop what runs or waits here", CacheImpact.NONE, _at_the_door, aliases=("interrupt",)),
    Command("quit", "stop the bot", CacheImpact.NONE, _quit, aliases=("exit", "shutdown"), operator_only=True),
)
