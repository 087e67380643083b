"""No form in which a secret is smuggled gets past the safety layer: whole, in pieces, coded, or while it streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.layer import InputRefused, SafetyLayer
from agent.safety.leak_detector import REDACTED
from agent.safety.leak_rules import RULES, Action
from tests.security.corpus.secrets import BREAKS, BY_SHAPE, CODINGS, CONFIGURED, CONFIGURED_LINES, ONE_LINE

SAFETY = SafetyLayer([CONFIGURED, CONFIGURED_LINES])
WHOLE = {name: BY_SHAPE[name] for name in ONE_LINE if " " not in BY_SHAPE[name]} | {"configured": CONFIGURED}


def stripped(text: str) -> str:
    """What a reader sees of a text that means to hide something."""
    return "".join(letter for letter in text if letter.isascii() and letter.isprintable() and letter != " ")


def test_corpus_holds_a_secret_of_every_rule() -> None:
    assert BY_SHAPE.keys() == {rule.name for rule in RULES if rule.action is not Action.WARN}


@pytest.mark.parametrize("name", BY_SHAPE)
def test_each_kind_of_secret_is_refused_withheld_and_masked(name: str) -> None:
    text = f"it is {BY_SHAPE[name]} as you know"

    assert isinstance(SAFETY.screen_input(text), InputRefused)
    assert BY_SHAPE[name] not in SAFETY.hide_secrets(text)
    assert BY_SHAPE[name] not in SAFETY.clean_output("web_fetch", text)
    assert BY_SHAPE[name] not in str(SAFETY.redact_arguments(frozenset(), {"deep": [{BY_SHAPE[name]: text}]}))


@pytest.mark.parametrize("how", BREAKS)
def test_secret_is_found_however_it_is_broken(how: str) -> None:
    escaped = {name: f"it is {BREAKS[how](secret)} as you know" for name, secret in WHOLE.items()}

    assert [name for name, text in escaped.items() if not SAFETY.contains_secret(text)] == []
    assert [name for name, text in escaped.items() if BREAKS[how](WHOLE[name])[4:-4] in SAFETY.hide_secrets(text)] == []


@pytest.mark.parametrize("how", BREAKS)
def test_no_broken_secret_is_whole_again_after_an_output_was_cleaned(how: str) -> None:
    cleaned = {name: SAFETY.clean_output("web_fetch", f"<| {BREAKS[how](secret)} |>") for name, secret in WHOLE.items()}

    assert [name for name, text in cleaned.items() if WHOLE[name] in stripped(text)] == []


@pytest.mark.parametrize("secret", [CONFIGURED, CONFIGURED_LINES], ids=["one line", "two lines"])
@pytest.mark.parametrize("how", CODINGS)
def test_secret_of_the_settings_is_found_in_every_coding(how: str, secret: str) -> None:
    text = f"so: {CODINGS[how](secret)} ."

    assert REDACTED in SAFETY.hide_secrets(text)
    assert CODINGS[how](secret)[6:-6] not in SAFETY.hide_secrets(text)


@given(
    st.sampled_from(sorted(WHOLE)),
    st.sampled_from(["", " ", "\u200b", "\n", "\x00", "\u3164", "\u2028"]),
    st.data(),
)
def test_secret_is_found_wherever_gaps_are_put(name: str, gap: str, data: st.DataObject) -> None:
    secret = WHOLE[name]
    cuts = data.draw(st.sets(st.integers(1, len(secret) - 1), max_size=6))
    broken = "".join(f"{gap.strip(' ')}{letter}" if place in cuts else letter for place, letter in enumerate(secret))

    assert SAFETY.contains_secret(f"see {broken} there")


@given(st.sampled_from(sorted(WHOLE)), st.text(max_size=60), st.text(max_size=60))
def test_what_surrounds_a_secret_stays_as_it_is(name: str, before: str, after: str) -> None:
    text = f"{before} | {WHOLE[name]} | {after}"
    hidden = SAFETY.hide_secrets(text)

    if not SAFETY.contains_secret(before) and not SAFETY.contains_secret(after):
        assert WHOLE[name] not in hidden
        assert hidden.startswith(before)
        assert hidden.endswith(after)


@given(
    st.sampled_from(sorted(WHOLE)),
    st.sampled_from([how for how in BREAKS if "URL" not in how and "string" not in how]),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_no_part_of_a_secret_streams_out_however_the_pieces_are_cut(name: str, how: str, sizes: list[int]) -> None:
    secret = WHOLE[name]
    text = f"The key is {BREAKS[how](secret)} and so on, and more of it. " * 2
    gate, end = SAFETY.stream_gate(), 0
    shown: list[str] = []
    while end < len(text):
        end += sizes[len(shown) % len(sizes)]
        shown.append(gate.feed(text[:end]))

    assert all(stripped(secret)[:14] not in stripped(each) for each in shown)


@pytest.mark.parametrize("limit", [40, 60, 80])
def test_cut_through_a_secret_leaves_no_half_of_it(limit: int) -> None:
    safety = SafetyLayer([CONFIGURED], max_output_bytes=limit)

    for secret in (*WHOLE.values(), CONFIGURED):
        cleaned = safety.clean_output("web_fetch", "x" * 29 + " " + secret)
        assert secret[: limit - 30] not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "The skeleton task-list is sk-etchy",
        "100% of &#65; and \\u0041 and %41%42 are letters",
        "see https://example.com/a%20b?c=%2F&d=1",
        '{"name": "caf\\u00e9", "path": "C:\\\\x41"}',
        "bearer of good news; Authorization is needed",
        "a\u200bb\u00adc and \u202eתשלום\u202c",
        "the commit 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert SAFETY.hide_secrets(text) == text


def test_many_secrets_and_escapes_are_no_burden(benchless: Callable[[], float]) -> None:
    """Ten seconds for what takes some tenths of one: only what grows with the square of the length gets there."""
    text = f"{BY_SHAPE['github_token']}\\u0041%42&#67;\u200b\n" * 1_500
    SAFETY.hide_secrets(text)

    assert benchless() < 10
