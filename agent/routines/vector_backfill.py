"""Gives passages their vectors in the background: a search never waits for it, and a restart goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

import structlog

from agent.clock import Clock
from agent.llm.errors import ContextTooLong, LLMError, RequestRefused
from agent.store import vectors
from agent.store.base import Store, Transaction
from agent.store.errors import StoreUnavailable
from agent.store.vectors import Passage

log = structlog.get_logger(__name__)

FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)
TEXTS_A_CALL = 32

# Of a text its beginning is sent: 800 words of English have about 4,800 characters. What is too long for a model with a
# small window is tried shorter.
_CHARACTERS = (6_000, 3_000, 1_500, 750)
_PASSAGES_A_TRANSACTION = 200


class Vectors(Protocol):
    """Gives vectors, at a price."""

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str], *, unattended: bool) -> tuple[bytes, ...]: ...


class VectorBackfill:
    """A service. What fails is tried again with growing waits; until then those passages are found by words alone."""

    def __init__(self, store: Store, clock: Clock, embedder: Vectors, is_secret: Callable[[str], bool]) -> None:
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._is_secret = is_secret
        self._wake = asyncio.Event()

    def nudge(self) -> None:
        """Say that the word index has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled; begins with what an earlier process left."""
        wait = FIRST_WAIT
        while True:
            self._wake.clear()
            try:
                await self.fill()
            except (LLMError, StoreUnavailable) as error:
                log.warning("vectors_delayed", reason=type(error).__name__, retry_s=wait.total_seconds())
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                wait = FIRST_WAIT
                await self._wake.wait()

    async def fill(self) -> int:
        """Give every passage its vector and forget those nobody needs; gives how many were added.

        Raises LLMError or StoreUnavailable; what was added by then is kept.
        """
        await self._store.write(vectors.prepare)
        last: int | None = 0
        while last is not None:
            last = await self._store.write(partial(_note, last))
        added = 0
        while texts := await self._store.read_in_thread(partial(_missing, self._embedder.model)):
            found = await self._embed(texts)
            await self._store.write(partial(_keep, self._embedder.model, found))
            added += len(found)
        dropped = await self._store.write(partial(_drop_unused, self._embedder.model))
        if added or dropped:
            log.info("vectors_filled", added=added, dropped=dropped)
        return added

    async def _embed(self, texts: Sequence[Passage]) -> list[tuple[str, bytes]]:
        """The vectors by digest; an empty one for what must not or cannot be sent."""
        hidden = await asyncio.to_thread(self._hidden, texts)  # some milliseconds a text
        sent = [passage for passage in texts if passage not in hidden]
        if hidden:
            log.info("passages_kept_from_embedding", passages=len(hidden))
        found = [(passage.digest, b"") for passage in hidden]
        if not sent:
            return found
        try:
            answer = await self._embedder.embed([each.text[: _CHARACTERS[0]] for each in sent], unattended=True)
        except (ContextTooLong, RequestRefused):
            return found + [(passage.digest, await self._embed_alone(passage.text)) for passage in sent]
        return found + [(passage.digest, vector) for passage, vector in zip(sent, answer, strict=True)]

    def _hidden(self, texts: Sequence[Passage]) -> list[Passage]:
        return [passage for passage in texts if self._is_secret(passage.text)]

    async def _embed_alone(self, text: str) -> bytes:
        for length in _CHARACTERS:
            if length >= 2 * len(text) and length != _CHARACTERS[0]:
                continue  # it would be the same text again
            try:
                (vector,) = await self._embedder.embed([text[:length]], unattended=True)
            except (ContextTooLong, RequestRefused):
                continue
            return vector
        log.warning("passage_refused_by_the_embedding_server")
        return b""


def _note(after: int, tx: Transaction) -> int | None:
    return vectors.note_passages(tx, after, _PASSAGES_A_TRANSACTION)


def _missing(model: str, tx: Transaction) -> tuple[Passage, ...]:
    return vectors.missing(tx, model, TEXTS_A_CALL)


def _keep(model: str, found: Sequence[tuple[str, bytes]], tx: Transaction) -> None:
    vectors.keep(tx, model, found)


def _drop_unused(model: str, tx: Transaction) -> int:
    if vectors.note_passages(tx, 0, 1) is not None:
        return 0  # the index has changed meanwhile: what seems unused may be the text of a document that was moved
    return vectors.drop_unused(tx, model)
