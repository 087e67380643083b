"""Goes on with another provider where one fails, within the same call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from agent.clock import Clock
from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText
from agent.llm.errors import BudgetExceeded, ContextTooLong, LLMError, RequestRefused, TransientError

log = structlog.get_logger(__name__)

FAILURES_TO_COOL = 3
COOLDOWN = timedelta(seconds=300)
_PRIMARY = 0


@dataclass(frozen=True, slots=True)
class Health:
    """How a provider has done lately: failures since its last success, and when its pause began, if it was sent off."""

    failures: int = 0
    cooled_at: datetime | None = None

    def is_cooling(self, now: datetime) -> bool:
        """Whether the pause lasts. A clock that was set back ends it."""
        return self.cooled_at is not None and timedelta(0) <= now - self.cooled_at < COOLDOWN

    def failed(self, now: datetime) -> Health:
        """After one more failure. Until a success each further one begins a new pause."""
        failures = self.failures + 1
        return Health(failures, now if failures >= FAILURES_TO_COOL else None)


def order_of(healths: Sequence[Health], now: datetime) -> tuple[int, ...]:
    """Whom to ask, in this order: those not cooling; after them, as a last resort, the one that cools the longest."""
    ready = [index for index, health in enumerate(healths) if not health.is_cooling(now)]
    cooling = sorted(
        (health.cooled_at, index)
        for index, health in enumerate(healths)
        if health.cooled_at is not None and health.is_cooling(now)
    )
    return (*ready, *(index for _, index in cooling[:1]))


class FailoverProvider:
    """The first of `providers` as long as it answers, else the next that does.

    Only a TransientError of the first sends a call on: what it refuses for good is its answer. The others stand in for
    it, so whatever is wrong with one of them leads to the next. `request.model` names a model of the first; the others
    answer with their own. What this provider is and lists is what the first is and lists.
    """

    def __init__(self, providers: Sequence[LLMProvider], clock: Clock) -> None:
        self._providers = tuple(providers)
        self._clock = clock
        self._healths = [Health() for _ in self._providers]

    @property
    def name(self) -> str:
        return self._first.name

    @property
    def model(self) -> str:
        return self._first.model

    @property
    def context_limit(self) -> int | None:
        return self._first.context_limit

    @property
    def supports_tools(self) -> bool:
        return self._first.supports_tools

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`; each further provider calls `on_text` with "" first."""
        faults: dict[int, LLMError] = {}
        for index in order_of(self._healths, self._clock.now()):
            asked = request if index == _PRIMARY else replace(request, model=None)
            if faults and on_text is not None:
                on_text("")
            try:
                completion = await self._providers[index].complete(asked, on_text)
            except LLMError as error:
                if _is_final(error, index):
                    raise
                self._note_failure(index, error)
                faults[index] = error
            else:
                self._healths[index] = Health()
                return completion
        raise _most_telling(faults)

    async def list_models(self) -> tuple[str, ...]:
        return await self._first.list_models()

    async def warm_up(self) -> None:
        """Load the first provider; the others load when they are needed."""
        await self._first.warm_up()

    async def close(self) -> None:
        """Close all, each whatever becomes of the others."""
        async with AsyncExitStack() as stack:
            for provider in self._providers:
                stack.push_async_callback(provider.close)

    @property
    def _first(self) -> LLMProvider:
        return self._providers[_PRIMARY]

    def _note_failure(self, index: int, error: LLMError) -> None:
        now = self._clock.now()
        # A conversation that does not suit a provider says nothing of its health.
        if not isinstance(error, ContextTooLong | RequestRefused):
            self._healths[index] = self._healths[index].failed(now)
        provider = self._providers[index]
        log.warning(
            "model_failed_over",
            provider=provider.name,
            model=provider.model,
            fault=type(error).__name__,
            detail=error.detail,
            cooling=self._healths[index].is_cooling(now),
        )


def _is_final(error: LLMError, index: int) -> bool:
    if isinstance(error, BudgetExceeded):
        return True
    return index == _PRIMARY and not isinstance(error, TransientError)


def _most_telling(faults: Mapping[int, LLMError]) -> LLMError:
    """The fault to raise when nobody answered: one that shortening cures, else that of the most preferred."""
    too_long = (error for error in faults.values() if isinstance(error, ContextTooLong))
    return next(too_long, faults[min(faults)])
