"""When a conversation is shortened, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation.context_monitor import (
    CompactionStrategy,
    Fullness,
    MoveToWorkspace,
    Summarize,
    Truncate,
    suggest_compaction,
)

THRESHOLD = 0.8


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, None),
        (79_999, None),
        (80_000, MoveToWorkspace(10)),
        (85_000, MoveToWorkspace(10)),
        (85_001, Summarize(5)),
        (95_000, Summarize(5)),
        (95_001, Truncate(3)),
        (1_000_000, Truncate(3)),
    ],
)
def test_fuller_contexts_are_cut_harder(tokens: int, expected: CompactionStrategy | None) -> None:
    assert suggest_compaction(Fullness(tokens, 100_000), THRESHOLD) == expected


def test_high_threshold_leaves_out_the_milder_ways() -> None:
    assert suggest_compaction(Fullness(89_999, 100_000), 0.9) is None
    assert suggest_compaction(Fullness(90_000, 100_000), 0.9) == Summarize()


@given(st.integers(0, 3_000), st.integers(0, 3_000), st.integers(1, 2_000), st.floats(0.5, 0.95))
def test_more_tokens_never_keep_more_turns(some: int, more: int, limit: int, threshold: float) -> None:
    few, many = (suggest_compaction(Fullness(tokens, limit), threshold) for tokens in sorted((some, more)))

    if few is not None:
        assert many is not None
        assert many.keep_turns <= few.keep_turns


def test_context_without_a_limit_counts_as_full() -> None:
    assert suggest_compaction(Fullness(1, 0), THRESHOLD) == Truncate()


def test_percent_has_one_decimal() -> None:
    assert Fullness(1_234, 10_000).percent == 12.3
