"""/usage and /why: what was spent, and what the last turn did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult
from agent.model.approval import ApprovalState
from agent.store import approvals, spend, turns
from agent.store.base import Transaction
from agent.store.spend import Spent
from agent.store.turns import TurnRecord

_DAYS = 1
_MOST_DAYS = 365


async def _usage(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not context.is_operator or context.message.metadata.chat_type.is_shared:
        return CommandReply("What was spent is told to the operator, in private.")
    if len(args) > 1 or (args and not args[0].isdigit()):
        return CommandReply("Type it as `/usage` or `/usage DAYS`.")
    days = max(1, min(int(args[0][:4]), _MOST_DAYS)) if args else _DAYS
    since = context.now - timedelta(days=days)
    spent = await context.services.store.read(lambda tx: spend.by_model(tx, since))
    span = f"{days * 24} hours" if days == 1 else f"{days} days"
    if not spent:
        return CommandReply(f"No model was called in the last {span}.")
    total = sum((each.dollars for each in spent), Decimal(0))
    return CommandReply("\n".join([f"**Spent in the last {span}: ${total:.4f}**", "", *map(_line, spent)]))


def _line(spent: Spent) -> str:
    cached = f" ({spent.cached_tokens} from cache)" if spent.cached_tokens else ""
    return (
        f"- {spent.model}: {spent.calls} call{'s' if spent.calls != 1 else ''}, "
        f"{spent.input_tokens} tokens in{cached}, "
        f"{spent.output_tokens} out, ${spent.dollars:.4f}"
    )


@dataclass(frozen=True, slots=True)
class _Last:
    record: TurnRecord
    messages: Sequence[ChatMessage]
    asked: Sequence[tuple[str, ApprovalState]]
    spent: Sequence[Spent]


async def _why(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    last = await context.services.store.read(lambda tx: _last_turn(tx, context))
    if last is None:
        return CommandReply("There was no turn here yet.")
    record = last.record
    took = f", {_seconds(record.finished_at - record.started_at)}" if record.finished_at else ""
    lines = [f"**Turn {record.number + 1}: {record.state}**{took}", ""]
    lines += [f"{number}. {step}" for number, step in enumerate(_steps(last.messages), start=1)]
    if record.error:
        lines.append(f"- ended with: {record.error}")
    lines += [f"- asked about {tool}: {state}" for tool, state in last.asked]
    lines += [_line(each) for each in last.spent] or ["- no model was called"]
    return CommandReply("\n".join(lines))


def _last_turn(tx: Transaction, context: CommandContext) -> _Last | None:
    records = turns.records(tx, context.thread.id, 1)
    if not records:
        return None
    turn = records[-1].id
    return _Last(
        records[-1],
        turns.messages_of(tx, context.thread.id, turn) or turns.journal(tx, turn).messages,
        approvals.asked(tx, turn),
        spend.of_account(tx, str(turn)),
    )


def _steps(messages: Sequence[ChatMessage]) -> list[str]:
    """What the turn did, without contents: those are in the conversation, or in the archive."""
    failed = {message.call_id for message in messages if isinstance(message, ToolResult) and message.is_error}
    steps: list[str] = []
    for message in messages:
        if isinstance(message, AssistantTurn):
            steps += [f"{call.name}: {'failed' if call.id in failed else 'ok'}" for call in message.calls]
            if message.text and not message.calls:
                steps.append(f"answered with {len(message.text)} characters")
    return steps


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.1f} s"


RECORD_COMMANDS = (
    Command("usage", "what was spent", CacheImpact.NONE, _usage, arguments="[DAYS]", operator_only=True),
    Command("why", "what the last turn did, and what it cost", CacheImpact.NONE, _why),
)
