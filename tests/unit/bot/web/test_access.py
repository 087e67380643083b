"""Origins, host names, tokens and the window of messages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.web.access import (
    FixedWindow,
    cookie_value,
    has_bearer,
    is_foreign,
    is_local_request,
    is_loopback_host,
    is_same,
)
from tests.support.builders import NOON

MINUTE = timedelta(seconds=60)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("https://bot.example", "bot.example"),
        ("https://bot.example", "bot.example:443"),
        ("https://BOT.example", "bot.EXAMPLE"),
        ("http://[::1]:8080", "[::1]:8080"),
    ],
)
def test_the_own_origin_is_not_foreign(origin: str, host: str) -> None:
    assert not is_foreign({"Origin": origin, "Host": host})


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("null", "127.0.0.1:8080"),
        ("null", ""),
        ("", ""),
        ("http://127.0.0.1:3000", "127.0.0.1:8080"),
        ("http://localhost:8080", "127.0.0.1:8080"),
        ("http://bot.example.evil.example", "bot.example"),
        ("file://bot.example", "bot.example"),
        ("http://[::1", "[::1"),
        ("http://a:99999", "a:99999"),
    ],
)
def test_any_other_origin_is_foreign(origin: str, host: str) -> None:
    assert is_foreign({"Origin": origin, "Host": host})


@given(st.text(), st.text(), st.text())
def test_no_header_makes_the_checks_fail(origin: str, host: str, authorization: str) -> None:
    headers = {"Origin": origin, "Host": host, "Authorization": authorization}

    is_foreign(headers)
    has_bearer(headers, "token")
    is_local_request("127.0.0.1", headers)


@given(st.text(), st.text())
def test_only_equal_secrets_are_the_same(a: str, b: str) -> None:
    a, b = (each.encode("utf-8", "replace").decode() for each in (a, b))

    assert is_same(a, b) is (a == b)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "bot.localhost"])
def test_loopback_hosts(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "192.168.1.2", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_other_hosts(host: str) -> None:
    assert not is_loopback_host(host)


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        (None, {"Host": "localhost"}),
        ("203.0.113.9", {"Host": "localhost"}),
        ("127.0.0.1", {"Host": "bot.example"}),
        ("127.0.0.1", {"Host": "localhost", "X-Forwarded-For": "203.0.113.9"}),
        ("127.0.0.1", {}),
    ],
)
def test_a_request_that_may_come_from_elsewhere_is_not_local(peer: str | None, headers: dict[str, str]) -> None:
    assert not is_local_request(peer, headers)


def test_the_cookie_does_not_hold_the_token() -> None:
    assert "token-1234" not in cookie_value("token-1234")
    assert cookie_value("token-1234") != cookie_value("token-1235")


@given(st.lists(st.integers(min_value=0, max_value=40), max_size=60), st.integers(min_value=1, max_value=5))
def test_a_window_admits_at_most_its_limit_and_the_named_wait_is_enough(pauses: list[int], limit: int) -> None:
    window, now, admitted = FixedWindow(limit, MINUTE), NOON, []

    for pause in pauses:
        now += timedelta(seconds=pause)
        wait = window.admit(now)
        if wait is None:
            admitted.append(now)
        else:
            assert timedelta() < wait <= MINUTE
            assert FixedWindow.admit(window, now + wait) is None
            admitted.append(now := now + wait)

    # Fixed windows: at the border of two of them up to twice the limit fits into a minute.
    assert all(sum(now <= each < now + MINUTE for each in admitted) <= 2 * limit for now in admitted)
