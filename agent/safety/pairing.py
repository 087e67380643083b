"""Pairing: a stranger asks for a code, the operator approves it. Pure rules; somebody else stores the state."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without I, O, 0 and 1, which are read for one another
CODE_LENGTH = 8
LIFETIME = timedelta(minutes=15)
MAX_PENDING = 3
MAX_FAILURES = 10
FAILURE_WINDOW = timedelta(minutes=5)

NewCode = Callable[[], str]


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """A code somebody was given, not approved yet."""

    user_id: str
    code: str
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class PairingState:
    """One channel's open requests, oldest first, and when approvals failed lately."""

    requests: tuple[PairingRequest, ...] = ()
    failures: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeGiven:
    """A new request: tell its owner the code."""

    code: str


@dataclass(frozen=True, slots=True)
class CodeRepeated:
    """The person has an open request already: say nothing more."""

    code: str


@dataclass(frozen=True, slots=True)
class TooManyPending:
    """As many strangers wait as may wait: say nothing."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The code was right: this person is let in."""

    user_id: str


@dataclass(frozen=True, slots=True)
class UnknownCode:
    """No open request has this code."""


@dataclass(frozen=True, slots=True)
class LockedOut:
    """Too many wrong codes; even a right one is refused until then."""

    until: datetime


def random_code() -> str:
    """A fresh code from the operating system's random source."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def request_pairing(
    state: PairingState, user_id: str, now: datetime, new_code: NewCode = random_code
) -> tuple[PairingState, CodeGiven | CodeRepeated | TooManyPending]:
    """Ask for a code. Whoever has one that is still valid keeps it."""
    state = expire(state, now)
    for request in state.requests:
        if request.user_id == user_id:
            return state, CodeRepeated(request.code)
    if len(state.requests) >= MAX_PENDING:
        return state, TooManyPending()
    code = new_code()
    while any(request.code == code for request in state.requests):
        code = new_code()
    request = PairingRequest(user_id, code, now)
    return replace(state, requests=(*state.requests, request)), CodeGiven(code)


def approve_pairing(
    state: PairingState, code: str, now: datetime
) -> tuple[PairingState, Approved | UnknownCode | LockedOut]:
    """Approve a code, in whatever case it was typed. A wrong one counts towards the lock."""
    state = expire(state, now)
    if len(state.failures) >= MAX_FAILURES:
        return state, LockedOut(state.failures[-MAX_FAILURES] + FAILURE_WINDOW)
    typed = code.strip().upper()
    for request in state.requests:
        if secrets.compare_digest(request.code.encode(), typed.encode()):
            rest = tuple(other for other in state.requests if other != request)
            return replace(state, requests=rest), Approved(request.user_id)
    return replace(state, failures=(*state.failures, now)), UnknownCode()


def expire(state: PairingState, now: datetime) -> PairingState:
    """`state` without what is too old to count."""
    return PairingState(
        requests=tuple(request for request in state.requests if now < request.requested_at + LIFETIME),
        failures=tuple(failure for failure in state.failures if now < failure + FAILURE_WINDOW),
    )
