from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from channels.chunking import Span, SpanText, split_spans, split_text, utf16_len

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
pieces = st.lists(
    st.sampled_from(
        [
            "word ",
            "x" * 30,
            "\n",
            "\n\n",
            "```py\n",
            "\n```\n",
            "~~~\n",
            "`",
            "Done. ",
            FAMILY,
            "🇩🇪",
            "e\u0301",
            "  ",
            "\t",
            "ж",
        ]
    )
    | st.text(max_size=20),
    max_size=60,
).map("".join)


def is_subsequence(text: str, whole: str) -> bool:
    letters = iter(whole)
    return all(letter in letters for letter in text)


def test_text_that_fits_is_one_part() -> None:
    assert split_text("hello", 5) == ("hello",)


@pytest.mark.parametrize("text", ["", " \n\n ", "\t" * 50])
def test_blank_text_gives_no_part(text: str) -> None:
    assert split_text(text, 10) == ()


def test_cut_prefers_paragraph_over_line() -> None:
    assert split_text("one two\n\nthree\nfour five", 20) == ("one two", "three\nfour five")


def test_cut_prefers_line_over_sentence() -> None:
    assert split_text("First one. Second\nthird words", 24) == ("First one. Second", "third words")


def test_cut_prefers_sentence_over_word() -> None:
    assert split_text("First one here. Second two", 22) == ("First one here.", "Second two")


def test_cut_falls_between_words() -> None:
    assert split_text("alpha beta gamma", 12) == ("alpha beta", "gamma")


def test_word_longer_than_limit_is_cut_hard() -> None:
    assert split_text("a" * 25, 10) == ("a" * 10, "a" * 10, "a" * 5)


def test_indentation_of_next_line_survives_cut() -> None:
    assert split_text("- first item\n  - second item", 18) == ("- first item", "  - second item")


def test_cut_fence_is_closed_and_opened_again_with_its_language() -> None:
    body = "\n".join(f"line {number}" for number in range(8))

    parts = split_text(f"```python\n{body}\n```", 50)

    assert len(parts) > 1
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in parts)
    assert "\n".join(part.removeprefix("```python\n").removesuffix("\n```") for part in parts) == body


def test_one_enormous_line_in_fence_is_cut_in_every_part() -> None:
    parts = split_text("```text\n" + "a" * 9000 + "\n```", 2000)

    assert [part.startswith("```text\n") and part.endswith("\n```") for part in parts] == [True] * 5
    assert sum(part.count("a") for part in parts) == 9000


def test_fence_that_fits_into_next_part_is_not_cut() -> None:
    text = "words " * 10 + "\n\n```\n" + "c\n" * 15 + "```"

    first, second = split_text(text, 80)

    assert "```" not in first
    assert second.startswith("```\n")


def test_fence_is_not_opened_at_the_end_of_a_part() -> None:
    first, second, *_ = split_text("a short intro here\n```python\n" + "x" * 200 + "\n```", 60)

    assert first == "a short intro here"
    assert second.startswith("```python\nxxx")


def test_blank_rest_of_a_fence_makes_no_part() -> None:
    parts = split_text("```\n" + "code\n" * 8 + "\n" * 20 + "```", 50)

    assert all("code" in part for part in parts)


def test_no_empty_fence_is_left_at_a_border() -> None:
    text = "intro words here that fill the part\n```python\n" + "code line\n" * 5 + "```\nafter"

    for limit in range(30, 70):
        for part in split_text(text, limit):
            assert re.sub(r"```\w*", "", part).strip()


@pytest.mark.parametrize(
    "sequence", [FAMILY, "👍🏽", "🇩🇪", "e\u0301", "❤\ufe0f", "🏴\U000e0067\U000e0062\U000e007f", "한"]
)
def test_character_of_several_code_points_is_not_cut(sequence: str) -> None:
    limit = 3 * utf16_len(sequence) - 1

    parts = split_text(sequence * 20, limit, measure=utf16_len)

    assert "".join(parts) == sequence * 20
    assert all(len(part) % len(sequence) == 0 for part in parts)


def test_surrogates_given_one_by_one_stay_together() -> None:
    pair = "\ud83d\ude00"

    assert split_text(pair * 3, 3) == (pair,) * 3


def test_emoji_before_the_limit_is_not_halved() -> None:
    text = "word 😀 " * 860

    parts = split_text(text, 4000, measure=utf16_len)

    assert all(utf16_len(part) <= 4000 for part in parts)
    assert " ".join(parts) == text.strip()


@example("```" + "\n" * 100 + "```", 20)
@example("````\n```\n" + "b" * 50 + "\n````", 24)
@example("x\n```" + "i" * 40 + "\ncode\n```", 30)
@given(pieces, st.integers(16, 60))
def test_parts_respect_the_limit_and_lose_nothing(text: str, limit: int) -> None:
    parts = split_text(text, limit, measure=utf16_len)

    assert all(part.strip() for part in parts)
    assert all(utf16_len(part) <= limit for part in parts)
    assert is_subsequence(re.sub(r"[\s`~]", "", text), "".join(parts))
    if not re.search("```|~~~", text):
        assert "".join("".join(parts).split()) == "".join(text.split())


@given(st.text(alphabet="ab😀 \n", max_size=300), st.integers(2, 30))
def test_span_parts_respect_the_limit_and_keep_every_styled_character(text: str, limit: int) -> None:
    spans = tuple(Span(i, i + 3, "bold") for i in range(0, max(0, len(text) - 3), 7))

    parts = split_spans(SpanText(text, spans), limit)

    assert all(utf16_len(part.text) <= limit and part.text.strip() for part in parts)
    assert "".join("".join(part.text for part in parts).split()) == "".join(text.split())
    styled = "".join(part.text[span.start : span.end] for part in parts for span in part.spans)
    assert "".join(styled.split()) == "".join("".join(text[s.start : s.end] for s in spans).split())
    assert all(0 <= span.start < span.end <= len(part.text) for part in parts for span in part.spans)


def test_kept_span_moves_whole_into_the_next_part() -> None:
    text = "intro line here\n" + "code\n" * 4
    span = Span(16, len(text), "pre")

    first, second = split_spans(SpanText(text, (span,)), 24, keep=lambda style: style == "pre")

    assert first.text == "intro line here"
    assert second.spans == (Span(0, len(second.text), "pre"),)


def test_hostile_text_is_split_in_linear_time() -> None:
    text = ("```\n" * 20_000) + "🇩" * 20_000 + "\n" * 50_000

    assert all(len(part) <= 2000 for part in split_text(text, 2000))
