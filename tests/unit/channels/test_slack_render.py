from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import Choice
from channels.slack_render import MAX_PLAIN, MAX_TEXT, Part, choice_blocks, plain_pieces, render_draft, render_parts

GAP = "\u200b"


def shown(text: str) -> str:
    (part,) = render_parts(text)
    return part.mrkdwn


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("**bold** and *it* and ~~gone~~", "*bold* and _it_ and ~gone~"),
        ("***both***", "*_both_*"),
        ("**a *b* c**", "*a _b_ c*"),
        ("## Title **x**", "*Title x*"),
        ("a**b**c", f"a{GAP}*b*{GAP}c"),
        ("**one\ntwo**", "*one*\n*two*"),
        ("`a < b` & c", "`a &lt; b` &amp; c"),
        ("``a ` b``", "a ` b"),
        ("[the page](https://a.example/?a=1&b=2)", "<https://a.example/?a=1&amp;b=2|the page>"),
        ("**[the page](https://a.example)**", "*<https://a.example|the page>*"),
        ("[x](https://a.example/a|b)", "<https://a.example/a%7Cb|x>"),
        ("[x](ftp://a.example)", "x (ftp://a.example)"),
        ("[x](!here)", "x (!here)"),
        ("![plan](https://a.example/p.png)", "<https://a.example/p.png|plan>"),
        ("- one\n- two\n  - three", "• one\n• two\n    • three"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("> said\n> **so\n> much**", "&gt; said\n&gt; *so*\n&gt; *much*"),
        ("```py\nif a < b:\n    pass\n```", "```\nif a &lt; b:\n    pass\n```"),
        ("- x\n\n  ```\n  code\n  ```", "• x\n```\ncode\n```"),
        ("| a | bb |\n|---|---:|\n| 1 | 2 |", "```\na | bb\n--+---\n1 |  2\n```"),
        ("a\n\n---\n\nb", f"a\n\n{'─' * 10}\n\nb"),
        ("hi @everyone, @Here, @channel", f"hi @{GAP}everyone, @{GAP}Here, @{GAP}channel"),
        ("<!channel> <@U1> <#C1>", "&lt;!channel&gt; &lt;@U1&gt; &lt;#C1&gt;"),
        ("mail@hereford.example", "mail@hereford.example"),
    ],
)
def test_markdown_looks_right_on_slack(markdown: str, mrkdwn: str) -> None:
    assert shown(markdown) == mrkdwn


def test_code_is_shown_as_it_is_but_for_what_would_end_it() -> None:
    assert shown("````\na ``` b @everyone <!here>\n````") == f"```\na ``{GAP}` b @everyone &lt;!here&gt;\n```"


def test_a_blank_text_has_no_parts() -> None:
    assert render_parts(" \n\n ") == ()
    assert render_draft("") == ""


def long_answer(size: int) -> str:
    table = "| name | price |\n|---|---:|\n" + "".join(f"| item {n} | {n} |\n" for n in range(20))
    code = "```python\n" + "".join(f"value_{n} = {n} < 7 and {n} > 2\n" for n in range(60)) + "```\n"
    text = f"# Report\n\n{table}\n{code}\n"
    number = 0
    while len(text) < size:
        number += 1
        text += f"Sentence {number} of **the** answer with a [link](https://a.example/{number}) & more.\n\n"
    return text


@pytest.mark.parametrize("size", [2900, 3100, 12500, 45000])
def test_a_long_answer_is_complete_in_order_and_whole_in_each_part(size: int) -> None:
    parts = render_parts(long_answer(size))

    assert all(len(part.mrkdwn) <= MAX_TEXT for part in parts)
    assert all(part.mrkdwn.count("```") % 2 == 0 for part in parts)
    everything = "\n".join(part.mrkdwn for part in parts)
    numbers = [int(found) for found in re.findall(r"Sentence (\d+) ", everything)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [int(found) for found in re.findall(r"value_(\d+) =", everything)] == list(range(60))
    assert everything.count("<https://a.example/") == len(numbers)


def test_escapes_do_not_push_a_part_over_the_limit() -> None:
    parts = render_parts("&<>" * 4000)

    assert all(len(part.mrkdwn) <= MAX_TEXT for part in parts)
    assert html.unescape("".join(part.mrkdwn for part in parts)) == "&<>" * 4000


def test_addresses_do_not_push_a_part_over_the_limit() -> None:
    parts = render_parts("\n".join(f"[{n}](https://a.example/{'x' * 900})" for n in range(60)))

    assert all(len(part.mrkdwn) <= MAX_TEXT for part in parts)
    assert "".join(part.mrkdwn for part in parts).count("|59>") == 1


def test_an_address_too_long_for_a_link_is_shown_as_text() -> None:
    parts = render_parts(f"[x](https://a.example/{'y' * 5000})")

    assert all(len(part.mrkdwn) <= MAX_TEXT for part in parts)
    assert "".join(part.mrkdwn for part in parts).count("y") == 5000


def test_a_wide_cell_does_not_blow_up_its_table() -> None:
    rows = "".join(f"| {n} | x |\n" for n in range(50))
    text = f"| a | b |\n|---|---|\n| {'w' * 2000} | x |\n{rows}"

    assert sum(len(part.mrkdwn) for part in render_parts(text)) < 2 * len(text)


def test_a_draft_is_one_part_with_its_fence_closed() -> None:
    draft = render_draft("before\n\n```\n" + "line\n" * 2000)

    assert len(draft) <= MAX_TEXT
    assert draft.count("```") == 2


def test_a_plain_piece_is_small_and_pings_nobody() -> None:
    pieces = plain_pieces(Part("", "<!channel> @everyone & " * 300))

    assert all(len(piece) <= MAX_PLAIN + 100 for piece in pieces)
    assert not any("<" in piece or "@everyone" in piece for piece in pieces)


def test_buttons_carry_their_data_and_distinct_ids() -> None:
    section, actions = choice_blocks("Run it?", [Choice(label="Yes" * 40, data="y"), Choice(label="No", data="n")])
    elements = actions["elements"]

    assert section["text"] == {"type": "mrkdwn", "text": "Run it?", "verbatim": True}
    assert isinstance(elements, list)
    assert [button["value"] for button in elements] == ["y", "n"]
    assert len({button["action_id"] for button in elements}) == 2
    assert all(len(button["text"]["text"]) <= 75 for button in elements)
    assert choice_blocks("x", ()) == []


_MARKS = ["**", "*", "_", "~~", "`", "```\n", "\n\n", "\n", "> ", "- ", "[x](", ")", "<", ">", "|", "&", "|---|\n", " "]
_CALLS = ["<!channel>", "<!here|x>", "<@U1>", "@everyone", "@HERE", "<https://a.example|<!here>>"]
_WORDS = st.sampled_from([*_MARKS, *_CALLS, "https://a.example/?a=1&b", "word ", "é", "𝔘"])
_MARKDOWN = st.lists(_WORDS | st.text(max_size=6), max_size=60).map("".join)
_LINK = re.compile(r"<(?:https?://|mailto:)[^<>|\s]+\|[^<>|]*>")


@given(_MARKDOWN)
def test_nothing_a_model_writes_can_ping(text: str) -> None:
    for part in render_parts(text):
        outside_links = _LINK.sub("", part.mrkdwn)
        outside_code = re.sub(r"```.*?```|`[^`]*`", "", outside_links, flags=re.DOTALL)
        assert "<" not in outside_links.replace("&lt;", "")
        assert not re.search(r"@(everyone|channel|here)\b", outside_code, re.IGNORECASE)


@given(_MARKDOWN, st.integers(60, 400))
def test_parts_fit_and_are_the_same_each_time(text: str, limit: int) -> None:
    parts = render_parts(text, limit)

    assert all(part.mrkdwn.strip() and len(part.mrkdwn) <= limit for part in parts)
    assert parts == render_parts(text, limit)


@given(st.lists(st.sampled_from("ab cd\n"), max_size=300).map("".join), st.integers(10, 50))
def test_plain_words_come_through_complete(text: str, limit: int) -> None:
    words = "".join(part.plain for part in render_parts(text, limit)).split()

    assert "".join(words) == "".join(text.split())
