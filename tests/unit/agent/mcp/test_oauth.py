from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.oauth import Answer, SignInFailed, read_answer

codes = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40)


@given(st.text(max_size=100), st.text(min_size=1, max_size=20))
def test_anything_pasted_is_a_code_or_refused(pasted: str, state: str) -> None:
    try:
        answer = read_answer(pasted, state)
    except SignInFailed:
        return

    assert answer.code


@given(codes, codes)
def test_code_of_an_address_is_read(code: str, state: str) -> None:
    query = urlencode({"code": code, "state": state, "iss": "https://as.example"})

    assert read_answer(f" http://127.0.0.1:1/oauth/callback?{query}\n", state) == Answer(code, "https://as.example")


@given(codes, codes, codes)
def test_address_with_another_state_is_refused(code: str, state: str, other: str) -> None:
    if state != other:
        with pytest.raises(SignInFailed, match="another sign-in"):
            read_answer(f"http://127.0.0.1:1/?code={code}&state={other}", state)


def test_refusal_and_missing_code_are_told_apart() -> None:
    with pytest.raises(SignInFailed, match="refused"):
        read_answer("http://127.0.0.1:1/?error=access_denied&state=s", "s")
    with pytest.raises(SignInFailed, match="no code"):
        read_answer("http://127.0.0.1:1/?state=s", "s")
    with pytest.raises(SignInFailed, match="another"):
        read_answer("http://127.0.0.1:1/?code=c", "s")


def test_code_alone_is_taken() -> None:
    assert read_answer("  abc-123\n", "s") == Answer("abc-123", None)
