from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import ConfigError
from config.settings import EmbeddingProvider
from tests.support.settings import make_settings


def faults(home: Path, **variables: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        make_settings(home, variables)
    return {fault.name: fault.problem for fault in caught.value.faults}


def test_search_by_meaning_is_off_until_it_is_asked_for(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, {"OPENAI_API_KEY": "sk-x"})

    assert settings.memory.embedding_provider is EmbeddingProvider.OFF


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_BASE_URL", "MEMORY_EMBEDDING_BASE_URL"])
def test_any_server_that_is_known_will_do(tmp_path: Path, name: str) -> None:
    settings = make_settings(tmp_path, {"MEMORY_EMBEDDING_PROVIDER": "OpenAI", name: "http://127.0.0.1:11434/v1"})

    assert settings.memory.embedding_provider is EmbeddingProvider.OPENAI


def test_provider_without_a_server_is_refused_and_says_what_is_missing(tmp_path: Path) -> None:
    (problem,) = faults(tmp_path, MEMORY_EMBEDDING_PROVIDER="openai").values()

    assert "OPENAI_API_KEY, OPENAI_BASE_URL or MEMORY_EMBEDDING_BASE_URL" in problem


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        MEMORY_EMBEDDING_PROVIDER="pinecone",
        MEMORY_EMBEDDING_DIMENSIONS="0",
        MEMORY_EMBEDDING_BASE_URL="ftp://x",
    )

    assert found.keys() == {
        "MEMORY_EMBEDDING_PROVIDER",
        "MEMORY_EMBEDDING_DIMENSIONS",
        "MEMORY_EMBEDDING_BASE_URL",
    }
    assert "off, openai" in found["MEMORY_EMBEDDING_PROVIDER"]


def test_file_names_them_in_a_section_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[memory]\nembedding_provider = "openai"\nembedding_model = "nomic-embed-text"\n'
        'embedding_base_url = "http://127.0.0.1:11434/v1"\n[memory_hygiene]\ndaily_retention_days = 3\n'
    )
    (tmp_path / "config.toml").chmod(0o600)

    settings = make_settings(tmp_path)

    assert settings.memory.embedding_model == "nomic-embed-text"
    assert settings.memory_hygiene.daily_retention_days == 3
