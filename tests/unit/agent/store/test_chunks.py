from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.store.chunks import affordable

COUNTS = st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 5000), max_size=10)


def test_words_that_are_everywhere_are_left_out_where_rarer_ones_are_asked_for() -> None:
    assert affordable({"the": 9000, "dentist": 3, "of": 4000, "tuesday": 40}, 2000) == ("dentist", "tuesday")


def test_the_rarest_word_is_looked_for_whatever_it_costs() -> None:
    assert affordable({"the": 9000, "of": 4000}, 2000) == ("of",)


@given(COUNTS, st.integers(0, 10_000))
def test_no_word_that_is_left_out_is_rarer_than_one_that_is_taken(counts: dict[str, int], most: int) -> None:
    chosen = affordable(counts, most)

    left_out = [counts[word] for word in counts if word not in chosen and counts[word]]
    assert all(counts[word] <= min(left_out, default=counts[word]) for word in chosen)
    assert bool(chosen) == any(counts.values())
    assert len(chosen) <= 1 or sum(counts[word] for word in chosen) <= most
