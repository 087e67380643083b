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


def _markdown(page: Page) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(page.body[:MOST_HTML_BYTES], "html.parser", from_encoding=page.charset)
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
    for link in soup("a", href=True):
        try:
            link["href"] = urljoin(base, str(link["href"]))
        except ValueError:
            del link["href"]
