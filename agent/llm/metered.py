"""The one place where calls are allowed and counted. `compose` wraps every provider with it: no caller can forget."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Protocol

from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText, Usage
from agent.llm.errors import LLMError
from agent.llm.pricing import cost_of, price_of
from agent.llm.tokens import TokenEstimator, estimate_tokens


class Guard(Protocol):
    """Decides on calls and keeps count of them."""

    async def check(self, *, unattended: bool) -> None:
        """Raises BudgetExceeded if no call may be made now."""
        ...

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str) -> None:
        """Counts one call; `cost` in dollars."""
        ...


class MeteredProvider:
    """Asks the guard before each call and tells it after."""

    def __init__(self, inner: LLMProvider, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard
        self._tokens = TokenEstimator()

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
        """Answer `request`, or raise BudgetExceeded.

        A call that was cancelled, or broke off after its first words, counts with an estimate: it is paid too.
        """
        await self._guard.check(unattended=request.unattended)
        heard: list[str] = []

        def listen(text: str) -> None:
            if on_text is not None:
                heard.append(text)
                on_text(text)

        try:
            completion = await self._inner.complete(request, listen if on_text is not None else None)
        except asyncio.CancelledError:
            await self._record(request, request.model or self.model, self._estimate(request, heard))
            raise
        except LLMError:
            if any(heard):
                await self._record(request, request.model or self.model, self._estimate(request, heard))
            raise
        await self._record(request, completion.model or request.model or self.model, completion.usage)
        return completion

    async def list_models(self) -> tuple[str, ...]:
        return await self._inner.list_models()

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def close(self) -> None:
        await self._inner.close()

    async def _record(self, request: CompletionRequest, model: str, usage: Usage) -> None:
        cost = cost_of(usage, price_of(self.name, model))
        await self._guard.record(self.name, model, usage, cost, request.account)

    def _estimate(self, request: CompletionRequest, heard: list[str]) -> Usage:
        return Usage(self._tokens.estimate(request.messages, request.system), estimate_tokens("".join(heard)))
