"""/routines: what runs by itself for the one who asks."""

from __future__ import annotations

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.conversation.prompt import zone_of
from agent.errors import RoutineRefused
from agent.routines import wording
from agent.routines.desk import Asker, RoutineDesk

USAGE = "`/routines` lists them; `/routines run NAME`, `enable NAME`, `disable NAME` and `delete NAME` act on one."
OFF = "Routines are switched off: the operator has set ROUTINES_ENABLED to false."
_NONE = "You have no routines here. Ask me for one in words, such as “remind me tomorrow at nine to call”."
_MOST_SHOWN = 50


async def _run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    desk = context.services.routines
    if desk is None:
        return CommandReply(OFF)
    message = context.message
    asker = Asker(
        context.thread.user,
        message.replies_go_to,
        message.metadata.chat_type.is_shared,
        zone_of(message, context.services.zone),
    )
    try:
        return CommandReply(await reply(desk, asker, args))
    except RoutineRefused as refused:
        return CommandReply(str(refused))


async def reply(desk: RoutineDesk, asker: Asker, args: tuple[str, ...]) -> str:
    """What to say to these words. Raises RoutineRefused."""
    match args:
        case ():
            return await _listing(desk, asker)
        case (word, *rest) if rest:
            return await _act(desk, asker, word.lower(), " ".join(rest))
        case _:
            return USAGE


async def _act(desk: RoutineDesk, asker: Asker, word: str, name: str) -> str:
    match word:
        case "run":
            return await desk.run_now(name, asker)
        case "enable" | "disable":
            return f"Done. {wording.line(await desk.switch(name, asker, on=word == 'enable'))}"
        case "delete":
            return await desk.remove(name, asker)
        case _:
            return USAGE


async def _listing(desk: RoutineDesk, asker: Asker) -> str:
    found = await desk.visible(asker)
    if not found:
        return _NONE
    lines = [f"- {wording.line(routine)}" for routine in found[:_MOST_SHOWN]]
    if len(found) > _MOST_SHOWN:
        lines.append(f"- and {len(found) - _MOST_SHOWN} more")
    return "\n".join(["**Routines**", "", *lines])


ROUTINES = Command(
    "routines",
    "what runs by itself for you",
    CacheImpact.NONE,
    _run,
    arguments="[run|enable|disable|delete NAME]",
)
