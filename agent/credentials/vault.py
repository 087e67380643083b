"""Encryption of one secret: AES-256-GCM under a key that HKDF-SHA256 derives from the master key and a fresh salt.

The record's other fields are authenticated with it: a secret that was moved to another person, name or host does not
open. The library loads inside the functions: it costs memory that a process without credentials does not need.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

SHORTEST_MASTER_KEY = 32
_SALT_BYTES = 32  # RFC 5869, 3.1: as long as the hash
_NONCE_BYTES = 12  # NIST SP 800-38D, 8.2: 96 bits
_KEY_BYTES = 32
_PURPOSE = b"optimclaw credential 1"


class NotAuthentic(Exception):
    """The bytes were not sealed with this key for this record."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """What every credential's key is derived from; at least 32 bytes."""

    material: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.material) < SHORTEST_MASTER_KEY:
            raise ValueError(f"a master key has at least {SHORTEST_MASTER_KEY} bytes")


@dataclass(frozen=True, slots=True)
class Sealed:
    """An encrypted secret and what else is needed to open it, but for the key. The tag is part of the ciphertext."""

    ciphertext: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)


def seal(key: MasterKey, secret: str, bound_to: Sequence[str | None]) -> Sealed:
    """`secret` encrypted. It opens only with the same key and the same `bound_to`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)
    # Lone surrogates pass: the error that refuses them would carry the secret.
    plain = secret.encode("utf-8", "surrogatepass")
    return Sealed(AESGCM(_derived(key, salt)).encrypt(nonce, plain, _associated(bound_to)), salt, nonce)


def unseal(key: MasterKey, sealed: Sealed, bound_to: Sequence[str | None]) -> str:
    """The secret again. Raises NotAuthentic if anything differs from when it was sealed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(sealed.nonce) != _NONCE_BYTES or len(sealed.salt) != _SALT_BYTES:
        raise NotAuthentic
    try:
        plain = AESGCM(_derived(key, sealed.salt)).decrypt(sealed.nonce, sealed.ciphertext, _associated(bound_to))
    except InvalidTag as error:
        raise NotAuthentic from error
    return plain.decode("utf-8", "surrogatepass")


def _derived(key: MasterKey, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=salt, info=_PURPOSE).derive(key.material)


def _associated(bound_to: Sequence[str | None]) -> bytes:
    # A JSON list keeps the borders between the parts, and tells a missing one from an empty one.
    return json.dumps(list(bound_to)).encode("ascii")
