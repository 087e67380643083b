"""One order out of two: reciprocal rank fusion of what was found by words and by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Reciprocal rank fusion with its usual constant (Cormack, Clarke and Büttcher, SIGIR 2009).
RANK_OFFSET = 60


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage and where it stood; ranks count from 1, None where it was not found. `score` is at most 1.0."""

    passage: int
    score: float
    word_rank: int | None
    vector_rank: int | None


def fuse(by_words: Sequence[int], by_vectors: Sequence[int]) -> tuple[Fused, ...]:
    """All passages of both lists, best first: the sum of 1 / (60 + rank), divided by the greatest such sum.

    Each list stands in its own order, without repetitions. Of equals the one found by words comes first, then the lower
    number.
    """
    word_ranks = {passage: rank for rank, passage in enumerate(by_words, start=1)}
    vector_ranks = {passage: rank for rank, passage in enumerate(by_vectors, start=1)}
    sums = {
        passage: _share(word_ranks.get(passage)) + _share(vector_ranks.get(passage))
        for passage in (*word_ranks, *vector_ranks)
    }
    best = max(sums.values(), default=1.0)
    order = sorted(sums, key=lambda passage: (-sums[passage], word_ranks.get(passage, len(sums) + 1), passage))
    return tuple(
        Fused(passage, sums[passage] / best, word_ranks.get(passage), vector_ranks.get(passage)) for passage in order
    )


def _share(rank: int | None) -> float:
    return 0.0 if rank is None else 1 / (RANK_OFFSET + rank)
