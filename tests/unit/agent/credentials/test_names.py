from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.credentials.errors import CredentialRefused
from agent.credentials.names import LONGEST_NAME, credential_name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("GitHub", "github"),
        ("  Open  Weather\tMap ", "open weather map"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ＧｉｔＨｕｂ", "github"),
        ("api.example.com/v1+x_y-z", "api.example.com/v1+x_y-z"),
        ("Почта", "почта"),
    ],
)
def test_names_are_folded_to_one_spelling(typed: str, name: str) -> None:
    assert credential_name(typed) == name


@pytest.mark.parametrize(
    "typed", ["", "  ", "/stop", "@here", "x @here", "[a](b)", "a\x00b", "https://x", "<b>", "x" * (LONGEST_NAME + 1)]
)
def test_what_is_no_name_is_refused_with_the_rule(typed: str) -> None:
    with pytest.raises(CredentialRefused, match="1 to 64 letters"):
        credential_name(typed)


@given(st.text(max_size=80) | st.from_regex(r"\w[\w .+/-]{0,70}", fullmatch=True))
def test_folding_twice_changes_nothing_and_case_never_matters(typed: str) -> None:
    try:
        name = credential_name(typed)
    except CredentialRefused:
        return

    assert credential_name(name) == name
    assert credential_name(typed.casefold()) == name
    assert name.isprintable()
