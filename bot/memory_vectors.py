"""Search by meaning, put together where the settings ask for it and the machine can do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import assert_never

import structlog

from agent.clock import Clock
from agent.llm.embeddings import Embedder, MeteredEmbedder, OpenAIEmbedder, QueryVectors
from agent.llm.metered import Guard
from agent.llm.settings import OpenAISettings
from agent.routines.vector_backfill import VectorBackfill
from agent.store.base import Store
from agent.store.meaning import NearestPassages
from agent.store.search import SearchIndex
from config.settings import EmbeddingProvider, Settings

log = structlog.get_logger(__name__)

_TIMEOUT = timedelta(seconds=60)
_EXTRA = "pip install 'optimclaw[vectors]'"


@dataclass(frozen=True, slots=True)
class MemoryVectors:
    """What search by meaning runs beside the index."""

    nearest: NearestPassages
    backfill: VectorBackfill
    embedder: MeteredEmbedder

    async def close(self) -> None:
        """Let go of the connection to the embedding server."""
        await self.embedder.close()


def build_vectors(
    settings: Settings,
    store: Store,
    clock: Clock,
    guard: Guard,
    is_secret: Callable[[str], bool],
    installed: Callable[[str], object | None] = find_spec,
) -> MemoryVectors | None:
    """Search by meaning, or None where it is off or its package is not `installed`. Building it loads no package."""
    embedder = _embedder(settings)
    if embedder is None:
        return None
    if installed("numpy") is None:
        log.warning("search_by_words_only", reason="the package numpy is missing", cure=_EXTRA)
        return None
    metered = MeteredEmbedder(embedder, guard)
    return MemoryVectors(
        NearestPassages(store, QueryVectors(metered), is_secret),
        VectorBackfill(store, clock, metered, is_secret),
        metered,
    )


def build_index(store: Store, vectors: MemoryVectors | None) -> SearchIndex:
    """The search index, with vectors where there are any."""
    return SearchIndex(store) if vectors is None else SearchIndex(store, vectors.nearest, vectors.backfill.nudge)


def _embedder(settings: Settings) -> Embedder | None:
    match settings.memory.embedding_provider:
        case EmbeddingProvider.OFF:
            return None
        case EmbeddingProvider.OPENAI:
            return OpenAIEmbedder(
                _server(settings),
                model=settings.memory.embedding_model,
                dimensions=settings.memory.embedding_dimensions,
                timeout=_TIMEOUT,
            )
        case unreachable:
            assert_never(unreachable)


def _server(settings: Settings) -> OpenAISettings:
    """The server that is asked. A server of its own is never shown the key of another."""
    memory = settings.memory
    if memory.embedding_base_url is not None:
        return OpenAISettings(api_key=memory.embedding_api_key, base_url=memory.embedding_base_url)
    chosen = settings.providers["openai"]
    assert isinstance(chosen, OpenAISettings)
    return OpenAISettings(api_key=memory.embedding_api_key or chosen.api_key, base_url=chosen.base_url)
