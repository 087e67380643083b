"""What the credential store promises on a real database: secrets by person and name, and nothing of them in clear."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from agent.credentials.errors import (
    CredentialError,
    CredentialExpired,
    CredentialMissing,
    CredentialRefused,
    CredentialUnreadable,
    MasterKeyUnavailable,
)
from agent.credentials.store import LONGEST_SECRET, NO_TERMS, Credential, CredentialStore
from agent.credentials.vault import MasterKey
from agent.model.ids import ThreadId, UserId
from agent.store import conversations
from agent.store import credentials as rows
from agent.store.base import Transaction
from agent.store.credentials import AUTH_TTL, SealedCredential, Terms
from agent.store.errors import StoreUnavailable
from agent.store.open import DATABASE_NAME, open_store
from agent.store.sqlite import SqliteStore
from channels.message import Address, ChatType, ConversationKey
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock

ANN, BOB = UserId("telegram:5"), UserId("telegram:6")
CANARY = "canary-8f14e45fceea167a5a36dedd4bea2543"
KEY = MasterKey(b"master-key-material-of-the-tests!")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def credentials(store: SqliteStore, clock: FakeClock) -> CredentialStore:
    return CredentialStore(store, clock, lambda: KEY)


async def secret_of(credentials: CredentialStore, user: UserId, name: str) -> str:
    return (await credentials.get(user, name)).secret.get_secret_value()


# -- keeping ---------------------------------------------------------------------------------------------------
async def test_stored_secret_is_given_to_its_owner_under_any_spelling_of_the_name(credentials: CredentialStore) -> None:
    await credentials.put(ANN, "GitHub", SecretStr(f"  {CANARY}\n"))

    assert await secret_of(credentials, ANN, "github") == CANARY
    assert await secret_of(credentials, ANN, " GITHUB ") == CANARY
    assert await credentials.exists(ANN, "gitHub")


async def test_people_do_not_see_each_others_credentials(credentials: CredentialStore) -> None:
    await credentials.put(ANN, "github", SecretStr(CANARY))
    await credentials.put(BOB, "github", SecretStr("of bob"))

    assert await secret_of(credentials, BOB, "github") == "of bob"
    assert await credentials.delete(BOB, "github")
    assert await credentials.names(BOB) == ()
    assert not await credentials.exists(BOB, "github")
    assert await secret_of(credentials, ANN, "github") == CANARY


async def test_secret_and_terms_outlive_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    terms = Terms("oauth", "*.example.com", NOON + timedelta(days=1, microseconds=1))
    first = open_store(tmp_path)
    await CredentialStore(first, clock, lambda: KEY).put(ANN, "x", SecretStr(CANARY), terms)
    await first.close()

    second = open_store(tmp_path)
    found = await CredentialStore(second, clock, lambda: KEY).get(ANN, "x")
    await second.close()

    assert (found.name, found.secret.get_secret_value(), found.terms) == ("x", CANARY, terms)


async def test_second_secret_replaces_the_first_with_all_its_terms(
    credentials: CredentialStore, store: SqliteStore, clock: FakeClock, tmp_path: Path
) -> None:
    await credentials.put(ANN, "x", SecretStr("old"), Terms("oauth", "a.example", NOON + timedelta(hours=1)))
    clock.advance(timedelta(hours=2))
    await credentials.put(ANN, "x", SecretStr("new"))

    found = await credentials.get(ANN, "x")
    with sqlite3.connect(tmp_path / DATABASE_NAME) as database:
        dates = database.execute("SELECT updated_at - created_at FROM credentials").fetchall()
    database.close()

    assert (found.secret.get_secret_value(), found.terms) == ("new", NO_TERMS)
    assert dates == [(7_200_000_000,)]


async def test_names_are_listed_in_order_and_deleting_twice_is_told(credentials: CredentialStore) -> None:
    for name in ("slack", "GitHub", "mail"):
        await credentials.put(ANN, name, SecretStr(CANARY))

    assert await credentials.names(ANN) == ("github", "mail", "slack")
    assert await credentials.delete(ANN, "GITHUB")
    assert not await credentials.delete(ANN, "github")
    assert await credentials.names(ANN) == ("mail", "slack")
    with pytest.raises(CredentialMissing):
        await credentials.get(ANN, "github")


async def test_credential_ends_with_its_time_and_is_listed_still(
    credentials: CredentialStore, clock: FakeClock
) -> None:
    await credentials.put(ANN, "x", SecretStr(CANARY), Terms(expires_at=NOON + timedelta(minutes=1)))
    clock.advance(timedelta(seconds=59))
    assert await secret_of(credentials, ANN, "x") == CANARY

    clock.advance(timedelta(seconds=1))
    with pytest.raises(CredentialExpired, match="2026-03-02 12:01 UTC"):
        await credentials.get(ANN, "x")

    assert await credentials.names(ANN) == ("x",)


@pytest.mark.parametrize("secret", ["", " \n\t", "x" * (LONGEST_SECRET + 1)])
async def test_empty_and_endless_secrets_are_refused_and_the_stored_one_stays(
    credentials: CredentialStore, secret: str
) -> None:
    await credentials.put(ANN, "x", SecretStr(CANARY))

    with pytest.raises(CredentialRefused):
        await credentials.put(ANN, "x", SecretStr(secret))

    assert await secret_of(credentials, ANN, "x") == CANARY


async def test_sealed_credential_is_kept_together_with_the_callers_other_changes(
    credentials: CredentialStore, store: SqliteStore, thread: ThreadId
) -> None:
    await store.write(lambda tx: rows.await_secret(tx, thread, "x", ANN, NOON))
    sealed = await credentials.seal(ANN, "x", SecretStr(CANARY))
    assert not await credentials.exists(ANN, "x")

    def both(tx: Transaction) -> None:
        assert rows.cancel(tx, thread)
        rows.put(tx, sealed, NOON)

    await store.write(both)

    assert await secret_of(credentials, ANN, "x") == CANARY
    assert await store.read(lambda tx: rows.awaited(tx, thread)) is None


# -- where it may go -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "host", "may"),
    [
        (None, "api.github.com", False),
        ("", "", False),
        ("", "api.github.com", False),
        ("api.github.com", "api.github.com", True),
        ("API.github.com", "api.GitHub.com.", True),
        ("api.github.com", "github.com", False),
        ("api.github.com", "api.github.com.evil.net", False),
        ("*.github.com", "api.github.com", True),
        ("*.github.com", "a.b.github.com", True),
        ("*.github.com", "github.com", False),
        ("*.github.com", ".github.com", False),
        ("*.github.com", "evilgithub.com", False),
        ("*", "evil.net", False),
    ],
)
async def test_credential_goes_only_where_its_pattern_says(
    credentials: CredentialStore, pattern: str | None, host: str, may: bool
) -> None:
    await credentials.put(ANN, "x", SecretStr(CANARY), Terms(host_pattern=pattern))

    assert (await credentials.get(ANN, "x")).may_be_sent_to(host) is may


# -- somebody at the database ----------------------------------------------------------------------------------
async def stored(store: SqliteStore, user: UserId, name: str) -> SealedCredential:
    found = await store.read(lambda tx: rows.get(tx, user, name))
    assert found is not None
    return found


TERMS = Terms("oauth", "api.example", NOON + timedelta(hours=1))
CHANGES = {
    "ciphertext": lambda row: replace(row, ciphertext=row.ciphertext[:-1] + bytes([row.ciphertext[-1] ^ 1])),
    "salt": lambda row: replace(row, salt=bytes(32)),
    "nonce": lambda row: replace(row, nonce=bytes(12)),
    "cut": lambda row: replace(row, ciphertext=b""),
    "provider": lambda row: replace(row, terms=replace(TERMS, provider=None)),
    "host": lambda row: replace(row, terms=replace(TERMS, host_pattern="evil.net")),
    "expiry": lambda row: replace(row, terms=replace(TERMS, expires_at=NOON + timedelta(days=999))),
    "no expiry": lambda row: replace(row, terms=replace(TERMS, expires_at=None)),
}


@pytest.mark.parametrize("field", CHANGES)
async def test_row_that_was_changed_in_any_field_is_unreadable(
    credentials: CredentialStore, store: SqliteStore, field: str
) -> None:
    await credentials.put(ANN, "x", SecretStr(CANARY), TERMS)
    changed = CHANGES[field](await stored(store, ANN, "x"))
    await store.write(lambda tx: rows.put(tx, changed, NOON))

    with pytest.raises(CredentialUnreadable) as refused:
        await credentials.get(ANN, "x")

    assert CANARY not in f"{refused.value}{refused.value.__cause__!r}"


@pytest.mark.parametrize(("user", "name"), [(BOB, "github"), (ANN, "gitlab")])
async def test_row_that_was_moved_to_another_person_or_name_is_unreadable(
    credentials: CredentialStore, store: SqliteStore, user: UserId, name: str
) -> None:
    await credentials.put(ANN, "github", SecretStr(CANARY))
    moved = replace(await stored(store, ANN, "github"), user=user, name=name)
    await store.write(lambda tx: rows.put(tx, moved, NOON))

    with pytest.raises(CredentialUnreadable):
        await credentials.get(user, name)
    assert await secret_of(credentials, ANN, "github") == CANARY


async def test_with_another_master_key_old_credentials_are_unreadable_and_new_ones_work(
    credentials: CredentialStore, store: SqliteStore, clock: FakeClock
) -> None:
    await credentials.put(ANN, "old", SecretStr(CANARY))
    changed = CredentialStore(store, clock, lambda: MasterKey(b"x" * 32))

    with pytest.raises(CredentialUnreadable, match="Enter it again"):
        await changed.get(ANN, "old")
    await changed.put(ANN, "new", SecretStr(CANARY))

    assert await secret_of(changed, ANN, "new") == CANARY
    assert await changed.names(ANN) == ("new", "old")
    assert await changed.delete(ANN, "old")


# -- the master key --------------------------------------------------------------------------------------------
class Keys:
    """Gives the master key, off the event loop, and counts how often; first it fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls: list[threading.Thread] = []

    def __call__(self) -> MasterKey:
        self.calls.append(threading.current_thread())
        if len(self.calls) <= self.failures:
            raise MasterKeyUnavailable("it is locked")
        return KEY


async def test_key_is_loaded_once_at_first_need_and_off_the_event_loop(store: SqliteStore, clock: FakeClock) -> None:
    keys = Keys()
    credentials = CredentialStore(store, clock, keys)
    await credentials.names(ANN)
    await credentials.exists(ANN, "x")
    assert keys.calls == []

    await asyncio.gather(*(credentials.put(ANN, f"n{number}", SecretStr(CANARY)) for number in range(5)))

    assert len(keys.calls) == 1
    assert keys.calls[0] is not threading.main_thread()


async def test_key_that_was_unavailable_is_asked_for_again_without_a_restart(
    store: SqliteStore, clock: FakeClock
) -> None:
    credentials = CredentialStore(store, clock, Keys(failures=1))

    with pytest.raises(MasterKeyUnavailable):
        await credentials.put(ANN, "x", SecretStr(CANARY))
    assert await credentials.names(ANN) == ()
    await credentials.put(ANN, "x", SecretStr(CANARY))

    assert await secret_of(credentials, ANN, "x") == CANARY


# -- nothing in clear ------------------------------------------------------------------------------------------
def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forms(secret: str) -> list[bytes]:
    raw = secret.encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw)[:-4], secret.encode("utf-16-le"), raw[::-1]]


async def test_secret_is_in_no_file_log_or_text_of_any_object(
    credentials: CredentialStore, store: SqliteStore, tmp_path: Path
) -> None:
    """Invariant 2: a secret that was asked for is stored nowhere but the credential store, and there not in clear."""
    shown: list[object] = []
    with capture_logs() as logs:
        sealed = await credentials.seal(ANN, "x", SecretStr(CANARY))
        await credentials.put(ANN, "x", SecretStr(CANARY), TERMS)
        await credentials.put(ANN, "x", SecretStr(CANARY))
        found = await credentials.get(ANN, "x")
        shown += [credentials, vars(credentials), sealed, found, found.secret, await stored(store, ANN, "x")]
        await store.write(lambda tx: tx.connection.exec_driver_sql("PRAGMA query_only = ON") and None)
        with pytest.raises(StoreUnavailable) as refused:
            await credentials.put(ANN, "y", SecretStr(CANARY))
        shown += [refused.value, refused.value.__cause__]
        with pytest.raises(CredentialError) as wrong_name:
            await credentials.put(ANN, "@", SecretStr(CANARY))
        shown.append(wrong_name.value)
        await credentials.names(ANN)
    assert isinstance(found, Credential)
    assert found.secret.get_secret_value() == CANARY

    text = " ".join(f"{value!r} {value}" for value in shown) + str(logs)
    assert CANARY not in text
    assert "master-key-material" not in text
    contents = files_of(tmp_path)
    assert set(contents) >= {DATABASE_NAME, f"{DATABASE_NAME}-wal"}
    for content in contents.values():
        assert [form for form in forms(CANARY) if form in content] == []


async def test_stored_and_deleted_credentials_are_named_in_the_log(credentials: CredentialStore) -> None:
    with capture_logs() as logs:
        await credentials.put(ANN, "GitHub", SecretStr(CANARY))
        await credentials.delete(ANN, "github")
        await credentials.delete(ANN, "github")

    assert [(entry["event"], entry["name"], entry["user"]) for entry in logs] == [
        ("credential_stored", "github", ANN),
        ("credential_deleted", "github", ANN),
    ]


# -- threads that wait for a secret ----------------------------------------------------------------------------
@pytest.fixture
async def thread(store: SqliteStore) -> ThreadId:
    key = ConversationKey(ANN, "telegram", "5")
    address = Address(channel="telegram", chat_id="5")
    return await store.write(lambda tx: conversations.resolve(tx, key, address, ChatType.PRIVATE, NOON).id)


async def test_thread_waits_for_the_secret_across_a_restart(tmp_path: Path) -> None:
    key = ConversationKey(ANN, "telegram", "5")
    address = Address(channel="telegram", chat_id="5")
    first = open_store(tmp_path)
    thread = await first.write(lambda tx: conversations.resolve(tx, key, address, ChatType.PRIVATE, NOON).id)
    await first.write(lambda tx: rows.await_secret(tx, thread, "github", ANN, NOON))
    await first.close()

    second = open_store(tmp_path)
    pending = await second.read(lambda tx: rows.awaited(tx, thread))
    await second.close()

    assert pending is not None
    assert (pending.thread, pending.name, pending.user) == (thread, "github", ANN)
    assert (pending.created_at, pending.expires_at) == (NOON, NOON + timedelta(seconds=300))


async def test_wait_that_is_over_is_told_apart_so_that_a_late_secret_is_not_chat(
    store: SqliteStore, thread: ThreadId
) -> None:
    await store.write(lambda tx: rows.await_secret(tx, thread, "github", ANN, NOON))

    pending = await store.read(lambda tx: rows.awaited(tx, thread))

    assert pending is not None
    assert not pending.is_expired(NOON + AUTH_TTL - timedelta(microseconds=1))
    assert pending.is_expired(NOON + AUTH_TTL)


async def test_later_request_takes_the_place_of_the_earlier_one(store: SqliteStore, thread: ThreadId) -> None:
    await store.write(lambda tx: rows.await_secret(tx, thread, "github", ANN, NOON))
    later = NOON + timedelta(minutes=1)
    await store.write(lambda tx: rows.await_secret(tx, thread, "slack", ANN, later))

    pending = await store.read(lambda tx: rows.awaited(tx, thread))

    assert pending is not None
    assert (pending.name, pending.expires_at) == ("slack", later + AUTH_TTL)


async def test_cancelled_wait_is_over_and_a_second_cancel_is_told(store: SqliteStore, thread: ThreadId) -> None:
    await store.write(lambda tx: rows.await_secret(tx, thread, "github", ANN, NOON))

    assert await store.write(lambda tx: rows.cancel(tx, thread))
    assert await store.read(lambda tx: rows.awaited(tx, thread)) is None
    assert not await store.write(lambda tx: rows.cancel(tx, thread))
