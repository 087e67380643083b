from __future__ import annotations

from datetime import timedelta

from agent.safety.pairing import (
    ALPHABET,
    CODE_LENGTH,
    FAILURE_WINDOW,
    LIFETIME,
    MAX_FAILURES,
    MAX_PENDING,
    Approved,
    CodeGiven,
    CodeRepeated,
    LockedOut,
    PairingState,
    TooManyPending,
    UnknownCode,
    approve_pairing,
    random_code,
    request_pairing,
)
from tests.support.builders import NOON

MINUTE = timedelta(minutes=1)


def test_codes_are_eight_characters_without_those_that_are_misread() -> None:
    codes = {random_code() for _ in range(200)}

    assert len(codes) == 200
    assert {len(code) for code in codes} == {CODE_LENGTH} == {8}
    assert not set("IO01") & set(ALPHABET)
    assert len(ALPHABET) == 32
    assert set("".join(codes)) <= set(ALPHABET)


def test_a_repeated_request_keeps_its_code_and_is_told_apart() -> None:
    state, first = request_pairing(PairingState(), "u", NOON)
    state, second = request_pairing(state, "u", NOON + MINUTE)

    assert isinstance(first, CodeGiven)
    assert second == CodeRepeated(first.code)
    assert len(state.requests) == 1


def test_a_fourth_stranger_gets_nothing_until_a_request_expires() -> None:
    state = PairingState()
    for number in range(MAX_PENDING):
        state, _ = request_pairing(state, f"u{number}", NOON)

    full, refused = request_pairing(state, "late", NOON + MINUTE)
    _, later = request_pairing(state, "late", NOON + LIFETIME)

    assert MAX_PENDING == 3
    assert refused == TooManyPending()
    assert full == state
    assert isinstance(later, CodeGiven)


def test_a_code_approves_once_in_any_case() -> None:
    state, given = request_pairing(PairingState(), "u", NOON)
    assert isinstance(given, CodeGiven)

    state, outcome = approve_pairing(state, f" {given.code.lower()} ", NOON + MINUTE)
    _, again = approve_pairing(state, given.code, NOON + MINUTE)

    assert outcome == Approved("u")
    assert again == UnknownCode()


def test_a_code_ends_after_fifteen_minutes() -> None:
    state, given = request_pairing(PairingState(), "u", NOON)
    assert isinstance(given, CodeGiven)

    assert approve_pairing(state, given.code, NOON + 15 * MINUTE - timedelta(seconds=1))[1] == Approved("u")
    assert approve_pairing(state, given.code, NOON + 15 * MINUTE)[1] == UnknownCode()


def test_an_expired_request_is_renewed_with_another_code() -> None:
    codes = iter(["AAAAAAAA", "BBBBBBBB"])
    state, _ = request_pairing(PairingState(), "u", NOON, lambda: next(codes))

    state, renewed = request_pairing(state, "u", NOON + LIFETIME, lambda: next(codes))

    assert renewed == CodeGiven("BBBBBBBB")
    assert len(state.requests) == 1


def test_two_requests_never_share_a_code() -> None:
    codes = iter(["AAAAAAAA", "AAAAAAAA", "BBBBBBBB"])
    state, _ = request_pairing(PairingState(), "u", NOON, lambda: next(codes))

    _, second = request_pairing(state, "v", NOON, lambda: next(codes))

    assert second == CodeGiven("BBBBBBBB")


def test_ten_wrong_codes_lock_the_door_for_right_ones_too_until_they_are_old() -> None:
    state, given = request_pairing(PairingState(), "u", NOON)
    assert isinstance(given, CodeGiven)
    for _ in range(MAX_FAILURES):
        state, outcome = approve_pairing(state, "ZZZZZZZZ", NOON)
        assert outcome == UnknownCode()

    locked, refused = approve_pairing(state, given.code, NOON + MINUTE)
    _, later = approve_pairing(locked, given.code, NOON + FAILURE_WINDOW)

    assert refused == LockedOut(NOON + timedelta(minutes=5))
    assert later == Approved("u")


def test_letters_outside_the_alphabet_are_an_unknown_code_not_a_fault() -> None:
    state, _ = request_pairing(PairingState(), "u", NOON)

    assert approve_pairing(state, "ÄÖÜ💥", NOON)[1] == UnknownCode()
