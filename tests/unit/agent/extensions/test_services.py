from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from agent.credentials.store import CredentialStore
from agent.credentials.vault import MasterKey
from agent.extensions.services import Carrier, HttpCredentials, Injection, ServiceBook
from agent.model.ids import OPERATOR, UserId
from agent.store.credentials import Terms
from agent.store.tables import credentials
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore

ANN = UserId("telegram:5")
KEY = MasterKey(b"k" * 32)
TABLE = str(CreateTable(credentials).compile(dialect=sqlite.dialect()))


def book_of(home: Path, **services: object) -> ServiceBook:
    (home / "services.json").write_text(json.dumps({"services": services}))
    (home / "services.json").chmod(0o600)
    book = ServiceBook(home)
    book.reload()
    return book


class Kept:
    """A credential store beside a book."""

    def __init__(self, book: ServiceBook) -> None:
        self.clock = FakeClock()
        self.vault = CredentialStore(MemoryStore([TABLE]), self.clock, lambda: KEY, book.terms_for)
        self.http = HttpCredentials(book, self.vault)

    async def put(self, name: str, secret: str, user: UserId = ANN) -> None:
        await self.vault.put(user, name, SecretStr(secret))


async def test_key_goes_to_the_hosts_of_its_service_and_to_their_owner_alone(tmp_path: Path) -> None:
    kept = Kept(ServiceBook(tmp_path))
    await kept.put("GitHub", "ghp_x")

    assert await kept.http.injections(ANN, "API.github.com.") == (
        Injection(Carrier.HEADER, "Authorization", SecretStr("Bearer ghp_x")),
    )
    assert await kept.http.injections(OPERATOR, "api.github.com") == ()
    for host in ("github.com", "api.github.com.evil.example", "xapi.github.com", "evil-api.github.com", ""):
        assert await kept.http.injections(ANN, host) == ()
    assert kept.http.knows("api.github.com")
    assert not kept.http.knows("api.github.com.evil.example")


async def test_credential_of_an_unknown_name_or_past_its_time_goes_nowhere(tmp_path: Path) -> None:
    kept = Kept(ServiceBook(tmp_path))
    await kept.put("diary", "x")
    until = kept.clock.now() + timedelta(hours=1)
    await kept.vault.put(ANN, "openai", SecretStr("sk"), Terms("openai", "api.openai.com", until))
    assert len(await kept.http.injections(ANN, "api.openai.com")) == 1
    kept.clock.advance(timedelta(hours=2))

    assert await kept.http.injections(ANN, "api.openai.com") == ()
    assert (await kept.vault.get(ANN, "diary")).terms.host_pattern is None


async def test_hosts_that_are_added_later_do_not_get_an_old_key(tmp_path: Path) -> None:
    book = book_of(tmp_path, wiki={"hosts": ["wiki.example.com"]})
    kept = Kept(book)
    await kept.put("wiki", "secret")
    book_of(tmp_path, wiki={"hosts": ["wiki.example.com", "evil.example.com"]})
    book.reload()

    assert len(await kept.http.injections(ANN, "wiki.example.com")) == 1
    assert await kept.http.injections(ANN, "evil.example.com") == ()
    assert book.claiming("evil.example.com")


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("bearer", (Carrier.HEADER, "Authorization", "Bearer a:b")),
        ("basic", (Carrier.HEADER, "Authorization", "Basic " + base64.b64encode(b"a:b").decode())),
        ("header X-Key", (Carrier.HEADER, "X-Key", "a:b")),
        ("query key", (Carrier.QUERY, "key", "a:b")),
    ],
)
async def test_key_is_carried_as_the_service_wants(
    tmp_path: Path, scheme: str, expected: tuple[Carrier, str, str]
) -> None:
    kept = Kept(book_of(tmp_path, wiki={"hosts": ["*.example.com"], "scheme": scheme}))
    await kept.put("wiki", "a:b")

    (injection,) = await kept.http.injections(ANN, "deep.wiki.example.com")

    assert (injection.carrier, injection.name, injection.value.get_secret_value()) == expected
    assert await kept.http.injections(ANN, "example.com") == ()
    assert "a:b" not in repr(injection)


async def test_key_that_would_begin_another_header_is_not_sent(tmp_path: Path) -> None:
    kept = Kept(ServiceBook(tmp_path))
    await kept.put("github", "x\r\nHost: evil.example")

    assert await kept.http.injections(ANN, "api.github.com") == ()


@pytest.mark.parametrize(
    "entry",
    [
        {"hosts": []},
        {"hosts": ["*"]},
        {"hosts": ["*.com"]},
        {"hosts": ["127.0.0.1"]},
        {"hosts": ["localhost"]},
        {"hosts": ["a.example:8080"]},
        {"hosts": ["https://a.example"]},
        {"hosts": ["a.example b.example"]},
        {"hosts": ["a.example"], "scheme": "header"},
        {"hosts": ["a.example"], "scheme": "header Host"},
        {"hosts": ["a.example"], "scheme": "bearer X"},
        {"hosts": ["a.example"], "scheme": "cookie"},
        {"hosts": ["a.example"], "more": 1},
        5,
    ],
)
def test_entry_with_a_fault_costs_itself_and_says_why(tmp_path: Path, entry: object) -> None:
    book = book_of(tmp_path, bad=entry, good={"hosts": ["good.example.com"]})

    assert [name for name, _ in book.faults] == ["bad"]
    assert book.find("good") is not None
    assert book.find("bad") is None


def test_file_that_others_may_change_is_not_used(tmp_path: Path) -> None:
    book = book_of(tmp_path, wiki={"hosts": ["wiki.example.com"]})
    (tmp_path / "services.json").chmod(0o666)

    book.reload()

    assert book.find("wiki") is None
    assert "chmod 600" in book.faults[0][1]
    assert book.find("github") is not None


def test_entry_of_a_known_name_replaces_that_service(tmp_path: Path) -> None:
    book = book_of(tmp_path, GitLab={"hosts": ["git.example.com"]})

    assert book.claiming("gitlab.com") == ()
    assert [service.name for service in book.claiming("git.example.com")] == ["gitlab"]
