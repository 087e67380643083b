"""Puts the wrappers around bare providers, in the one order in which they work.

bare -> metered -> retry -> smart routing -> failover -> circuit breaker -> response cache

Metering stands inside, so that each try is allowed, counted and priced for the provider that made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog

from agent.clock import Clock
from agent.llm.base import LLMProvider
from agent.llm.circuit_breaker import CircuitBreakerProvider
from agent.llm.failover import FailoverProvider
from agent.llm.metered import Guard, MeteredProvider
from agent.llm.response_cache import ResponseCacheProvider
from agent.llm.retry import LONGEST_WAIT, Random, RetryingProvider
from agent.llm.smart_routing import SmartRoutingProvider
from config.settings import LLMSettings

log = structlog.get_logger(__name__)

LONGEST_WAIT_BEFORE_FALLBACK = timedelta(seconds=10)
"""A provider that asks for a longer pause is not waited for where another one can answer."""


@dataclass(frozen=True, slots=True)
class BareProviders:
    """What a chain is built of; the fallbacks in the order in which they are asked."""

    primary: LLMProvider
    cheap: LLMProvider | None = None
    fallbacks: tuple[LLMProvider, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """What the program asks: `main` for people, `cheap` for work nobody waits for (`main` where there is none)."""

    main: LLMProvider
    cheap: LLMProvider


def build_chain(bare: BareProviders, settings: LLMSettings, guard: Guard, clock: Clock, random: Random) -> Chain:
    """The providers as the program uses them. Every call through either is allowed by `guard` and told to it."""

    longest_wait = LONGEST_WAIT_BEFORE_FALLBACK if bare.fallbacks else LONGEST_WAIT

    def reliable(provider: LLMProvider) -> LLMProvider:
        metered = MeteredProvider(provider, guard)
        return RetryingProvider(metered, clock, random, settings.max_retries, longest_wait)

    main = reliable(bare.primary)
    cheap = reliable(bare.cheap) if bare.cheap is not None else None
    if settings.smart_routing:
        if cheap is None:
            log.warning("smart_routing_needs_a_cheap_model")
        else:
            main = SmartRoutingProvider(main, cheap)
    if bare.fallbacks:
        main = FailoverProvider((main, *map(reliable, bare.fallbacks)), clock)
    if settings.circuit_breaker:
        main = CircuitBreakerProvider(main, clock)
    if settings.response_cache:
        main = ResponseCacheProvider(main, clock)
    return Chain(main, cheap if cheap is not None else main)
