"""What a process remembers of its threads between turns, so that history is never read whole again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from agent.conversation.told import NOTHING_TOLD, Told, told
from agent.llm.messages import ChatMessage
from agent.model.history import HistoryView
from agent.model.ids import ThreadId
from agent.model.session import Thread
from agent.store import conversations, turns
from agent.store.base import Store, Transaction
from agent.store.conversations import Prefix

CAPACITY = 2_000
"""Threads kept; the one used longest ago is forgotten first. Forgetting costs one read at its next turn."""


@dataclass(frozen=True, slots=True)
class Counted:
    """`tokens` that a request with the first `messages` of the history weighed, prefix and tools included."""

    messages: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ThreadMemory:
    """A thread's history as models see it, its prompt prefix, and what the history has told.

    `counted` is what the provider said the last request weighed.
    """

    view: HistoryView
    history: tuple[ChatMessage, ...]
    prefix: Prefix | None
    told: Told = NOTHING_TOLD
    counted: Counted | None = None


class ThreadMemories:
    """Recently used threads. The store decides: a length that differs from the row's is read anew from there."""

    def __init__(self, store: Store, capacity: int = CAPACITY) -> None:
        self._store = store
        self._capacity = capacity
        self._known: OrderedDict[ThreadId, ThreadMemory] = OrderedDict()

    async def peek(self, thread: Thread) -> ThreadMemory:
        """The memory of a thread for somebody who looks on beside its turns: nothing of it is kept."""
        known = self._known.get(thread.id)
        if known is not None and known.view == thread.view:
            return known
        return await self._store.read(lambda tx: _read(tx, thread))

    async def load(self, thread: Thread) -> ThreadMemory:
        """The memory of a thread, with the history its row tells. For the runner of its turns alone."""
        known = self._known.get(thread.id)
        if known is None and not thread.view.spans and thread.turn_count <= 1:
            known = ThreadMemory(thread.view, (), None)
        elif known is None:
            known = await self._store.read(lambda tx: _read(tx, thread))
        elif known.view != thread.view:
            known = await self._catch_up(thread, known)
        self._remember(thread.id, known)
        return known

    async def _catch_up(self, thread: Thread, known: ThreadMemory) -> ThreadMemory:
        """Another process has served a turn, or the history went back: read what is missing, if that is all."""
        added = thread.view.added_since(known.view)
        if added is None:
            history = await self._store.read(lambda tx: turns.history(tx, thread.id, thread.view))
            return replace(known, view=thread.view, history=history, told=told(history), counted=None)
        missing = thread.view.last(len(added))
        tail = await self._store.read(lambda tx: turns.history(tx, thread.id, missing))
        return replace(known, view=thread.view, history=known.history + tail, told=known.told.then(told(tail)))

    def note_prefix(self, thread: ThreadId, prefix: Prefix) -> None:
        """The thread's prefix was rendered."""
        if known := self._known.get(thread):
            self._remember(thread, replace(known, prefix=prefix))

    def note_count(self, thread: ThreadId, counted: Counted) -> None:
        """The provider said what a request of this thread weighed."""
        if known := self._known.get(thread):
            self._remember(thread, replace(known, counted=counted))

    def extend(self, thread: ThreadId, view: HistoryView, entries: tuple[ChatMessage, ...]) -> None:
        """A turn's entries were committed and left the history at `view`. What does not fit together is forgotten."""
        if (known := self._known.get(thread)) is None or not entries:
            return
        if known.view.with_added(view.spans[-1][1] - len(entries), len(entries)) == view:
            now_told = known.told.then(told(entries))
            self._remember(thread, replace(known, view=view, history=known.history + entries, told=now_told))
        else:
            self.forget(thread)

    async def current(self, thread: Thread) -> ThreadMemory:
        """The memory of a thread in the middle of its turn: the turn itself may have shortened it meanwhile."""
        return self._known.get(thread.id) or await self.load(thread)

    def known(self, thread: ThreadId) -> ThreadMemory | None:
        """What is remembered of a thread at this moment."""
        return self._known.get(thread)

    def swap(self, thread: ThreadId, view: HistoryView, history: tuple[ChatMessage, ...]) -> None:
        """The history was shortened. What was told in what is left out is news again."""
        if known := self._known.get(thread):
            self._remember(thread, replace(known, view=view, history=history, told=told(history), counted=None))

    def forget(self, thread: ThreadId) -> None:
        """What is known may be wrong: read it anew next time."""
        self._known.pop(thread, None)

    def _remember(self, thread: ThreadId, memory: ThreadMemory) -> None:
        self._known[thread] = memory
        self._known.move_to_end(thread)
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)


def _read(tx: Transaction, thread: Thread) -> ThreadMemory:
    history = turns.history(tx, thread.id, thread.view)
    return ThreadMemory(thread.view, history, conversations.prefix(tx, thread.id), told(history))
