from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.words import LONGEST_TOOL_NAME, clean_text, tool_description, tool_names
from agent.tools.registry import PROTECTED

servers = st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True)


@given(st.text(max_size=300), st.integers(5, 200))
def test_cleaned_text_is_short_and_holds_nothing_that_cannot_be_seen(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)

    assert len(cleaned) <= limit
    assert not [char for char in cleaned if unicodedata.category(char).startswith("C") and char not in "\n\t"]


@given(servers, st.lists(st.text(min_size=1, max_size=80), max_size=20))
def test_names_are_usable_each_once_and_the_same_in_any_order(server: str, names: list[str]) -> None:
    given_names = tool_names(server, names)

    assert set(given_names) == set(names)
    assert len(set(given_names.values())) == len(given_names)
    assert tool_names(server, reversed(names)) == given_names
    for name in given_names.values():
        assert re.fullmatch(r"[A-Za-z0-9_-]+", name)
        assert len(name) <= LONGEST_TOOL_NAME
        assert name.startswith(f"{server}__")
        assert name not in PROTECTED


@given(servers, servers, st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_tools_of_two_servers_never_share_a_name(one: str, other: str, first: str, second: str) -> None:
    if one != other:
        assert set(tool_names(one, [first]).values()).isdisjoint(tool_names(other, [second]).values())


def test_colliding_names_are_numbered() -> None:
    assert tool_names("a", ["x y", "x.y", "x_y"]) == {"x y": "a__x_y", "x.y": "a__x_y_2", "x_y": "a__x_y_3"}


def test_hidden_text_is_taken_out() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey") + "\ufe01\u200b\u202e\u2066"

    assert clean_text(f"read{hidden} it", 100) == "read it"


def test_description_says_whose_word_it_is() -> None:
    assert tool_description("wiki", "Reads a page.") == "[wiki] Reads a page."
    assert tool_description("wiki", "") == "[wiki] The server does not say what this does."
    assert len(tool_description("wiki", "x" * 10**6)) == 1_000
