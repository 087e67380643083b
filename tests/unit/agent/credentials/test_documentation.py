from __future__ import annotations

from pathlib import Path

import pytest

from agent.credentials import wording
from agent.credentials.errors import CredentialError, CredentialUnreadable, MasterKeyUnavailable
from agent.credentials.keys import KEY_FILE, load_master_key
from agent.extensions.catalogue import WELL_KNOWN
from agent.extensions.services import ServiceBook

PAGE = (Path(__file__).parents[4] / "docs" / "credentials.md").read_text(encoding="utf-8")


def test_page_shows_what_the_bot_says() -> None:
    hosts = "api.github.com and uploads.github.com"
    assert f"bot: {wording.instructions('github', goes_to=hosts)}\n" in PAGE
    assert f"bot: {wording.stored('github')}\n" in PAGE


def test_page_lists_the_services_of_the_catalogue_and_a_file_that_works(tmp_path: Path) -> None:
    for service in WELL_KNOWN:
        hosts = ", ".join(f"`{host}`" for host in service.hosts)
        scheme = f"header `{service.field}`" if service.field else service.scheme.value
        assert f"| `{service.name}` | {hosts} | {scheme} |\n" in PAGE
    book = ServiceBook(tmp_path)
    (tmp_path / "services.json").write_text(PAGE.partition("```json\n")[2].partition("```")[0])
    (tmp_path / "services.json").chmod(0o600)

    book.reload()

    assert book.faults == ()
    assert [service.name for service in book.claiming("a.wiki.example.com")] == ["wiki"]


def test_page_explains_the_errors_that_are_shown(tmp_path: Path) -> None:
    errors: list[CredentialError] = [CredentialUnreadable("github")]
    for content, mode in ((b"no key", 0o600), (b"keychain:x", 0o600), (b"", 0o644)):
        path = tmp_path / KEY_FILE
        path.write_bytes(content)
        path.chmod(mode)
        with pytest.raises(MasterKeyUnavailable) as refused:
            load_master_key(None, tmp_path, None)
        errors.append(refused.value)

    table = PAGE[PAGE.index("## If something is wrong") :]
    phrases = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]

    assert len(phrases) == len(errors)
    for error in errors:
        assert len([phrase for phrase in phrases if phrase in str(error)]) == 1


def test_late_and_failed_credentials_are_answered_with_what_to_do_next() -> None:
    assert wording.instructions("github") in wording.failed("github", "It was empty.")
    assert "It was empty." in wording.failed("github", "It was empty.")
    assert "neither stored nor read" in wording.expired("github")
