from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import Usage
from agent.llm.embeddings import Embedded, MeteredEmbedder, QueryVectors, decode_embeddings, pack_vector
from agent.llm.errors import BudgetExceeded, TransientError
from agent.llm.pricing import embedding_price_of

NUMBERS = st.lists(st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3)), min_size=1, max_size=16)

KEYS = st.sampled_from(["data", "index", "embedding", "usage"])
OTHER_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
).map(lambda value: json.dumps(value).encode())


class Book:
    """A guard that notes what it is told, and may refuse."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.entries: list[tuple[str, str, int, Decimal]] = []

    async def check(self, *, unattended: bool) -> None:
        if self.refuses:
            raise BudgetExceeded("used up")

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str) -> None:
        self.entries.append((provider, model, usage.input_tokens, cost))


class Counted:
    """An embedder that notes what it is asked; it may hang."""

    name = "openai"

    def __init__(self, tokens: int | None = None, hangs: bool = False, model: str = "text-embedding-3-large") -> None:
        self.model = model
        self.asked: list[str] = []
        self.reached = asyncio.Event()
        self._tokens = tokens
        self._hangs = hangs

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked += texts
        self.reached.set()
        if self._hangs:
            await asyncio.Event().wait()
        return Embedded(tuple(pack_vector([len(text), 1]) for text in texts), self._tokens)

    async def close(self) -> None: ...


def answer(vectors: Sequence[Sequence[float]], tokens: object = 7) -> bytes:
    data = [{"index": index, "embedding": list(vector)} for index, vector in enumerate(vectors)]
    return json.dumps({"data": data[::-1], "usage": {"prompt_tokens": tokens}}).encode()


@given(st.lists(NUMBERS.filter(lambda numbers: any(map(abs, numbers))), min_size=1, max_size=5))
def test_vectors_come_in_the_order_of_the_texts_and_with_length_one(vectors: list[list[float]]) -> None:
    embedded = decode_embeddings(answer(vectors), len(vectors))

    for numbers, packed in zip(vectors, embedded.vectors, strict=True):
        found = struct.unpack(f"<{len(numbers)}e", packed)
        length = math.hypot(*numbers)
        assert all(abs(a - b / length) < 0.002 for a, b in zip(found, numbers, strict=True))


@given(st.binary(max_size=200) | OTHER_JSON, st.integers(1, 3))
def test_any_other_answer_is_a_fault_of_the_server(raw: bytes, count: int) -> None:
    with pytest.raises(TransientError):
        decode_embeddings(raw, count)


@pytest.mark.parametrize(
    "raw",
    [
        answer([[1.0]]),
        answer([[1.0], [0.0]]),
        answer([[1.0], [math.nan]]),
        answer([[1.0], [1e308] * 3]),
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}',
        b"[" * 100_000,
    ],
)
def test_answers_without_a_usable_vector_for_each_text_are_refused(raw: bytes) -> None:
    with pytest.raises(TransientError):
        decode_embeddings(raw, 2)


@pytest.mark.parametrize("tokens", [None, "7", True, 0, -1, 1.5])
def test_count_of_tokens_that_makes_no_sense_is_not_taken(tokens: object) -> None:
    assert decode_embeddings(answer([[1.0]], tokens), 1).tokens is None


async def test_call_is_recorded_with_its_cost() -> None:
    """Invariant 6."""
    book = Book()

    await MeteredEmbedder(Counted(tokens=1_000_000), book).embed(["a"], unattended=False)

    assert book.entries == [("openai", "text-embedding-3-large", 1_000_000, Decimal("0.13"))]


async def test_tokens_that_are_not_told_are_estimated() -> None:
    book = Book()

    await MeteredEmbedder(Counted(), book).embed(["word " * 100, "word " * 50], unattended=False)

    assert book.entries[0][2] == 130 + 65


async def test_price_is_that_of_the_model_whatever_its_dimensions() -> None:
    book = Book()

    await MeteredEmbedder(Counted(1_000_000, model="text-embedding-3-small@256"), book).embed(["a"], unattended=False)

    assert book.entries == [("openai", "text-embedding-3-small", 1_000_000, Decimal("0.02"))]


async def test_refused_call_is_not_made() -> None:
    """Invariant 6."""
    inner = Counted()

    with pytest.raises(BudgetExceeded):
        await MeteredEmbedder(inner, Book(refuses=True)).embed(["a"], unattended=True)

    assert inner.asked == []


async def test_cancelled_call_counts_too() -> None:
    """Invariant 6."""
    book, inner = Book(), Counted(hangs=True)
    call = asyncio.ensure_future(MeteredEmbedder(inner, book).embed(["word " * 10], unattended=False))
    await inner.reached.wait()

    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    assert [tokens for _, _, tokens, _ in book.entries] == [13]


async def test_queries_used_last_are_kept_and_the_oldest_goes() -> None:
    inner = Counted()
    queries = QueryVectors(MeteredEmbedder(inner, Book()), most=2)

    for query in ("a", "b", "a", "c", "a", "b"):
        await queries.vector(query)

    assert inner.asked == ["a", "b", "c", "b"]


def test_unknown_model_is_not_free() -> None:
    assert embedding_price_of("nomic-embed-text").input > 0
    assert embedding_price_of("openai/text-embedding-3-small") == embedding_price_of("text-embedding-3-small")
