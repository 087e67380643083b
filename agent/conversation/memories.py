"""What a process remembers of its threads between turns, so that history is never read whole again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from agent.llm.messages import ChatMessage
from agent.model.ids import ThreadId
from agent.model.session import Thread
from agent.store import conversations, turns
from agent.store.base import Store
from agent.store.conversations import Prefix

CAPACITY = 2_000
"""Threads kept; the one used longest ago is forgotten first. Forgetting costs one read at its next turn."""


@dataclass(frozen=True, slots=True)
class ThreadMemory:
    """A thread's history as models see it, its prompt prefix, and which notes of the day it has been told."""

    history: tuple[ChatMessage, ...]
    prefix: Prefix | None
    notes_digest: str = ""


class ThreadMemories:
    """Recently used threads. The store decides: a length that differs from the row's is read anew from there."""

    def __init__(self, store: Store, capacity: int = CAPACITY) -> None:
        self._store = store
        self._capacity = capacity
        self._known: OrderedDict[ThreadId, ThreadMemory] = OrderedDict()

    async def load(self, thread: Thread) -> ThreadMemory:
        """The memory of a thread, its history as long as the row says."""
        known = self._known.get(thread.id)
        if known is None and not thread.entry_count and not thread.turn_count > 1:
            known = ThreadMemory((), None)
        elif known is None or len(known.history) > thread.entry_count:
            known = await self._store.read(
                lambda tx: ThreadMemory(turns.history(tx, thread.id), conversations.prefix(tx, thread.id))
            )
        elif len(known.history) < thread.entry_count:  # another process has served a turn in between
            start = len(known.history)
            tail = await self._store.read(lambda tx: turns.history(tx, thread.id, start))
            known = replace(known, history=known.history + tail)
        self._remember(thread.id, known)
        return known

    def note_prefix(self, thread: ThreadId, prefix: Prefix) -> None:
        """The thread's prefix was rendered."""
        self._remember(thread, replace(self._known.get(thread, ThreadMemory((), None)), prefix=prefix))

    def note_notes(self, thread: ThreadId, digest: str) -> None:
        """The thread has been told these notes of the day."""
        if known := self._known.get(thread):
            self._remember(thread, replace(known, notes_digest=digest))

    def extend(self, thread: ThreadId, entries: tuple[ChatMessage, ...]) -> None:
        """A turn's entries were committed."""
        if known := self._known.get(thread):
            self._remember(thread, replace(known, history=known.history + entries))

    def forget(self, thread: ThreadId) -> None:
        """What is known may be wrong: read it anew next time."""
        self._known.pop(thread, None)

    def _remember(self, thread: ThreadId, memory: ThreadMemory) -> None:
        self._known[thread] = memory
        self._known.move_to_end(thread)
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)
