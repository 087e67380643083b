"""A page made to hold the bot up, or to swell, is read as plain text, in little time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.net.page import MOST_HTML_BYTES, Page, page_text

OPENERS = (
    "<!--",
    "<!",
    "<![",
    "<![CDATA[",
    "</",
    "</a",
    "<a ",
    "<a href='",
    "<a href=x ",
    "<script",
    "<?",
    '<a b="',
    "<!-- >",
)


@pytest.mark.parametrize("opener", OPENERS)
def test_page_of_beginnings_without_an_end_takes_no_time(opener: str, benchless: Callable[[], float]) -> None:
    """Five seconds for what takes hundredths of one; the parser alone would take hours."""
    body = (opener * (MOST_HTML_BYTES // len(opener))).encode()
    assert page_text(Page("https://example.com/", 200, "text/html", "utf-8", body)) is not None

    assert benchless() < 5


def test_number_of_columns_is_not_the_pages_to_choose() -> None:
    body = b"<table><tr><td colspan=99999999>x</td></tr></table>"

    assert len(page_text(Page("https://example.com/", 200, "text/html", "utf-8", body)) or "") < 1_000
