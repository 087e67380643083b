from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.errors import LLMError, RateLimitedError, TransientError
from agent.llm.wire.faults import LONGEST_WAIT, UNREADABLE_WAIT, ErrorAnswer, fault_of, retry_after
from tests.support.builders import NOON


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("-3", 0),
        ("86400", 3600),
        ("inf", 3600),
        ("nan", 60),
        ("soon", 60),
        ("", 60),
        ("Mon, 02 Mar 2026 12:01:30 GMT", 90),
        ("Mon, 02 Mar 2026 11:00:00 GMT", 0),
        ("Tue, 03 Mar 2026 12:00:00 GMT", 3600),
    ],
)
def test_retry_after_is_always_a_sensible_wait(header: str, seconds: float) -> None:
    assert retry_after({"retry-after": header}, NOON) == timedelta(seconds=seconds)


def test_no_header_asks_for_no_wait() -> None:
    assert retry_after({}, NOON) is None


@given(st.text())
def test_no_header_text_crashes_or_escapes_the_bounds(header: str) -> None:
    wait = retry_after({"retry-after": header}, NOON)

    assert wait is not None
    assert timedelta() <= wait <= LONGEST_WAIT
    assert UNREADABLE_WAIT <= LONGEST_WAIT


@given(st.integers(100, 599) | st.none(), st.text(), st.text())
def test_every_error_answer_becomes_a_fault_without_its_words(status: int | None, kind: str, message: str) -> None:
    fault = fault_of(ErrorAnswer("p", status, kind, f"CANARY {message}"), NOON)

    assert isinstance(fault, LLMError)
    assert "CANARY" not in fault.detail


def test_overload_keeps_the_wait_the_provider_asks() -> None:
    fault = fault_of(ErrorAnswer("p", 529, headers={"retry-after": "9"}), NOON)

    assert isinstance(fault, TransientError)
    assert fault.retry_after == timedelta(seconds=9)


def test_status_inside_a_stream_is_told_by_type_or_code() -> None:
    assert isinstance(fault_of(ErrorAnswer("p", None, "rate_limit_error"), NOON), RateLimitedError)
    assert isinstance(fault_of(ErrorAnswer("p", None, "429"), NOON), RateLimitedError)
    assert isinstance(fault_of(ErrorAnswer("p", None, "whatever"), NOON), TransientError)


def test_error_answer_shows_neither_message_nor_headers() -> None:
    assert "CANARY" not in repr(ErrorAnswer("p", 400, "k", "CANARY", {"x": "CANARY"}))
