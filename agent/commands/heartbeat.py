"""/heartbeat: go through the checklist now."""

from __future__ import annotations

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.workspace.scope import scope_of


async def _run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    message = context.message
    if message.metadata.chat_type.is_shared:
        return CommandReply("The checklist is private: use /heartbeat in a private chat.")
    scope = scope_of(
        message.address, message.sender.user_id, message.metadata.chat_type, is_operator=context.is_operator
    )
    return CommandReply(await context.services.heartbeat.check_now(scope))


HEARTBEAT = Command("heartbeat", "go through your checklist now", CacheImpact.NONE, _run)
