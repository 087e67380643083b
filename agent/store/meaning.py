"""Search by meaning, as far as it works at the moment: what fails leaves the search by words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import structlog

from agent.llm.embeddings import QueryVectors
from agent.llm.errors import BudgetExceeded, LLMError
from agent.store import vectors
from agent.store.base import Store, Transaction
from agent.store.errors import StoreUnavailable

log = structlog.get_logger(__name__)

LONGEST_WAIT = timedelta(seconds=2)
"""A person waits for the search: a query whose vector takes longer is searched by its words alone."""


class NearestPassages:
    """Satisfies `search.Meaning`. Texts with secrets are not sent."""

    def __init__(
        self,
        store: Store,
        queries: QueryVectors,
        is_secret: Callable[[str], bool],
        longest_wait: timedelta = LONGEST_WAIT,
    ) -> None:
        self._store = store
        self._queries = queries
        self._is_secret = is_secret
        self._longest_wait = longest_wait

    async def nearest(self, owners: Sequence[str], query: str, most: int) -> tuple[int, ...]:
        """The passages of these owners whose meaning is nearest; none, and a warning, where it cannot be told."""
        if self._is_secret(query):
            return ()
        try:
            if not await self._store.read_in_thread(partial(self._has_any, owners)):
                return ()
            async with asyncio.timeout(self._longest_wait.total_seconds()):
                vector = await self._queries.vector(query)
            return await self._store.read_in_thread(partial(self._near, owners, vector, most))
        except BudgetExceeded:
            log.warning("search_by_words_only", reason="budget used up")
        except TimeoutError:
            log.warning("search_by_words_only", reason="the embedding server was too slow")
        except LLMError as error:
            log.warning("search_by_words_only", reason=error.detail)
        except ImportError:
            log.warning("search_by_words_only", reason="the package numpy cannot be loaded")
        except StoreUnavailable:
            log.warning("search_by_words_only", reason="the vectors cannot be read")
        return ()

    def _has_any(self, owners: Sequence[str], tx: Transaction) -> bool:
        """Without a vector to compare with, the query's own would be paid for nothing."""
        return vectors.are_ready(tx) and vectors.has_any(tx, owners, self._queries.model)

    def _near(self, owners: Sequence[str], vector: bytes, most: int, tx: Transaction) -> tuple[int, ...]:
        return vectors.nearest(tx, owners, self._queries.model, vector, most)
