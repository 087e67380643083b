from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.dotenv import parse_dotenv

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
LINES = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("export A = two words # comment", "two words"),
        ("A='as # it \\n is' # comment", "as # it \\n is"),
        (r'A="a\n\"q\" \\ b"', 'a\n"q" \\ b'),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=http://host/#part", "http://host/#part"),
        ("A=ab'c", "ab'c"),
        ("A=1\r", "1"),
        ("\ufeffA=1", "1"),
    ],
)
def test_value_of_a_line(line: str, value: str) -> None:
    assert parse_dotenv(line) == ({"A": value}, ())


def test_comments_and_blank_lines_say_nothing_and_the_last_line_of_a_name_wins() -> None:
    assert parse_dotenv("# A=0\n\n  \nA=1\nA=2\n") == ({"A": "2"}, ())


@pytest.mark.parametrize("line", ["just words", "1A=2", "A", 'A="open', "A='open", 'A="x" y'])
def test_lines_that_make_no_sense_are_reported(line: str) -> None:
    assert parse_dotenv(f"B=1\n{line}\n") == ({"B": "1"}, (2,))


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_dotenv(text)


@given(NAMES, LINES)
def test_quoted_value_comes_back_as_it_was(name: str, value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_dotenv(f'{name}="{quoted}"').variables == {name: value}
