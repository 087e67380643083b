"""What a message looks like in the terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.console import render, to_ansi
from channels.message import Address, OutgoingMessage, ReplyKind
from channels.one_shot import visible
from tests.support.parts import note

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shown(text: str, kind: ReplyKind = ReplyKind.ANSWER, width: int = 100) -> str:
    message = OutgoingMessage(address=Address(channel="console", chat_id="terminal"), kind=kind, text=text)
    return COLOURS.sub("", to_ansi(render(message), width))


@given(st.text())
def test_no_text_reaches_the_terminal_as_a_control_sequence(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", visible(text))


@pytest.mark.parametrize("kind", list(ReplyKind))
@given(st.text(alphabet=st.sampled_from("ab \n`*_#|<>[]()!~-\x1b\x9b\u202e\u200b1.\t")))
def test_rendering_is_total_and_leaves_only_colours(kind: ReplyKind, text: str) -> None:
    assert "\x1b" not in shown(text, kind)
    assert "\x9b" not in shown(text, kind)


def test_a_hidden_direction_mark_in_a_command_is_visible() -> None:
    assert "rm ⟨U+202E⟩x" in shown("```\nrm \u202ex\n```", ReplyKind.APPROVAL)


def test_an_approval_shows_every_line_and_says_how_to_answer() -> None:
    text = shown("Approval needed: **shell**\ncommand: 'rm -rf build'\ntimeout: 5", ReplyKind.APPROVAL)

    assert [line.strip("│ ") for line in text.splitlines()][1:4] == [
        "Approval needed: shell",
        "command: 'rm -rf build'",
        "timeout: 5",
    ]
    assert "yes, always or no" in text


def test_a_long_command_is_shown_whole() -> None:
    command = "x" * 500

    text = shown(f"```\n{command}\n```", ReplyKind.APPROVAL, width=60)

    assert text.count("x") == 500


def test_tags_pictures_and_addresses_stay_visible() -> None:
    text = shown(
        "<script>alert</script> ![pic](https://e.example/p.png) [docs](https://x.example)\n\n[r]: https://r.example"
    )

    for part in ("<script>", "https://e.example/p.png", "https://x.example", "https://r.example"):
        assert part in text


def test_wide_characters_do_not_break_a_card() -> None:
    lines = shown("日本語 é 👩‍👩‍👧 " * 20, ReplyKind.ERROR, width=40).splitlines()

    assert lines[0].startswith("╭")
    assert lines[-1].startswith("╰")


def test_files_are_named_below_the_text() -> None:
    message = OutgoingMessage(
        address=Address(channel="console", chat_id="terminal"),
        kind=ReplyKind.MESSAGE,
        text="Look:",
        files=(note("_two_ words.txt", "12345").file,),
    )

    lines = [line.rstrip() for line in COLOURS.sub("", to_ansi(render(message), 100)).splitlines()]
    assert lines == ["Look:", "", "File: _two_ words.txt (5 bytes)"]
