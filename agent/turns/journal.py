"""The journal of a running turn: durable before an effect, durable after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

from agent.clock import Clock
from agent.conversation.envelope import Envelope
from agent.llm.messages import ChatMessage, UserText
from agent.store import conversations, inbox, turns
from agent.store.base import Store, Transaction
from agent.store.codec import dump_message
from agent.store.inbox import Lane
from agent.store.turns import StepKind
from agent.turns.claim import in_one_breath, stands_alone
from channels.message import IncomingMessage

Words = Callable[[Sequence[IncomingMessage]], str]


class StepJournal:
    """Writes what a turn adds, each message once, going on where earlier runs of it left off.

    `words` tells how messages that join the turn are put to the model.
    """

    def __init__(self, store: Store, clock: Clock, envelope: Envelope, words: Words) -> None:
        self._store = store
        self._clock = clock
        self._thread = envelope.thread.id
        self._epoch = envelope.thread.epoch
        self._session = envelope.thread.session
        self._place = envelope.consent_place
        self._turn = envelope.turn.id
        self._kept = len(envelope.journal.messages)
        self._length = envelope.journal.length
        self._words = words

    async def begin(self, messages: Sequence[ChatMessage], calls: Sequence[str]) -> None:
        """Before effects: all the turn has added so far, and which calls are about to run."""
        await self._write(messages, calls)

    async def record(self, messages: Sequence[ChatMessage]) -> None:
        """After effects: all the turn has added so far, their results included."""
        await self._write(messages, ())

    async def allows(self, tool: str) -> bool:
        """Whether the person's "always" for this tool stands here at this moment."""
        return tool in await self._store.read(lambda tx: conversations.consented(tx, self._session, self._place))

    async def take_more(self, messages: Sequence[ChatMessage]) -> str | None:
        """Take what the person has written meanwhile into this turn; None if there is nothing."""
        start, steps = self.unwritten(messages)
        text = await self._store.write(partial(self._take, start, steps))
        if text is not None:
            self._length, self._kept = start + len(steps) + 1, len(messages) + 1
        return text

    def _take(self, start: int, steps: Sequence[tuple[StepKind, str]], tx: Transaction) -> str | None:
        turns.fenced_place(tx, self._thread, self._epoch)
        breath = in_one_breath(inbox.waiting(tx, self._thread, Lane.TURN))
        # What came with files has a turn of its own: they are fetched at its start, and no transaction waits for that.
        waiting = list(takewhile(lambda each: not each.message.attachments, breath))
        if not waiting or stands_alone(waiting[0].message):
            return None
        inbox.take(tx, self._thread, self._turn, waiting[0].seq, waiting[-1].seq)
        text = self._words([each.message for each in waiting])
        told = (StepKind.MESSAGE, dump_message(UserText(text)))
        turns.add_steps(tx, self._turn, start, [*steps, told], self._clock.now())
        return text

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
