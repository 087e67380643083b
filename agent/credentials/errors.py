"""What can go wrong with a credential.

CredentialError
├── CredentialRefused      the name or the secret is not acceptable: ask again
├── CredentialMissing      nothing is stored under the name: ask for it
├── CredentialExpired      it is stored, but its time is over: ask for a new one
├── CredentialUnreadable   it cannot be decrypted, the key or the row was changed: ask for it again
└── MasterKeyUnavailable   nothing can be stored or read until the operator acts

Messages are written for people and for the model. They name credentials, never a part of a secret or of a key.
"""

from __future__ import annotations

from datetime import datetime


class CredentialError(Exception):
    """Base of the faults of credentials."""


class CredentialRefused(CredentialError):
    """A name or a secret that cannot be kept. Nothing was stored."""


class CredentialMissing(CredentialError):
    """Nothing is stored under the name for this person."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No credential {name!r} is stored.")
        self.name = name


class CredentialExpired(CredentialError):
    """The credential's time is over."""

    def __init__(self, name: str, expired_at: datetime) -> None:
        super().__init__(f"The credential {name!r} expired at {expired_at:%Y-%m-%d %H:%M} UTC. Enter a new one.")
        self.name = name
        self.expired_at = expired_at


class CredentialUnreadable(CredentialError):
    """The stored bytes do not open with the present master key, or belong to another row."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The credential {name!r} cannot be decrypted: the master key or the stored record was changed. "
            "Enter it again, or bring back the former key."
        )
        self.name = name


class MasterKeyUnavailable(CredentialError):
    """There is no usable master key; the message tells the operator what to do."""
