"""Texts to vectors of their meaning. Each call is paid: it is allowed by the cost guard before and counted after.

A vector is kept as the bytes of little-endian 16-bit floats, of length one: half the room of 32 bits, and an error of a
thousandth that changes no order that means anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from agent.llm.base import Usage
from agent.llm.errors import TransientError
from agent.llm.metered import Guard
from agent.llm.pricing import cost_of, embedding_price_of
from agent.llm.settings import OpenAISettings
from agent.llm.tokens import estimate_tokens
from agent.llm.wire.faults import Refused, fault_of

if TYPE_CHECKING:
    from agent.llm.wire.openai_sdk import OpenAIClient

# OpenAI, "Vector embeddings", 2026-10: the small one of the two.
DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"

CACHED_QUERIES = 10_000
_ACCOUNT = "memory"


@dataclass(frozen=True, slots=True)
class Embedded:
    """One vector a text, in order; `tokens` is what the server counted, None where it does not say."""

    vectors: tuple[bytes, ...]
    tokens: int | None


class Embedder(Protocol):
    """Gives vectors. `model` names all that makes vectors comparable with each other."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The texts' vectors. Raises LLMError."""
        ...

    async def close(self) -> None: ...


class MeteredEmbedder:
    """Asks the guard before each call and tells it after. `compose` wraps every embedder with it."""

    def __init__(self, inner: Embedder, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard

    @property
    def model(self) -> str:
        return self._inner.model

    async def embed(self, texts: Sequence[str], *, unattended: bool) -> tuple[bytes, ...]:
        """The texts' vectors, or BudgetExceeded. A call that was cancelled counts with an estimate: it is paid too."""
        await self._guard.check(unattended=unattended)
        try:
            embedded = await self._inner.embed(texts)
        except asyncio.CancelledError:
            await self._record(texts, None)
            raise
        await self._record(texts, embedded.tokens)
        return embedded.vectors

    async def close(self) -> None:
        await self._inner.close()

    async def _record(self, texts: Sequence[str], tokens: int | None) -> None:
        usage = Usage(sum(map(estimate_tokens, texts)) if tokens is None else tokens)
        model = self._inner.model.partition("@")[0]
        cost: Decimal = cost_of(usage, embedding_price_of(model))
        await self._guard.record(self._inner.name, model, usage, cost, _ACCOUNT)


class QueryVectors:
    """Vectors of what people look for, the last 10,000 of them kept in memory."""

    def __init__(self, embedder: MeteredEmbedder, most: int = CACHED_QUERIES) -> None:
        self._embedder = embedder
        self._most = most
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    @property
    def model(self) -> str:
        return self._embedder.model

    async def vector(self, query: str) -> bytes:
        """The query's vector. Raises LLMError."""
        key = digest_of(query)
        found = self._kept.get(key)
        if found is None:
            (found,) = await self._embedder.embed((query,), unattended=False)
            self._kept[key] = found
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found


class OpenAIEmbedder:
    """OpenAI's embeddings, and every server that speaks them: Ollama, vLLM, llama-server. The SDK loads at need."""

    def __init__(
        self, settings: OpenAISettings, *, model: str | None, dimensions: int | None, timeout: timedelta
    ) -> None:
        self._settings = settings
        self._model = model or DEFAULT_EMBEDDING_MODEL
        self._dimensions = dimensions
        self._timeout = timeout
        self._connecting = asyncio.Lock()
        self._client: OpenAIClient | None = None

    @property
    def name(self) -> str:
        return "openai"

    @property
    def model(self) -> str:
        return self._model if self._dimensions is None else f"{self._model}@{self._dimensions}"

    async def embed(self, texts: Sequence[str]) -> Embedded:
        client = await self._connected()
        body: dict[str, object] = {"model": self._model, "input": list(texts)}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        encoded = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                answer = await client.embeddings(encoded)
        except TimeoutError as error:
            raise TransientError("the embedding server was too slow") from error
        except Refused as refusal:
            raise fault_of(refusal.answer, datetime.now(UTC)) from refusal
        return await asyncio.to_thread(decode_embeddings, answer, len(texts))  # thousands of numbers a text

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connected(self) -> OpenAIClient:
        if self._client is None:
            async with self._connecting:
                if self._client is None:
                    self._client = await asyncio.to_thread(_connect, self._settings, self._timeout)
        return self._client


def decode_embeddings(answer: bytes, count: int) -> Embedded:
    """The vectors of an answer, in the order of the texts. Raises TransientError for one that does not hold them."""
    try:
        parsed = json.loads(answer)
        items = sorted(parsed["data"], key=lambda item: int(item["index"]))
        vectors = tuple(pack_vector([float(number) for number in item["embedding"]]) for item in items)
        usage = parsed.get("usage")
        told = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise TransientError("the embedding server's answer cannot be read") from error
    if [item["index"] for item in items] != list(range(count)):
        raise TransientError("the embedding server left texts out")
    return Embedded(vectors, told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None)


def pack_vector(numbers: Sequence[float]) -> bytes:
    """The vector of length one in this direction, as bytes. Raises ValueError where there is no direction."""
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if not (length > 0 and math.isfinite(length)):
        raise ValueError("a vector without a direction")
    return struct.pack(f"<{len(numbers)}e", *(number / length for number in numbers))


def digest_of(text: str) -> str:
    """What tells texts apart without holding them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _connect(settings: OpenAISettings, timeout: timedelta) -> OpenAIClient:
    from agent.llm.wire.openai_sdk import OpenAIClient  # takes about 0.4 s

    return OpenAIClient(settings, timeout)
