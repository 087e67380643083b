"""Commands that change a thread's history. They wait their turn on the thread, and commit behind its fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never
from uuid import UUID

import structlog

from agent.clock import Clock
from agent.conversation.compaction import SummaryFailed
from agent.conversation.context_monitor import Fullness, Summarize, suggest_compaction
from agent.conversation.room import RoomKeeper
from agent.llm.errors import BudgetExceeded, LLMError
from agent.llm.messages import AssistantTurn, ChatMessage
from agent.model.history import HistoryView
from agent.model.session import Thread
from agent.model.submission import Clear, Compact, Redo, Resume, Undo
from agent.store import checkpoints, turns
from agent.store.base import Transaction
from agent.store.checkpoints import Kind
from agent.tools.base import Effect
from agent.tools.registry import ToolRegistry
from agent.workspace.errors import WorkspaceError
from agent.workspace.scope import Scope

log = structlog.get_logger(__name__)

HistoryCommand = Undo | Redo | Resume | Clear | Compact
"""Submissions that change the history of the thread they are typed in."""

Commit = Callable[[Transaction], str]
"""Applies a command in the transaction that marks it handled, and gives the reply."""


class ThreadCommands:
    """Prepares history commands: what takes time is done here, what must be whole is left to the commit."""

    def __init__(self, clock: Clock, room: RoomKeeper, registry: ToolRegistry, threshold: float) -> None:
        self._clock = clock
        self._room = room
        self._registry = registry
        self._threshold = threshold

    async def prepare(self, command: HistoryCommand, thread: Thread, scope: Scope) -> Commit:
        """What remains to be done in one transaction. Raises Fenced."""
        match command:
            case Undo():
                return partial(self._undo, thread)
            case Redo():
                return partial(self._redo, thread)
            case Resume(checkpoint_id=checkpoint):
                return partial(self._resume, thread, checkpoint)
            case Clear():
                return partial(self._clear, thread)
            case Compact():
                return _say(await self._compact(thread, scope))
            case unreachable:
                assert_never(unreachable)

    # -- going back and forth ---------------------------------------------------------------------------------------
    def _undo(self, thread: Thread, tx: Transaction) -> str:
        present = turns.fenced_place(tx, thread.id, thread.epoch).view
        point = checkpoints.undo(tx, thread.id, present, self._clock.now())
        if point is None:
            return "There is nothing to undo."
        lasting = self._lasting_effects(tx, thread, point.view, present)
        self._go_to(tx, thread, point.view)
        left = len(checkpoints.listing(tx, thread.id))
        return f"Undone to before turn {point.turn_number + 1}; {left} more can be undone.{lasting}"

    def _redo(self, thread: Thread, tx: Transaction) -> str:
        present = turns.fenced_place(tx, thread.id, thread.epoch).view
        point = checkpoints.redo(tx, thread.id, present, self._clock.now())
        if point is None:
            return "There is nothing to redo."
        self._go_to(tx, thread, point.view)
        left = len(checkpoints.listing(tx, thread.id, Kind.REDO))
        return f"Redone: turn {point.turn_number + 1} is back; {left} more can be redone."

    def _resume(self, thread: Thread, checkpoint: UUID, tx: Transaction) -> str:
        present = turns.fenced_place(tx, thread.id, thread.epoch).view
        point = checkpoints.restore(tx, thread.id, checkpoint)
        if point is None:
            return "Error: there is no such checkpoint in this conversation. /resume lists those there are."
        lasting = self._lasting_effects(tx, thread, point.view, present)
        self._go_to(tx, thread, point.view)
        return f"Resumed {point.description}.{lasting}"

    def _clear(self, thread: Thread, tx: Transaction) -> str:
        turns.fenced_place(tx, thread.id, thread.epoch)
        checkpoints.clear(tx, thread.id)
        self._go_to(tx, thread, HistoryView())
        return "Cleared: this conversation begins anew. Notes and files are as they were."

    def _go_to(self, tx: Transaction, thread: Thread, view: HistoryView) -> None:
        turns.change_view(tx, thread, view, self._clock.now())
        turns.rest(tx, thread)

    def _lasting_effects(self, tx: Transaction, thread: Thread, past: HistoryView, present: HistoryView) -> str:
        """Tools of the turns gone back over whose effects stay."""
        kept = set(past.positions())
        gone = HistoryView(tuple((at, at + 1) for at in present.positions() if at not in kept))
        names = self._with_effects(turns.history(tx, thread.id, gone))
        return f" Not undone, since it lies outside the conversation: {', '.join(names)}." if names else ""

    def _with_effects(self, messages: Sequence[ChatMessage]) -> list[str]:
        called = [call.name for message in messages if isinstance(message, AssistantTurn) for call in message.calls]
        tools = ((name, self._registry.get(name)) for name in dict.fromkeys(called))
        return [name for name, tool in tools if tool is not None and tool.spec.effect is not Effect.READ]

    # -- shortening -----------------------------------------------------------------------------------------------
    async def _compact(self, thread: Thread, scope: Scope) -> str:
        before = await self._room.fullness(thread)
        strategy = suggest_compaction(before, self._threshold) or Summarize()
        try:
            done = await self._room.compact(thread, scope, strategy)
        except BudgetExceeded as error:
            return f"Error: {error.text} Nothing was changed."
        except (SummaryFailed, LLMError, WorkspaceError) as error:
            log.warning("compaction_failed", error=type(error).__name__)
            reason = str(error) if isinstance(error, SummaryFailed) else "the model or the workspace did not answer"
            return f"Error: the conversation was not shortened, since {reason}. Nothing was changed."
        if done is None:
            return (
                f"There is little to shorten: the conversation takes {before.tokens} tokens ({before.percent}% full)."
            )
        after = self._room.fullness_of(done.history)
        saved = " A summary stands in their place." if done.summary_written else ""
        return _report(done.turns_removed, before, after, saved)


def _report(removed: int, before: Fullness, after: Fullness, saved: str) -> str:
    turns_word = "turn" if removed == 1 else "turns"
    return (
        f"Shortened: {removed} {turns_word} left out, {before.tokens} → {after.tokens} tokens "
        f"(was {before.percent}% full).{saved}"
    )


def _say(text: str) -> Commit:
    return lambda tx: text
