from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.llm.clean import StreamCleaner, clean

CASES = [
    ("plain text", "Hello there.", "Hello there."),
    ("thinking", "<think>secret</think>Hello", "Hello"),
    ("case, blanks, attributes", '< Thinking mode="deep" >secret</ THINKING >Hello', "Hello"),
    ("every name", "<antthinking>s</antthinking><inner_monologue>s</inner_monologue>Hi", "Hi"),
    ("unclosed thinking", "Hello <think>secret", "Hello"),
    ("final inside unclosed thinking", "<think>secret <final>Hello</final>", "Hello"),
    ("stray closing tag", "Hello</think> there", "Hello there"),
    ("pipes", "<|think|>secret<|/think|>Hello", "Hello"),
    ("final only", "draft <final>Hello</final> rest", "Hello"),
    ("several finals", "<final>one</final> x <final>two</final>", "one\ntwo"),
    ("unclosed final", "draft <final>Hello", "Hello"),
    ("thinking inside final", "<final>Hel<think>secret</think>lo</final>", "Hello"),
    ("tool tag", 'On it. <tool_call>{"name":"x"}</tool_call>Done', "On it. Done"),
    ("unclosed tool tag keeps the text before it", 'Let me look. <tool_call>{"na', "Let me look."),
    ("bracketed note", '[Called tool search({"q": [1, 2]})]\nHello', "Hello"),
    ("bracketed note without end", "Hi\n[Called tool search({\nthere", "Hi\n\nthere"),
    ("a link is no note", "[called](http://x)", "[called](http://x)"),
    ("fenced code", "```xml\n<think>x</think>\n```\n<think>s</think>Hi", "```xml\n<think>x</think>\n```\nHi"),
    ("tilde fence", "~~~\n<final>x</final>\n~~~", "~~~\n<final>x</final>\n~~~"),
    ("unclosed fence is code to the end", "```\n<think>x", "```\n<think>x"),
    ("inline code", "Use `<think>` to think", "Use `<think>` to think"),
    ("double backticks", "``a ` <think>`` b", "``a ` <think>`` b"),
    ("a lone backtick hides nothing", "it`s <think>secret</think>fine", "it`s fine"),
    ("blank lines in code stay", "```\na\n\n\n\nb\n```", "```\na\n\n\n\nb\n```"),
    ("blank lines collapse", "a\n\n\n\n\nb", "a\n\nb"),
    ("trim", "\n  a \n\n", "a"),
    ("nothing left", "<think>all of it</think>", ""),
    ("comparisons", "a < b and b <c and <thinker> <think-tank>", "a < b and b <c and <thinker> <think-tank>"),
    ("cut inside a tag", "Hello <thinking", "Hello"),
    ("other name inside", "<think>a <reasoning>b</reasoning> c</think>d", "d"),
    ("self-closing", "a<think/>b", "ab"),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_shows_only_what_people_may_see(text: str, expected: str) -> None:
    assert clean(text) == expected


TAGS = (
    "<think>",
    "</think>",
    "<final>",
    "</final>",
    "<|think|>",
    "<tool_call>",
    "</tool_call>",
    "<",
    ">",
    "<thi",
    "nk>",
)
MARKS = ("<", ">", "`", "```", "```\n", "~~~\n", "[Called tool x(", ")]", "[", "]", "|", "/")
WORDS = ("\n", "\n\n\n", "a", " word ", "thi", "é")
PIECES = st.sampled_from(TAGS + MARKS + WORDS)


@given(st.lists(PIECES, max_size=14).map("".join), st.data())
@example("<think>a</think>b", None)
def test_cleaned_stream_equals_cleaned_whole(text: str, data: st.DataObject | None) -> None:
    cleaner = StreamCleaner()
    start = 0
    while start < len(text):
        size = data.draw(st.integers(1, 6)) if data is not None else 1
        cleaner.feed(text[start : start + size])
        start += size

    assert cleaner.finish() == clean(text)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_no_tag_or_thought_ever_flashes(noise: str) -> None:
    text = "Hello <think>SECRET" + noise.replace("<final>", "").replace("think", "") + "</think> world"
    cleaner = StreamCleaner()

    shown = [cleaner.feed(character) for character in text]

    assert not any("SECRET" in view or "<th" in view for view in shown)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_without_final_tags_the_view_only_grows(text: str) -> None:
    text = text.replace("<final>", "")
    cleaner = StreamCleaner()
    last = ""

    for character in text:
        view = cleaner.feed(character)
        assert view.startswith(last.rstrip())
        last = view


def test_plain_words_are_shown_as_they_come() -> None:
    cleaner = StreamCleaner()

    assert [cleaner.feed(piece) for piece in ("Good", " morn", "ing")] == ["Good", "Good morn", "Good morning"]
