from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from config.masking import SHORTEST_SECRET, mask_pattern, mask_shapes, secret_values
from tests.support.settings import make_settings


def test_secret_values_are_all_secrets_of_the_settings_and_passwords_inside_them(tmp_path: Path) -> None:
    settings = make_settings(
        tmp_path,
        {
            "TELEGRAM_BOT_TOKEN": "1:a",
            "OPENAI_API_KEY": "key",
            "WEB_TOKEN": "door",
            "DATABASE_URL": "postgresql://u:hunter2@host/x",
            "LLM_MODEL": "public",
        },
    )

    assert sorted(secret_values(settings)) == ["1:a", "door", "hunter2", "key", "postgresql://u:hunter2@host/x"]


def test_without_secrets_worth_hiding_there_is_no_pattern() -> None:
    assert mask_pattern(["", "short"]) is None


def test_secret_that_begins_with_another_is_masked_whole() -> None:
    pattern = mask_pattern(["abcdefgh", "abcdefgh-and-more"])

    assert pattern is not None
    assert pattern.sub("*", "x abcdefgh-and-more y abcdefgh z") == "x * y * z"


@given(st.text(st.characters(codec="utf-8"), min_size=SHORTEST_SECRET, max_size=30), st.text(max_size=10))
def test_known_secret_is_found_inside_any_text(secret: str, around: str) -> None:
    pattern = mask_pattern([secret])

    assert pattern is not None
    assert pattern.search(f"{around}{secret}{around}")


@given(st.text())
def test_masking_shapes_twice_changes_nothing_more(text: str) -> None:
    once = mask_shapes(text)

    assert mask_shapes(once) == once
