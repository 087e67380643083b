"""/model, /once: which model answers."""

from __future__ import annotations

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.llm.errors import LLMError
from agent.store import conversations, facts
from agent.store.base import Transaction

_MOST_LISTED = 40


async def _model(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    known = await _known(context)
    if not args:
        return CommandReply(_listing(context, known))
    if not context.is_operator:
        return CommandReply("Only the operator chooses the model.")
    wanted = args[0]
    if len(args) > 1:
        return CommandReply("Name one model: `/model NAME`, with `--now` for this conversation too.")
    if known and wanted not in known:
        return CommandReply(f"Error: there is no model {wanted[:80]} here. /model lists those there are.")
    await context.services.store.write(lambda tx: _choose(tx, context, wanted))
    if context.apply_now:
        return CommandReply(f"From now on {wanted} answers here and in new conversations. Others keep theirs.")
    return CommandReply(
        f"{wanted} answers in conversations begun from now on (/new). This one keeps {_present(context)}, so that the "
        "provider's cache of it holds; `/model {name} --now` changes it at once.".replace("{name}", wanted)
    )


def _choose(tx: Transaction, context: CommandContext, wanted: str) -> None:
    facts.put(tx, conversations.DEFAULT_MODEL, wanted)
    # A conversation without a choice of its own follows the settings; it keeps to them, whatever the new default is.
    conversations.set_model(tx, context.thread.id, wanted if context.apply_now else context.thread.model)


async def _known(context: CommandContext) -> tuple[str, ...]:
    try:
        await context.services.llm.warm_up()
        return await context.services.llm.list_models()
    except LLMError:
        return ()


def _listing(context: CommandContext, known: tuple[str, ...]) -> str:
    llm, present = context.services.llm, _present(context)
    lines = [f"Model: **{present}** ({llm.name})"]
    if not llm.supports_tools:
        lines.append("It is a small local model that can chat but not use tools. Set a model key for a real agent.")
    lines += [f"- {name}{' ←' if name == present else ''}" for name in known[:_MOST_LISTED]]
    if len(known) > _MOST_LISTED:
        lines.append(f"- and {len(known) - _MOST_LISTED} more")
    return "\n".join(lines)


def _present(context: CommandContext) -> str:
    return context.thread.model or context.services.llm.model


async def _once(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    """A well-formed `/once` of the operator is a message, and never gets here."""
    if not context.is_operator:
        return CommandReply("Only the operator chooses the model.")
    return CommandReply("Type it as `/once MODEL text`.")


MODEL_COMMANDS = (
    Command("model", "which model answers, or choose one", CacheImpact.DEFERRED, _model, arguments="[NAME [--now]]"),
    Command(
        "once", "one message to another model", CacheImpact.NONE, _once, arguments="MODEL text", operator_only=True
    ),
)
