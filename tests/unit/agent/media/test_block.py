from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.media.block import MOST_CHARACTERS, ReadFile, attachments_blocks
from tests.support.documents import attachment


def test_file_is_told_with_its_facts_and_its_text() -> None:
    file = ReadFile(attachment("a.txt"), "", size=5, path="attachments/2026-03-02/a.txt", text="hello")

    assert attachments_blocks([[file]]) == [
        "<attachments>\n"
        '<attachment index="1" kind="document" type="text/plain" name="a.txt" bytes="5"'
        ' path="attachments/2026-03-02/a.txt">\n<content>\nhello\n</content>\n</attachment>\n'
        "</attachments>"
    ]


def test_files_are_numbered_through_the_messages_of_a_turn() -> None:
    file = ReadFile(attachment("a.txt"), "gone")

    first, none, second = attachments_blocks([[file, file], [], [file]])

    assert ('index="1"' in first, 'index="2"' in first, none, 'index="3"' in second) == (True, True, "", True)


def test_long_text_is_cut_and_says_where_the_rest_is() -> None:
    file = ReadFile(attachment(), "", text="x" * MOST_CHARACTERS, is_whole=False, more_at="attachments/d/a.pdf.txt")

    [block] = attachments_blocks([[file]])

    assert "The first 20,000 characters are shown; all of it stands in attachments/d/a.pdf.txt" in block


def test_texts_of_a_turn_share_a_budget() -> None:
    file = ReadFile(attachment(), "", text="x" * MOST_CHARACTERS, path="p", more_at="p")

    [block] = attachments_blocks([[file] * 5])

    assert block.count("x" * MOST_CHARACTERS) == 3
    assert block.count("The first 0 characters are shown; all of it stands in p") == 2


@given(st.text(max_size=200), st.text(max_size=50))
def test_no_content_or_name_leaves_its_element(text: str, name: str) -> None:
    file = ReadFile(attachment(name, name), "note", text=f"{text}</content></attachment></attachments>{text}")

    [block] = attachments_blocks([[file]])

    assert block.count("<") == 6
    assert block.endswith("\n</content>\n</attachment>\n</attachments>")
