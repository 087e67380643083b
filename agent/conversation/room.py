"""Keeps room in a thread's context: knows how full it is, and shortens it before a turn that would not fit."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.conversation.compaction import Compacted, Compactor, SummaryFailed
from agent.conversation.context_monitor import (
    DEFAULT_LIMIT_TOKENS,
    CompactionStrategy,
    Fullness,
    Truncate,
    suggest_compaction,
)
from agent.conversation.memories import ThreadMemories, ThreadMemory
from agent.llm.base import LLMProvider
from agent.llm.errors import LLMError
from agent.llm.messages import ChatMessage
from agent.llm.tokens import TokenEstimator
from agent.model.session import Thread
from agent.workspace.errors import WorkspaceError
from agent.workspace.scope import Scope

log = structlog.get_logger(__name__)

IMPLAUSIBLE = 3
"""A count below a third of our estimate is not believed: some servers report only what they had not cached."""


class RoomKeeper:
    """Counts with the provider's own figures where it gave them, and with an estimate for what came after."""

    def __init__(
        self,
        compactor: Compactor,
        memories: ThreadMemories,
        llm: LLMProvider,
        *,
        limit_tokens: int | None,
        threshold: float,
    ) -> None:
        self._compactor = compactor
        self._memories = memories
        self._llm = llm
        self._limit_tokens = limit_tokens
        self._threshold = threshold
        self._estimator = TokenEstimator()

    async def make_room(self, thread: Thread, scope: Scope) -> ThreadMemory:
        """The thread's memory, shortened first if it is too full. A failure to shorten is no failure of the turn."""
        memory = await self._memories.load(thread)
        fullness = self._fullness(memory)
        strategy = suggest_compaction(fullness, self._threshold)
        if strategy is None:
            return memory
        if not isinstance(strategy, Truncate) and self._is_full_without(memory.history, fullness):
            log.warning("prompt_leaves_no_room", percent=fullness.percent)
            return memory  # each turn would pay for a summary and win nothing
        try:
            await self.compact(thread, scope, strategy)
        except (SummaryFailed, LLMError, WorkspaceError) as error:
            log.warning("compaction_failed", error=type(error).__name__, strategy=type(strategy).__name__)
        return self._memories.known(thread.id) or memory

    async def compact(self, thread: Thread, scope: Scope, strategy: CompactionStrategy) -> Compacted | None:
        """Shorten the thread now. Raises what `Compactor.compact` does."""
        memory = await self._memories.load(thread)
        done = await self._compactor.compact(thread, scope, memory.history, strategy)
        if done is not None:
            self._memories.swap(thread.id, done.view, done.history)
        return done

    async def fullness(self, thread: Thread) -> Fullness:
        """How full a thread is, for whoever asks."""
        return self._fullness(await self._memories.peek(thread))

    def fullness_of(self, history: Sequence[ChatMessage]) -> Fullness:
        """How full a thread with this history is."""
        return Fullness(self._estimator.estimate(history, ""), self._limit)

    def _fullness(self, memory: ThreadMemory) -> Fullness:
        estimate = self._estimator.estimate(memory.history, memory.prefix.body if memory.prefix else "")
        counted = memory.counted
        if counted is None or counted.messages > len(memory.history):
            return Fullness(estimate, self._limit)
        tokens = counted.tokens + self._estimator.estimate(memory.history[counted.messages :], "")
        return Fullness(tokens if tokens * IMPLAUSIBLE >= estimate else estimate, self._limit)

    def _is_full_without(self, history: Sequence[ChatMessage], fullness: Fullness) -> bool:
        """Whether prompt and tools alone pass the threshold."""
        rest = fullness.tokens - self._estimator.estimate(history, "")
        return suggest_compaction(Fullness(rest, fullness.limit), self._threshold) is not None

    @property
    def _limit(self) -> int:
        return self._limit_tokens or self._llm.context_limit or DEFAULT_LIMIT_TOKENS
