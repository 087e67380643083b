from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.credentials.vault import MasterKey, NotAuthentic, Sealed, seal, unseal

KEY = MasterKey(b"a master key of thirty-two bytes")
OTHER_KEY = MasterKey(b"another key that has enough bytes")
CANARY = "ghp_canary-5f1c2d0e"
BOUND = ("operator", "github", "oauth", "api.github.com", None)

texts = st.text(st.characters(exclude_categories=()), max_size=200)
bindings = st.lists(st.none() | st.text(max_size=12), max_size=5)


@given(secret=texts, bound_to=bindings)
def test_any_secret_comes_back_as_it_was(secret: str, bound_to: list[str | None]) -> None:
    assert unseal(KEY, seal(KEY, secret, bound_to), bound_to) == secret


@given(one=bindings, other=bindings)
def test_secret_opens_for_the_record_it_was_sealed_for_and_no_other(
    one: list[str | None], other: list[str | None]
) -> None:
    sealed = seal(KEY, CANARY, one)

    if one == other:
        assert unseal(KEY, sealed, other) == CANARY
    else:
        with pytest.raises(NotAuthentic):
            unseal(KEY, sealed, other)


@pytest.mark.parametrize("moved", [("a", "b:c"), ("a:b", "c"), ("a", "", "b"), ("a", None, "b"), ("a", "b", None)])
def test_borders_between_bound_fields_are_kept(moved: tuple[str | None, ...]) -> None:
    sealed = seal(KEY, CANARY, ("a", "b"))

    with pytest.raises(NotAuthentic):
        unseal(KEY, sealed, moved)


@given(data=st.data(), part=st.sampled_from(["ciphertext", "salt", "nonce"]))
def test_one_changed_bit_anywhere_is_noticed(data: st.DataObject, part: str) -> None:
    sealed = seal(KEY, CANARY, BOUND)
    value = bytearray(getattr(sealed, part))
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(NotAuthentic):
        unseal(KEY, replace(sealed, **{part: bytes(value)}), BOUND)


@pytest.mark.parametrize("part", ["ciphertext", "salt", "nonce"])
@pytest.mark.parametrize("keep", [0, 1, 7])
def test_cut_record_is_noticed(part: str, keep: int) -> None:
    sealed = seal(KEY, CANARY, BOUND)

    with pytest.raises(NotAuthentic):
        unseal(KEY, replace(sealed, **{part: getattr(sealed, part)[:keep]}), BOUND)


def test_other_master_key_opens_nothing() -> None:
    with pytest.raises(NotAuthentic):
        unseal(OTHER_KEY, seal(KEY, CANARY, BOUND), BOUND)


def test_equal_secrets_look_different_each_time() -> None:
    sealed = [seal(KEY, CANARY, BOUND) for _ in range(20)]

    assert len({each.salt for each in sealed}) == len({each.nonce for each in sealed}) == 20
    assert len({each.ciphertext for each in sealed}) == 20
    assert {(len(each.salt), len(each.nonce), len(each.ciphertext)) for each in sealed} == {(32, 12, len(CANARY) + 16)}


def test_neither_key_nor_record_nor_error_shows_what_it_holds() -> None:
    sealed = seal(KEY, CANARY, BOUND)
    with pytest.raises(NotAuthentic) as refused:
        unseal(KEY, sealed, ())

    shown = f"{KEY!r}{KEY}{sealed!r}{sealed}{refused.value!r}{refused.value.__cause__!r}"
    assert CANARY not in shown
    assert "thirty-two" not in shown
    assert repr(sealed.ciphertext) not in shown


def test_short_master_key_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes") as refused:
        MasterKey(b"a secret of thirty-one bytes...")

    assert "thirty-one" not in str(refused.value)


def test_fixed_record_still_opens_so_that_stored_credentials_outlive_an_update() -> None:
    sealed = Sealed(
        ciphertext=bytes.fromhex("c9ec9ce7c050e38db40728bd1c3a8ee9600cd4acbbd9f431bdcd0c6537bb6af288582d"),
        salt=bytes(range(32)),
        nonce=bytes(range(12)),
    )

    assert unseal(KEY, sealed, BOUND) == CANARY


def test_crypto_library_is_not_loaded_before_a_secret_is_sealed() -> None:
    code = (
        "import sys, agent.credentials.store, agent.credentials.keys, agent.tools.builtin.auth\n"
        "sys.exit(any(name.split('.')[0] in ('cryptography', 'keyring') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
