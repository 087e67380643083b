from __future__ import annotations

import base64
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.known_values import SecretValues
from agent.safety.leak_detector import REDACTED, LeakDetector, preview, redact_spans
from agent.safety.leak_rules import Action
from tests.unit.agent.safety.secrets_catalogue import SECRETS, action_of

DETECTOR = LeakDetector()
OWN = "own/token+with-signs=42"


@pytest.mark.parametrize("name", SECRETS)
def test_each_kind_of_secret_is_found_with_its_action(name: str) -> None:
    scan = DETECTOR.scan(f"it is {SECRETS[name]} keep it")

    found = [finding for finding in scan.findings if finding.rule == name.split()[0]]
    assert found
    assert found[0].action is action_of(name)


@given(
    name=st.sampled_from(sorted(SECRETS)),
    before=st.text(max_size=80),
    after=st.text(max_size=80),
    left=st.sampled_from([" ", "\n", "'", "(", "=", "é"]),
    right=st.sampled_from([" ", "\n", "'", ")", ", "]),
)
def test_a_secret_is_found_and_hidden_at_any_place(name: str, before: str, after: str, left: str, right: str) -> None:
    secret = SECRETS[name]

    shown = DETECTOR.redact(f"{before}{left}{secret}{right}{after}")

    assert secret not in shown
    assert REDACTED in shown


@pytest.mark.parametrize("name", [name for name in SECRETS if " " not in SECRETS[name]])
@pytest.mark.parametrize("gap", ["\u200b", "\u00ad", "\n", "\r\n", "\n    "])
def test_a_secret_broken_by_an_invisible_character_or_a_line_end_is_found(name: str, gap: str) -> None:
    secret = SECRETS[name]
    middle = len(secret) - 8

    assert DETECTOR.scan(f"it is {secret[:middle]}{gap}{secret[middle:]} keep it").secrets


@pytest.mark.parametrize(
    "text",
    [
        "the task-list and the risk-assessment-of-everything-we-know",
        "sk-loading-indicator-wrapper-element",
        "mask-sk-short",
        "AKIA is a prefix",
        "https://user@example.com/a:b@c",
        "postgresql://db.example/bot",
        "Bearer of bad news",
        "-----BEGIN PUBLIC KEY-----",
        "12:30:AAAA",
        "",
    ],
)
def test_ordinary_text_holds_no_secret(text: str) -> None:
    assert DETECTOR.scan(text).findings == ()


def test_a_long_hexadecimal_number_is_a_warning_only() -> None:
    text = "sha256 " + "0123456789abcdef" * 4

    scan = DETECTOR.scan(text)

    assert [finding.action for finding in scan.findings] == [Action.WARN]
    assert DETECTOR.redact(text) == text


def test_a_look_alike_before_a_real_secret_does_not_hide_it() -> None:
    secret = SECRETS["openai_key"]

    assert secret not in DETECTOR.redact(f"risk-{secret} and x{secret} {secret}").split()[-1]


@pytest.mark.parametrize(
    "form",
    [
        OWN,
        quote(OWN, safe=""),
        base64.b64encode(OWN.encode()).decode(),
        base64.b64encode(f"user:{OWN}".encode()).decode(),
        base64.b64encode(f"x {OWN} y".encode()).decode(),
        base64.urlsafe_b64encode(f"xy{OWN}z".encode()).decode(),
        OWN.encode().hex(),
        OWN[:9] + "\n" + OWN[9:],
        OWN[:9] + "\u200b" + OWN[9:],
        f"file-{OWN}.txt",
    ],
)
def test_a_known_value_is_hidden_in_any_of_its_forms(form: str) -> None:
    detector = LeakDetector(SecretValues([OWN]))

    shown = detector.redact(f"here: {form}!")

    assert REDACTED in shown
    rest = (
        shown.removeprefix("here: ").removesuffix("!").removesuffix(".txt").removeprefix("file-").replace(REDACTED, "")
    )
    assert len(rest) <= len(form) - len(OWN)  # what is left is what stood around the value


def test_values_too_short_to_be_secrets_are_not_masked() -> None:
    assert LeakDetector(SecretValues(["", "   ", "token"])).redact("a token") == "a token"


def test_overlapping_and_touching_spans_are_replaced_by_one_mark() -> None:
    assert redact_spans("0123456789", [(1, 4), (2, 3), (4, 6), (8, 9)]) == f"0{REDACTED}67{REDACTED}9"


def test_a_preview_shows_little_of_a_long_secret_and_nothing_of_a_short_one() -> None:
    assert preview("abcdefghijklmnopqrstuvwxyz") == "abcd…wxyz"
    assert preview("hunter22") == "********"


def test_a_long_clean_text_is_scanned_in_milliseconds() -> None:
    detector = LeakDetector(SecretValues([f"configured-token-number-{n}" for n in range(10)]))
    text = ("The quick brown fox jumps over the lazy dog, risk-free. See https://example.com/a?b=1\n" * 2000)[:100_000]

    detector.scan(text)
    took = min(_seconds(detector, text) for _ in range(5))

    assert took < 0.05  # some 7 ms on an idle machine; the bound leaves room for a busy one


@pytest.mark.parametrize("part", ["ask-", "sk-ant-", "Bearer ", "postgres://a:b@", ".abcdef.", "12345678:AA", "MMMM"])
def test_a_text_made_to_be_slow_is_not(part: str) -> None:
    text = (part * 50_000)[:100_000]

    assert _seconds(DETECTOR, text) < 1.0


def _seconds(detector: LeakDetector, text: str) -> float:
    start = time.perf_counter()
    detector.scan(text)
    return time.perf_counter() - start
