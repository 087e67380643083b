from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.safety.known_values import SecretValues
from agent.safety.leak_detector import REDACTED, LeakDetector
from agent.safety.stream_gate import StreamGate
from tests.unit.agent.safety.secrets_catalogue import SECRETS

OWN = "own-configured-token-42"
SPACED = "correct horse battery staple"
DETECTOR = LeakDetector(SecretValues([OWN, SPACED]))
ALL = {**SECRETS, "own": OWN, "own spaced": SPACED}


def _stream(text: str, sizes: list[int]) -> list[str]:
    gate = StreamGate(DETECTOR)
    shown: list[str] = []
    end = 0
    while end < len(text):
        end = min(len(text), end + sizes[len(shown) % len(sizes)])
        shown.append(gate.feed(text[:end]))
    return shown


@given(
    name=st.sampled_from(sorted(ALL)),
    before=st.sampled_from(["", "The key is ", "one\ntwo\n", "日本語の鍵は", "word " * 100]),
    after=st.sampled_from(["", " and more", "\nmore words", "."]),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    broken=st.sampled_from(["", "\n", "\u200b"]),
)
def test_no_part_of_a_secret_is_shown_wherever_the_pieces_end(
    name: str, before: str, after: str, sizes: list[int], broken: str
) -> None:
    secret = ALL[name]
    start = secret.rfind(" ") + 1 if name.startswith(("bearer", "auth", "private")) else 0
    if " " not in secret:
        secret = secret[:-6] + broken + secret[-6:]

    for shown in _stream(before + secret + after, sizes):
        if not name.startswith("private"):  # the words of a header line are no secret
            assert secret[start : start + 6] not in shown.removeprefix(before)


@given(st.text(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_what_is_shown_of_a_clean_text_only_grows_and_is_its_beginning(text: str, sizes: list[int]) -> None:
    if DETECTOR.scan(text).secrets:
        return

    before = ""
    for shown in _stream(text, sizes):
        assert text.startswith(shown)
        assert shown.startswith(before)
        before = shown


def test_plain_words_are_shown_up_to_the_last_unfinished_one() -> None:
    gate = StreamGate(LeakDetector())

    assert gate.feed("The answer is fort") == "The answer is "
    assert gate.feed("The answer is forty-two. ") == "The answer is forty-two. "


def test_a_language_without_blanks_is_shown_as_it_comes() -> None:
    assert StreamGate(LeakDetector()).feed("答えは四十二です") == "答えは四十二です"


def test_the_gate_stays_shut_behind_a_secret() -> None:
    gate = StreamGate(LeakDetector())
    text = f"Use {SECRETS['openai_key']} "

    assert gate.feed(text) == f"Use {REDACTED}"
    assert gate.found
    assert gate.feed(text + "and then some") == f"Use {REDACTED}"


def test_an_answer_that_starts_over_is_shown_anew() -> None:
    gate = StreamGate(LeakDetector())
    gate.feed(f"Use {SECRETS['openai_key']} ")

    assert gate.feed("") == ""
    assert gate.feed("Another answer ") == "Another answer "
    assert not gate.found
