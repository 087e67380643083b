"""The journal of a running turn: durable before an effect, durable after it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent.clock import Clock
from agent.llm.messages import ChatMessage
from agent.model.ids import ThreadId, TurnId
from agent.store import turns
from agent.store.base import Store, Transaction
from agent.store.codec import dump_message
from agent.store.turns import StepKind


class StepJournal:
    """Writes what a turn adds, each message once. `kept` and `length` tell what earlier runs have written."""

    def __init__(
        self, store: Store, clock: Clock, thread: ThreadId, epoch: int, turn: TurnId, *, kept: int, length: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._thread = thread
        self._epoch = epoch
        self._turn = turn
        self._kept = kept
        self._length = length

    async def begin(self, messages: Sequence[ChatMessage], calls: Sequence[str]) -> None:
        """Before effects: all the turn has added so far, and which calls are about to run."""
        await self._write(messages, calls)

    async def record(self, messages: Sequence[ChatMessage]) -> None:
        """After effects: all the turn has added so far, their results included."""
        await self._write(messages, ())

    def unwritten(self, messages: Sequence[ChatMessage]) -> tuple[int, list[tuple[StepKind, str]]]:
        """The number of the next step, and the steps still to be written for these messages."""
        return self._length, [(StepKind.MESSAGE, dump_message(message)) for message in messages[self._kept :]]

    async def _write(self, messages: Sequence[ChatMessage], calls: Sequence[str]) -> None:
        start, steps = self.unwritten(messages)
        steps += [(StepKind.BEGUN, call) for call in calls]
        if steps:
            await self._store.write(partial(self._append, start, steps))
            self._length, self._kept = start + len(steps), len(messages)

    def _append(self, start: int, steps: Sequence[tuple[StepKind, str]], tx: Transaction) -> None:
        turns.fenced_place(tx, self._thread, self._epoch)
        turns.add_steps(tx, self._turn, start, steps, self._clock.now())
