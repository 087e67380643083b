"""A page of the web as text for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

MOST_HTML_BYTES = 1024 * 1024
"""What is converted of a page: conversion takes about a second for it."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset(
    {"application/json", "application/xml", "application/javascript", "application/yaml", "application/toml"}
)
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "nav")


@dataclass(frozen=True, slots=True)
class Page:
    """What a server answered. `url` is where the redirects ended; `charset` is what the server said, or None."""

    url: str
    status: int
    media_type: str
    charset: str | None
    body: bytes


def page_text(page: Page) -> str | None:
    """The page as Markdown or as it is; None for what is no text."""
    media = page.media_type
    if media in _HTML:
        return _markdown(page)
    if media.startswith("text/") or media in _TEXT or media.endswith(("+json", "+xml")):
        return _decoded(page)
    return None


def _decoded(page: Page) -> str:
    try:
        return page.body.decode(page.charset or "utf-8", errors="replace")
    except LookupError:
        return page.body.decode("utf-8", errors="replace")


_MOST_OPEN = 200
"""Beginnings of tags without an end. The parser looks for the end of each one anew, so many of them take it hours."""


def _is_unclosed(html: bytes) -> bool:
    """Whether a page is made of tags, comments or sections that begin and never end: no real one is."""
    open_comments = html[html.rfind(b"-->") + 1 :].count(b"<!--")
    open_sections = html[html.rfind(b"]>") + 1 :].count(b"<![")
    most_tags = max(piece.count(b"<") for piece in html.split(b">"))
    return max(open_comments, open_sections, most_tags) > _MOST_OPEN


def _markdown(page: Page) -> str:
    if _is_unclosed(page.body[:MOST_HTML_BYTES]):
        return _decoded(page)[:MOST_HTML_BYTES]
    from bs4 import BeautifulSoup
    from bs4.exceptions import ParserRejectedMarkup
    from markdownify import MarkdownConverter

    try:
        soup = BeautifulSoup(page.body[:MOST_HTML_BYTES], "html.parser", from_encoding=page.charset)
    except ParserRejectedMarkup:
        return _decoded(page)[:MOST_HTML_BYTES]
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    _tidy(soup, page.url)
    try:
        text = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(soup)
    except RecursionError:
        text = soup.get_text("\n", strip=True)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    if len(page.body) > MOST_HTML_BYTES:
        kept.append(f"[the page goes on: {MOST_HTML_BYTES} of {len(page.body)} bytes were read]")
    return "\n".join([f"Title: {title}", "", *kept] if title else kept)


def _tidy(soup: BeautifulSoup, base: str) -> None:
    """Take out what people do not see, and let links stand by themselves."""
    for unseen in soup([*_UNSEEN, "title"]):
        unseen.decompose()
    for cell in soup(["td", "th"], colspan=True):
        del cell["colspan"]  # a number of the page's choice, repeated as so many columns
    for link in soup("a", href=True):
        try:
            link["href"] = urljoin(base, str(link["href"]))
        except ValueError:
            del link["href"]
