"""Repeats calls that may succeed if repeated."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

import structlog

from agent.clock import Clock
from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText
from agent.llm.errors import TransientError

log = structlog.get_logger(__name__)

_FIRST_WAIT = timedelta(seconds=1)
_SHORTEST_WAIT = timedelta(milliseconds=100)
# A turn is not held longer than this for one wait: another provider, or an honest message, serves the user better.
LONGEST_WAIT = timedelta(minutes=2)


class Random(Protocol):
    """The one method used of `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float: ...


class RetryingProvider:
    """Repeats a call after a TransientError, up to `max_retries` times.

    Waits what the provider asks for, else 1, 2, 4 … seconds give or take a quarter. A provider that asks for more than
    `longest_wait` is not waited for: its error is raised at once.
    """

    def __init__(
        self,
        inner: LLMProvider,
        clock: Clock,
        random: Random,
        max_retries: int,
        longest_wait: timedelta = LONGEST_WAIT,
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._random = random
        self._max_retries = max_retries
        self._longest_wait = longest_wait

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def context_limit(self) -> int | None:
        return self._inner.context_limit

    @property
    def supports_tools(self) -> bool:
        return self._inner.supports_tools

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`; each repetition calls `on_text` with "" first."""
        retries = 0
        while True:
            try:
                return await self._inner.complete(request, on_text)
            except TransientError as error:
                wait = self.wait_before(retries, error.retry_after)
                if retries >= self._max_retries or wait > self._longest_wait:
                    raise
                log.warning(
                    "model_call_retried",
                    provider=self.name,
                    fault=type(error).__name__,
                    detail=error.detail,
                    retry=retries + 1,
                    wait_ms=round(wait.total_seconds() * 1000),
                )
            retries += 1
            await self._clock.sleep(wait)
            if on_text is not None:
                on_text("")

    def wait_before(self, retries: int, asked: timedelta | None) -> timedelta:
        """How long to wait when `retries` repetitions have been made."""
        if asked is not None:
            return max(asked, _SHORTEST_WAIT)
        return max(_FIRST_WAIT * (1 << retries) * self._random.uniform(0.75, 1.25), _SHORTEST_WAIT)

    async def list_models(self) -> tuple[str, ...]:
        return await self._inner.list_models()

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def close(self) -> None:
        await self._inner.close()
