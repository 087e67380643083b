"""/help, /version, /ping, /debug, /model, /status, /quit, and what /new and /stop say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.commands.jobs import count, help_stuck, show
from agent.conversation import replies
from agent.store import approvals, conversations, facts, inbox
from agent.store.base import Transaction
from agent.store.inbox import Lane

_RESTART_DELAY = timedelta(seconds=2)  # the reply goes out before it


def help_command(commands: Sequence[Command]) -> Command:
    """The list of all commands, itself included."""

    async def run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
        if args:
            return await help_stuck(context, " ".join(args))
        lines = ["**Commands**", ""]
        for command in sorted((*commands, entry), key=lambda each: each.name):
            if command.operator_only and not context.is_operator:
                continue
            words = " ".join(("/" + command.name, command.arguments)).strip()
            also = f" (also {', '.join('/' + alias for alias in command.aliases)})" if command.aliases else ""
            lines.append(f"- `{words}`: {command.help}{also}")
        return CommandReply("\n".join(lines))

    entry = Command(
        "help", "what can be typed here; with an ID: let a stuck job go on", CacheImpact.NONE, run, ("?",), "[ID]"
    )
    return entry


async def _version(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply(f"optimclaw {context.services.version}")


async def _ping(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply("pong")


async def _debug(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    return CommandReply("Details are shown by the terminal and the page; the log has the rest (`LOG_LEVEL=debug`).")


async def _status(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if args:
        return await show(context, " ".join(args))
    services, thread = context.services, context.thread

    def look(tx: Transaction) -> tuple[str | None, int, str | None]:
        pending = approvals.open_of(tx, thread.id)
        staged = facts.get(tx, conversations.DEFAULT_MODEL)
        return pending.tool if pending else None, len(inbox.waiting(tx, thread.id, Lane.TURN)), staged

    asked, waiting, staged = await services.store.read(look)
    fullness = await services.room.fullness(thread)
    plural = "s" if thread.turn_count != 1 else ""
    lines = [
        f"**optimclaw {services.version}**, up since {services.started_at:%Y-%m-%d %H:%M} UTC",
        f"- conversation: {thread.state.replace('_', ' ')}, {thread.turn_count} turn{plural}",
        f"- model: {thread.model or services.llm.model} ({services.llm.name})",
        f"- context: {fullness.tokens} of {fullness.limit} tokens ({fullness.percent}% full)",
    ]
    if asked:
        lines.append(f"- waiting for your answer about **{asked}**")
    if staged and staged != (thread.model or services.llm.model):
        lines.append(f"- staged for new conversations: model {staged}")
    if waiting:
        lines.append(f"- {waiting} message{'s' if waiting > 1 else ''} waiting")
    lines.append(f"- {await count(context)}")
    if context.is_operator and not context.message.metadata.chat_type.is_shared:
        spending = await services.spending.spending()
        lines.append(
            f"- spent today (UTC): ${spending.dollars_today:.2f}; model calls this hour: {len(spending.calls)}"
        )
        for name, health in sorted(services.health().items()):
            reason = f" ({health.reason})" if health.reason else ""
            lines.append(f"- {name}: {health.state}{reason}")
    return CommandReply("\n".join(lines))


async def _quit(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not context.is_operator:
        return CommandReply(replies.QUIT_REFUSED)
    return CommandReply(replies.QUITTING, quits=True)


async def _restart(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not context.is_operator:
        return CommandReply(replies.RESTART_REFUSED)
    if context.services.restart is None:
        return CommandReply(replies.RESTART_IMPOSSIBLE)
    context.services.restart(_RESTART_DELAY)
    return CommandReply(replies.RESTARTING)


INFO_COMMANDS = (
    Command("version", "name and version", CacheImpact.NONE, _version),
    Command("ping", "is it there?", CacheImpact.NONE, _ping),
    Command("debug", "where details are shown", CacheImpact.NONE, _debug),
    Command("status", "how things stand, or one job", CacheImpact.NONE, _status, ("progress",), "[ID]"),
    Command("quit", "stop the bot", CacheImpact.NONE, _quit, aliases=("exit", "shutdown"), operator_only=True),
    Command("restart", "stop the bot and start it again", CacheImpact.NONE, _restart, operator_only=True),
)
