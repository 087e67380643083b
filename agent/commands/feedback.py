"""/expected, /reasoning, approve: saying what was wrong, seeing what was thought, letting somebody in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.llm.messages import AssistantTurn
from agent.model.submission import PAIRING_CHANNELS
from agent.safety.pairing import Approved, LockedOut, UnknownCode
from agent.store import pairings, turns
from agent.store.base import Transaction
from agent.workspace.errors import WorkspaceError
from agent.workspace.scope import GroupScope, scope_of

_MOST_TURNS = 20


async def _expected(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    """Keeps the correction where the model reads it at the next turn: in the person's notes of the day."""
    message = context.message
    words = " ".join(args).strip()
    if not words:
        return CommandReply("Say what the answer should have been: `/expected It should have used UTC`.")
    scope = scope_of(
        message.address, message.sender.user_id, message.metadata.chat_type, is_operator=context.is_operator
    )
    note = f"Correction by the user, about the last answer: {words}"
    try:
        if isinstance(scope, GroupScope):
            await context.services.workspace.append_memory(scope, note)
        else:
            await context.services.workspace.append_daily(scope, note, context.services.zone)
    except WorkspaceError as error:
        return CommandReply(f"Error: it was not noted. {error}")
    return CommandReply("Noted. I will take it into account.")


async def _reasoning(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    match tuple(word.lower() for word in args):
        case ():
            wanted: int | None = None
            count = 1
        case ("all",):
            wanted, count = None, _MOST_TURNS
        case (number,) if number.isdigit() and 0 < len(number) < 7:
            wanted, count = int(number) - 1, _MOST_TURNS
        case _:
            return CommandReply("Type it as `/reasoning`, `/reasoning 3` or `/reasoning all`.")
    found = await context.services.store.read(partial(_thoughts, context, wanted, count))
    return CommandReply("\n\n".join(found) if found else "No reasoning was recorded there.")


def _thoughts(context: CommandContext, wanted: int | None, count: int, tx: Transaction) -> Sequence[str]:
    """What the model said between its steps. What it thinks inside its own tags is shown and kept nowhere."""
    found: list[str] = []
    for record in turns.records(tx, context.thread.id, count if wanted is None else 10_000):
        if wanted is not None and record.number != wanted:
            continue
        messages = turns.messages_of(tx, context.thread.id, record.id)
        said = [message.text for message in messages if isinstance(message, AssistantTurn) and message.calls]
        if words := "\n".join(text for text in said if text.strip()):
            found.append(f"**Turn {record.number + 1}**\n{words}")
    return found


async def _approve(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not context.is_operator or context.message.metadata.chat_type.is_shared:
        return CommandReply("Only the operator lets people in, and only in a private chat.")
    if len(args) != 2 or args[0].lower() not in PAIRING_CHANNELS:
        return CommandReply("Type it as `/approve CHANNEL CODE`.")
    channel = args[0].lower()
    match await context.services.store.write(lambda tx: pairings.approve(tx, channel, args[1], context.now)):
        case Approved(user_id=user):
            return CommandReply(f"{channel}: {user} may talk to me now.")
        case UnknownCode():
            return CommandReply(f"Error: {channel} has no open request with that code. Codes are good for 15 minutes.")
        case LockedOut(until=until):
            return CommandReply(f"Error: too many wrong codes; try again after {until:%H:%M:%S} UTC.")
        case unreachable:
            assert_never(unreachable)


FEEDBACK_COMMANDS = (
    Command("expected", "say what the last answer should have been", CacheImpact.NONE, _expected, arguments="TEXT"),
    Command("reasoning", "what was said between the steps", CacheImpact.NONE, _reasoning, arguments="[N | all]"),
    Command(
        "approve",
        "let somebody in by their pairing code",
        CacheImpact.NONE,
        _approve,
        arguments="CHANNEL CODE",
        operator_only=True,
    ),
)
