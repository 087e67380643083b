"""The credential store: what was typed goes in, encrypted; it comes out only for the code that sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC

import structlog
from pydantic import SecretStr

from agent.clock import Clock
from agent.credentials.errors import (
    CredentialExpired,
    CredentialMissing,
    CredentialRefused,
    CredentialUnreadable,
)
from agent.credentials.names import CredentialName, credential_name
from agent.credentials.vault import MasterKey, NotAuthentic, Sealed, seal, unseal
from agent.model.ids import UserId
from agent.store import credentials as rows
from agent.store.base import Store
from agent.store.credentials import SealedCredential, Terms

log = structlog.get_logger(__name__)

LONGEST_SECRET = 16_384
"""Characters. Key files of cloud providers have some thousands."""

NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Credential:
    """A decrypted credential, to be used and dropped."""

    name: CredentialName
    secret: SecretStr
    terms: Terms

    def may_be_sent_to(self, host: str) -> bool:
        """Whether `host` matches one of the credential's patterns, which are parted by spaces."""
        return matches_any((self.terms.host_pattern or "").split(), host)


class CredentialStore:
    """Credentials by user and name. Names are folded here; every operation refuses what is no name (CredentialRefused).

    `load_key` may block; it is called once, off the event loop, when the first credential is sealed or opened.
    `terms_for` gives the terms of a credential that comes without: what is known of its name.
    The store's own faults (`StoreError`) pass through.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        load_key: Callable[[], MasterKey],
        terms_for: Callable[[CredentialName], Terms] = lambda name: NO_TERMS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._load_key = load_key
        self._terms_for = terms_for
        self._key: MasterKey | None = None
        self._loading = asyncio.Lock()

    async def seal(self, user: UserId, name: str, secret: SecretStr, terms: Terms | None = None) -> SealedCredential:
        """An encrypted row, for a caller who puts it in a transaction of their own. The secret is trimmed.

        Raises CredentialRefused if it is empty or too long, MasterKeyUnavailable if there is no key.
        """
        folded = credential_name(name)
        plain = secret.get_secret_value().strip()
        if not plain:
            raise CredentialRefused("It was empty.")
        if len(plain) > LONGEST_SECRET:
            raise CredentialRefused(f"It is longer than {LONGEST_SECRET:,} characters.")
        terms = self._terms_for(folded) if terms is None else terms
        key = await self._master_key()
        sealed = await asyncio.to_thread(seal, key, plain, _bound_to(user, folded, terms))
        return SealedCredential(user, folded, terms, sealed.ciphertext, sealed.salt, sealed.nonce)

    async def put(self, user: UserId, name: str, secret: SecretStr, terms: Terms | None = None) -> None:
        """Keep a secret, in place of any of that name; durable when this returns. Raises what `seal` raises."""
        sealed = await self.seal(user, name, secret, terms)
        await self._store.write(lambda tx: rows.put(tx, sealed, self._clock.now()))
        log.info("credential_stored", user=user, name=sealed.name)

    async def get(self, user: UserId, name: str) -> Credential:
        """A person's credential, decrypted.

        Raises CredentialMissing, CredentialExpired, CredentialUnreadable or MasterKeyUnavailable.
        """
        folded = credential_name(name)
        row = await self._store.read(lambda tx: rows.get(tx, user, folded))
        if row is None:
            raise CredentialMissing(folded)
        expires_at = row.terms.expires_at
        if expires_at is not None and expires_at <= self._clock.now():
            raise CredentialExpired(folded, expires_at)
        key = await self._master_key()
        sealed = Sealed(row.ciphertext, row.salt, row.nonce)
        try:
            # Bound to what was asked for, not to what the row says of itself.
            plain = await asyncio.to_thread(unseal, key, sealed, _bound_to(user, folded, row.terms))
        except NotAuthentic as error:
            log.error("credential_unreadable", user=user, name=folded)
            raise CredentialUnreadable(folded) from error
        return Credential(folded, SecretStr(plain), row.terms)

    async def exists(self, user: UserId, name: str) -> bool:
        """Whether one is stored, expired or not. Nothing is decrypted."""
        folded = credential_name(name)
        return await self._store.read(lambda tx: rows.exists(tx, user, folded))

    async def names(self, user: UserId) -> tuple[str, ...]:
        """The names of a person's credentials, in order, expired ones too."""
        return await self._store.read(lambda tx: rows.names(tx, user))

    async def delete(self, user: UserId, name: str) -> bool:
        """Forget a credential; False if there is none of that name."""
        folded = credential_name(name)
        gone = await self._store.write(lambda tx: rows.remove(tx, user, folded))
        if gone:
            log.info("credential_deleted", user=user, name=folded)
        return gone

    async def _master_key(self) -> MasterKey:
        async with self._loading:
            if self._key is None:
                self._key = await asyncio.to_thread(self._load_key)
            return self._key


def _bound_to(user: UserId, name: CredentialName, terms: Terms) -> tuple[str | None, ...]:
    expires_at = None if terms.expires_at is None else terms.expires_at.astimezone(UTC).isoformat()
    return user, name, terms.provider, terms.host_pattern, expires_at


def matches_any(patterns: Iterable[str], host: str) -> bool:
    """Whether `host` is one of `patterns`: the very host, or `*.` and a domain above it. Case does not count."""
    folded = host.casefold().rstrip(".")
    return any(_matches(pattern.casefold(), folded) for pattern in patterns)


def _matches(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) >= len(pattern)
    return bool(host) and host == pattern
