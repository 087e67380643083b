"""/tools: what the agent can use here, what was allowed for good, and how to take that back."""

from __future__ import annotations

from functools import partial

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.model.approval import ConsentPlace
from agent.store import conversations
from agent.store.base import Transaction
from agent.tools.registry import Audience

USAGE = "`/tools` lists them; `/tools revoke NAME` or `/tools revoke all` takes an “always” back."


async def _run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    match tuple(word.lower() for word in args):
        case ():
            return await _list(context)
        case ("revoke", name):
            return await _revoke(context, None if name == "all" else name)
        case _:
            return CommandReply(USAGE)


async def _list(context: CommandContext) -> CommandReply:
    services = context.services
    audience = Audience.of(
        is_operator=context.is_operator,
        is_shared=context.message.metadata.chat_type.is_shared,
        local_tools_for=services.local_tools_for,
    )
    offered = (*services.registry.offered_to(audience), *services.registry.rare(audience))
    lines = ["**Tools**", "", *(f"- {tool.name}" for tool in offered)]
    if not services.llm.supports_tools:
        lines = ["The present model cannot use tools."]
    granted = await services.store.read(partial(_consents, context))
    if granted:
        lines += ["", "**Allowed from now on** (without asking)", ""]
        lines += [f"- {tool}, {_where(place)}" for tool, place in granted]
        lines += ["", "Take one back with `/tools revoke NAME`."]
    return CommandReply("\n".join(lines))


async def _revoke(context: CommandContext, name: str | None) -> CommandReply:
    count = await context.services.store.write(lambda tx: conversations.revoke(tx, context.thread.session, name))
    if not count:
        return CommandReply(f"Nothing was allowed for good{'' if name is None else f' for {name}'}.")
    return CommandReply(f"Taken back: {name or 'all'}. I will ask again.")


def _consents(context: CommandContext, tx: Transaction) -> list[tuple[str, ConsentPlace]]:
    """A shared chat is shown what holds there; a private one everything."""
    granted = conversations.all_consents(tx, context.thread.session)
    metadata = context.message.metadata
    here = ConsentPlace.of(context.message.address, metadata.chat_type)
    return [(tool, place) for tool, place in granted if not metadata.chat_type.is_shared or place == here]


def _where(place: ConsentPlace) -> str:
    return f"in the shared chat {place.name}" if place.is_shared else "in your private chats"


TOOLS = Command(
    "tools", "what the agent can use, and what was allowed for good", CacheImpact.NONE, _run, arguments="[revoke NAME]"
)
