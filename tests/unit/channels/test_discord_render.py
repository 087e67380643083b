"""How Markdown looks on Discord."""

from __future__ import annotations

import time
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.discord_render import (
    DRAFT_PART,
    MAX_TEXT,
    discord_markdown,
    nonce_of,
    patch_body,
    plain_body,
    post_body,
    render_draft,
    render_parts,
)
from channels.message import Choice

TABLE = "| Name | Price |\n|:-----|------:|\n| tea | 2 |\n| **coffee** | 10 |"


def test_what_discord_knows_stays_as_written() -> None:
    text = "# Title\n\n**bold** *it* ~~no~~ `code` [link](https://a.example/?q=1&r=2)\n> quote\n- item\n1. one"

    assert discord_markdown(text) == text


def test_table_becomes_aligned_code() -> None:
    assert discord_markdown(f"Prices:\n\n{TABLE}\n\nDone.") == (
        "Prices:\n\n```\nName    Price\n------  -----\ntea         2\ncoffee     10\n```\n\nDone."
    )


def test_table_inside_a_code_block_is_left_alone() -> None:
    text = f"```\n{TABLE}\n```"

    assert discord_markdown(text) == text


@pytest.mark.parametrize("text", ["a | b", "a | b\nc | d", "x || y\n---", "| a |\nno rule"])
def test_bars_without_a_table_stay(text: str) -> None:
    assert discord_markdown(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("### three", "### three"),
        ("#### four", "**four**"),
        ("###### **six** ##", "**six**"),
        ("#### ##", "#### ##"),
        ("![a cat](https://a.example/cat.png)", "[a cat](https://a.example/cat.png)"),
        ("open\n```py\nx = 1", "open\n```py\nx = 1\n```"),
        ("~~~~\n```\n~~~~ no end", "~~~~\n```\n~~~~ no end\n~~~~"),
        ("nul\x00 and \ud800", "nul and \ufffd"),
    ],
)
def test_what_discord_does_not_know_is_rewritten(text: str, shown: str) -> None:
    assert discord_markdown(text) == shown


@given(st.text(alphabet="ab |-:`~#\n!*[]()é😀", max_size=400))
def test_rendering_is_total_and_keeps_every_letter(text: str) -> None:
    shown = discord_markdown(text)

    assert sorted(c for c in shown if c in "abé😀") == sorted(c for c in text if c in "abé😀")


@given(st.text(alphabet="ab \n`😀", max_size=9000))
def test_parts_fit_the_platform(text: str) -> None:
    assert all(part.strip() and len(part) <= MAX_TEXT for part in render_parts(text))


@pytest.mark.parametrize("piece", ["![", "![](", "#### #", "|", "|-", "```\n", "a|b\n-|-\n", "# ", "~~~"])
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    begun = time.process_time()

    discord_markdown(text)

    assert time.process_time() - begun < 3


@pytest.mark.parametrize(("length", "parts"), [(0, 0), (1900, 1), (1901, 2), (2000, 2), (2001, 2)])
def test_number_of_parts(length: int, parts: int) -> None:
    assert len(render_parts("x" * length)) == parts


def test_draft_is_the_beginning_with_a_sign_that_more_follows() -> None:
    assert render_draft("  \n") == ""
    assert render_draft("short") == "short"
    assert render_draft("word " * 1000).endswith("\n…")
    assert len(render_draft("word " * 1000)) <= 2000


def test_nonces_differ_by_message_and_part_and_fit() -> None:
    one, other = uuid4(), uuid4()
    nonces = {nonce_of(message, part) for message in (one, other) for part in (0, 1, 41, DRAFT_PART)}

    assert len(nonces) == 8
    assert all(len(nonce) <= 25 for nonce in nonces)
    assert nonce_of(one, 1) == nonce_of(UUID(str(one)), 1)


def test_bodies_allow_no_mention_and_no_link_preview() -> None:
    post = post_body("hi", "nonce", "7", ())
    patch = patch_body("hi", ())

    for body in (post, patch, plain_body(post)):
        assert body["allowed_mentions"] == {"parse": [], "replied_user": False}
        assert body["flags"] == 4
    assert (post["nonce"], post["enforce_nonce"]) == ("nonce", True)
    assert post["message_reference"] == {"message_id": "7", "fail_if_not_exists": False}
    assert patch["components"] == []


def test_plain_body_keeps_the_text_and_the_nonce() -> None:
    body = post_body("hi", "nonce", "7", (Choice(label="Yes", data="apr:1:y"),))

    assert plain_body(body) == {
        "content": "hi",
        "flags": 4,
        "allowed_mentions": {"parse": [], "replied_user": False},
        "nonce": "nonce",
        "enforce_nonce": True,
    }


def test_buttons_stand_in_rows_of_five_with_short_labels() -> None:
    choices = [Choice(label="x" * 99, data=f"choice:{number}") for number in range(7)]

    rows = patch_body("?", choices)["components"]

    assert isinstance(rows, list)
    assert [str(row).count("custom_id") for row in rows] == [5, 2]
    assert "x" * 81 not in str(rows)
