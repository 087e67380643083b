"""Spares people the wait for a model that is down: after some failures calls are refused at once for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from agent.clock import Clock
from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText
from agent.llm.errors import TransientError

log = structlog.get_logger(__name__)

FAILURES_TO_OPEN = 5
OPEN_FOR = timedelta(seconds=30)
SUCCESSES_TO_CLOSE = 2


@dataclass(frozen=True, slots=True)
class Closed:
    """Calls are made; `failures` came in a row."""

    failures: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """Calls are refused."""

    since: datetime

    def rest(self, now: datetime) -> timedelta:
        """How much longer; nothing if that is over, or if the clock was set back."""
        age = now - self.since
        return OPEN_FOR - age if timedelta(0) <= age < OPEN_FOR else timedelta(0)


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """Calls are made on trial; `successes` of them have answered."""

    successes: int = 0


Circuit = Closed | Open | HalfOpen


def at(circuit: Circuit, now: datetime) -> Circuit:
    """The state at an instant: one that was open long enough is on trial."""
    return HalfOpen() if isinstance(circuit, Open) and not circuit.rest(now) else circuit


def after_success(circuit: Circuit) -> Circuit:
    """The state after an answer. The answer to a call made before it opened does not close it."""
    match circuit:
        case Closed():
            return Closed()
        case HalfOpen(successes=successes):
            return Closed() if successes + 1 >= SUCCESSES_TO_CLOSE else HalfOpen(successes + 1)
        case Open():
            return circuit
        case unreachable:
            assert_never(unreachable)


def after_failure(circuit: Circuit, now: datetime) -> Circuit:
    """The state after a transient failure. That of a call made before it opened does not prolong it."""
    match circuit:
        case Closed(failures=failures):
            return Open(now) if failures + 1 >= FAILURES_TO_OPEN else Closed(failures + 1)
        case HalfOpen():
            return Open(now)
        case Open():
            return circuit
        case unreachable:
            assert_never(unreachable)


class CircuitBreakerProvider:
    """Refuses calls with a TransientError while the circuit is open. Other faults than transient ones do not count."""

    def __init__(self, inner: LLMProvider, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._circuit: Circuit = Closed()

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
        """Answer `request`, or raise TransientError at once, with the time that is left."""
        now = self._clock.now()
        self._circuit = at(self._circuit, now)
        if isinstance(self._circuit, Open):
            raise TransientError(f"{self.name} failed repeatedly and is given a rest", self._circuit.rest(now))
        try:
            completion = await self._inner.complete(request, on_text)
        except TransientError:
            self._move(after_failure(self._circuit, self._clock.now()))
            raise
        self._move(after_success(self._circuit))
        return completion

    async def list_models(self) -> tuple[str, ...]:
        return await self._inner.list_models()

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def close(self) -> None:
        await self._inner.close()

    def _move(self, circuit: Circuit) -> None:
        before, self._circuit = self._circuit, circuit
        if isinstance(circuit, Open) and not isinstance(before, Open):
            log.warning("model_circuit_opened", provider=self.name, seconds=OPEN_FOR.total_seconds())
        elif isinstance(circuit, Closed) and isinstance(before, HalfOpen):
            log.info("model_circuit_closed", provider=self.name)
