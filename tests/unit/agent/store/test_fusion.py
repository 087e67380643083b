from __future__ import annotations

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from agent.store.fusion import fuse

RANKS = st.lists(st.integers(1, 80), unique=True, max_size=50)


def test_score_is_the_sum_of_reciprocal_ranks_divided_by_the_greatest() -> None:
    first, second, third = fuse([7, 8], [8, 9])

    best = 1 / 62 + 1 / 61
    assert (first.passage, first.score, first.word_rank, first.vector_rank) == (8, 1.0, 2, 1)
    assert second.passage == 7
    assert isclose(second.score, (1 / 61) / best)
    assert third.passage == 9
    assert isclose(third.score, (1 / 62) / best)


def test_of_equals_the_one_found_by_words_comes_first() -> None:
    assert [fused.passage for fused in fuse([9], [3])] == [9, 3]


def test_nothing_found_is_nothing_fused() -> None:
    assert fuse([], []) == ()


@given(RANKS, RANKS)
def test_everything_found_is_there_once_with_its_ranks(words: list[int], vectors: list[int]) -> None:
    fused = fuse(words, vectors)

    assert sorted(each.passage for each in fused) == sorted({*words, *vectors})
    for each in fused:
        assert each.word_rank == (words.index(each.passage) + 1 if each.passage in words else None)
        assert each.vector_rank == (vectors.index(each.passage) + 1 if each.passage in vectors else None)


@given(RANKS, RANKS)
def test_scores_fall_from_one_and_stay_above_nothing(words: list[int], vectors: list[int]) -> None:
    scores = [each.score for each in fuse(words, vectors)]

    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert scores[:1] in ([], [1.0])


@given(RANKS)
def test_one_list_alone_keeps_its_order(ranks: list[int]) -> None:
    assert [each.passage for each in fuse(ranks, [])] == ranks
    assert [each.passage for each in fuse([], ranks)] == ranks


@given(RANKS, RANKS)
def test_better_in_both_lists_is_never_behind(words: list[int], vectors: list[int]) -> None:
    order = [each.passage for each in fuse(words, vectors)]
    both = [passage for passage in words if passage in vectors]

    for better in both:
        for worse in both:
            if words.index(better) < words.index(worse) and vectors.index(better) < vectors.index(worse):
                assert order.index(better) < order.index(worse)
