from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from channels.chunking import utf16_len
from channels.telegram_render import MAX_TEXT, EntityKind, Part, Style, halves, render, render_draft


def only(markdown: str) -> Part:
    (part,) = render(markdown)
    return part


def shown(part: Part) -> list[tuple[str, str, str]]:
    """Entities as (kind, detail, the text they cover)."""
    units = part.text.encode("utf-16-le")
    return [
        (e.style.kind.value, e.style.detail, units[2 * e.offset : 2 * (e.offset + e.length)].decode("utf-16-le"))
        for e in part.entities
    ]


def test_inline_styles_become_entities_counted_in_utf16() -> None:
    part = only("😀 **b** *i* ~~s~~ `c` [l](https://x.org)")

    assert part.text == "😀 b i s c l"
    assert shown(part) == [
        ("bold", "", "b"),
        ("italic", "", "i"),
        ("strikethrough", "", "s"),
        ("code", "", "c"),
        ("text_link", "https://x.org", "l"),
    ]


def test_text_without_markup_has_no_entities() -> None:
    assert only("1 < 2 && _x\nnext") == Part("1 < 2 && _x\nnext")


def test_headings_lists_rules_and_paragraphs() -> None:
    part = only("# Title\n\n* **one**\n  - two\n* three\n\n4. four\n5. five\n\n---\n\nend")

    assert part.text == "Title\n\n• one\n   • two\n• three\n\n4. four\n5. five\n\n———\n\nend"
    assert shown(part) == [("bold", "", "Title"), ("bold", "", "one")]


def test_code_block_keeps_its_language_and_its_characters() -> None:
    part = only("look:\n```python\nif a < b:\n    *x* = 1\n```")

    assert part.text == "look:\n\nif a < b:\n    *x* = 1"
    assert shown(part) == [("pre", "python", "if a < b:\n    *x* = 1")]


def test_code_is_cut_out_of_the_style_around_it() -> None:
    assert shown(only("**a `b` c**")) == [("bold", "", "a "), ("code", "", "b"), ("bold", "", " c")]


def test_quote_holds_styles_and_is_never_nested() -> None:
    part = only("> a **b**\n>\n> > c")

    assert part.text == "a b\n\nc"
    assert shown(part) == [("blockquote", "", "a b\n\nc"), ("bold", "", "b")]


def test_narrow_table_is_aligned_in_fixed_width() -> None:
    part = only("| a | n |\n|---|--:|\n| **xy** | 1 |\n| 漢 | 22 |")

    assert part.text == "a  |  n\n---+---\nxy |  1\n漢 | 22"
    assert [kind for kind, _, _ in shown(part)] == ["pre"]


def test_wide_table_is_a_list() -> None:
    part = only("| Name | Story |\n|---|---|\n| **Ada** | " + "long " * 12 + "|\n| Bob | |")

    assert part.text.startswith("• Ada\n   Story: long long")
    assert part.text.endswith("\n• Bob")


def test_link_to_an_unknown_scheme_is_shown_as_text() -> None:
    part = only("[here](ftp://x.org/a) and [ping](tg://user?id=1)")

    assert part.text == "here (ftp://x.org/a) and ping"
    assert shown(part) == [("text_link", "tg://user?id=1", "ping")]


def test_image_is_a_link() -> None:
    assert shown(only("![cat](https://x.org/c.png)")) == [("text_link", "https://x.org/c.png", "cat")]


def test_link_that_shows_its_own_address_needs_no_entity() -> None:
    assert only("<https://x.org>") == Part("https://x.org")


def test_bullets_written_as_asterisks_with_bold_starts() -> None:
    part = only("*   **One:** a\n*   **Two:** b")

    assert part.text == "• One: a\n• Two: b"
    assert [text for _, _, text in shown(part)] == ["One:", "Two:"]


def test_halves_of_surrogate_pairs_are_replaced() -> None:
    assert only("a \ud83d\ude00 \ud83d b").text == "a 😀 \ufffd b"


def test_code_block_longer_than_a_message_is_code_in_every_part() -> None:
    parts = render("```text\n" + "a" * 9000 + "\n```")

    assert [e.style for part in parts for e in part.entities] == [Style(EntityKind.PRE, "text")] * 3
    assert "".join(part.text for part in parts) == "a" * 9000


def test_text_of_exactly_one_message_is_not_cut() -> None:
    assert len(render("ж" * MAX_TEXT)) == 1
    assert len(render("ж" * (MAX_TEXT + 1))) == 2


def test_draft_shows_the_beginning_of_a_long_text() -> None:
    part = render_draft("word " * 2000)

    assert part is not None
    assert part.text.endswith("…")
    assert utf16_len(part.text) <= MAX_TEXT
    assert render_draft(" ") is None


def test_halves_lose_nothing() -> None:
    assert [part.text for part in halves(Part("one two three four"))] == ["one two", "three four"]


SIGNS = ["**", "*", "`", "```", "[", "](https://x.org)", "~~", "word", "😀", "👩\u200d👧", "\ud83d"]
markup = st.lists(
    st.sampled_from([*SIGNS, " ", "\n", "\n\n", "> ", "- ", "1. ", "# ", "    ", "| a | b |\n|--|--|\n"])
    | st.text(max_size=8),
    max_size=50,
).map("".join)


@given(markup, st.integers(20, 200))
def test_rendering_is_total_and_its_parts_are_sendable(text: str, limit: int) -> None:
    for part in render(text, limit=limit):
        units = part.text.encode("utf-16-le")
        assert part.text.strip()
        assert len(units) // 2 <= limit
        for entity in part.entities:
            assert 0 <= entity.offset < entity.offset + entity.length <= len(units) // 2
            units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


@given(markup)
def test_code_never_overlaps_other_styles(text: str) -> None:
    for part in render(text):
        for code in part.entities:
            if code.style.kind not in (EntityKind.CODE, EntityKind.PRE):
                continue
            for other in part.entities:
                apart = other.offset + other.length <= code.offset or code.offset + code.length <= other.offset
                assert apart or other is code or other.style.kind is EntityKind.QUOTE


@given(st.text(alphabet="ab *`\n", max_size=200))
def test_rendering_is_deterministic(text: str) -> None:
    assert render(text, limit=30) == render(text, limit=30)
