from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.markdown import (
    Alignment,
    BulletList,
    Code,
    CodeBlock,
    Document,
    Emphasis,
    Heading,
    Image,
    LineBreak,
    Link,
    NumberedList,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    parse_markdown,
    plain_text,
)


def blocks(text: str) -> tuple[object, ...]:
    return parse_markdown(text).blocks


def letters(value: object) -> str:
    """Every character of a tree that would be shown, in order."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "".join(letters(part) for part in value)
    if dataclasses.is_dataclass(value):
        return "".join(letters(getattr(value, field.name)) for field in dataclasses.fields(value))
    return ""


def test_inline_styles_nest() -> None:
    assert blocks("a **b *c*** ~~d~~ `e`") == (
        Paragraph(
            (
                Text("a "),
                Strong((Text("b "), Emphasis((Text("c"),)))),
                Text(" "),
                Strike((Text("d"),)),
                Text(" "),
                Code("e"),
            )
        ),
    )


def test_line_end_inside_paragraph_is_a_line_break() -> None:
    assert blocks("one\ntwo *x*") == (Paragraph((Text("one"), LineBreak(), Text("two "), Emphasis((Text("x"),)))),)


def test_lists_nest_and_keep_their_first_number() -> None:
    assert blocks("* a\n\n  3. b\n  4. c\n* d") == (
        BulletList(
            (
                (
                    Paragraph((Text("a"),)),
                    NumberedList(3, ((Paragraph((Text("b"),)),), (Paragraph((Text("c"),)),))),
                ),
                (Paragraph((Text("d"),)),),
            )
        ),
    )


def test_blocks_of_each_kind() -> None:
    assert blocks("## H\n\n> q\n\n---\n\n```py x\ncode\n\n```\n\n    old") == (
        Heading(2, (Text("H"),)),
        Quote((Paragraph((Text("q"),)),)),
        Rule(),
        CodeBlock("code\n", "py"),
        CodeBlock("old", ""),
    )


def test_table_has_alignments_header_and_rows() -> None:
    assert blocks("| a | b | c |\n|--|:-:|--:|\n| 1 | **2** | 3 |") == (
        Table(
            (Alignment.LEFT, Alignment.CENTER, Alignment.RIGHT),
            ((Text("a"),), (Text("b"),), (Text("c"),)),
            (((Text("1"),), (Strong((Text("2"),)),), (Text("3"),)),),
        ),
    )


def test_links_and_images() -> None:
    assert blocks("[a](https://x.org) ![b](https://y.org/z.png)") == (
        Paragraph((Link((Text("a"),), "https://x.org"), Text(" "), Image("b", "https://y.org/z.png"))),
    )


def test_html_is_text() -> None:
    assert letters(parse_markdown("<b>x</b>\n\n<div>y</div>")) == "<b>x</b><div>y</div>"


def test_script_link_stays_text() -> None:
    assert letters(parse_markdown("[x](javascript:alert)")) == "[x](javascript:alert)"


def test_link_definition_stays_visible() -> None:
    assert letters(parse_markdown("See [1].\n\n[1]: https://x.org")) == "See [1].[1]: https://x.org"


def test_nesting_beyond_reason_keeps_its_text() -> None:
    assert "treasure" in letters(parse_markdown("> " * 300 + "treasure"))


def test_long_text_is_read_in_pieces_without_cutting_a_fence() -> None:
    code = "\n\n".join(["line"] * 8000)

    document = parse_markdown(f"intro *x*\n\n```\n{code}\n```\n\nend *y*")

    assert document.blocks[1] == CodeBlock(code, "")
    assert len(document.blocks) == 3


def test_plain_text_drops_styles() -> None:
    (paragraph,) = parse_markdown("a **b** `c`\n[d](https://x.org) ![e](https://y.org)").blocks

    assert isinstance(paragraph, Paragraph)
    assert plain_text(paragraph.children) == "a b c d e"


@given(st.text(alphabet="ab1. -:;!?,()'\"/\n\u00a0é😀", max_size=80))
def test_short_way_for_unmarked_text_gives_what_the_parser_gives(text: str) -> None:
    marked = parse_markdown(text + "\n\n*x*")  # markup anywhere takes the long way

    assert parse_markdown(text).blocks == marked.blocks[:-1]


@given(st.text(max_size=200) | st.lists(st.sampled_from([*"*_`[]()!<>#|-~\\& \n1.a"]), max_size=200).map("".join))
def test_parsing_is_total(text: str) -> None:
    assert isinstance(parse_markdown(text), Document)


@pytest.mark.parametrize(
    "unit", ["[", "![", "*a_ ", "`a``", "> ", "[a](", "**x ", "|", "<", "&", "- ", "~~a ", "\\", "a|b\n-|-\n"]
)
def test_hostile_text_keeps_its_length_bound(unit: str) -> None:
    assert isinstance(parse_markdown(unit * 5000), Document)


@given(st.text(alphabet="ab *_`>#\n-1.", max_size=120))
def test_no_letter_is_lost(text: str) -> None:
    shown = letters(parse_markdown(text))

    assert [c for c in text if c == "b"] == [c for c in shown if c == "b"]
