"""Reads a page of the web."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.net.address import Unreachable, check_url, holds_credential, spellings
from agent.net.page import Page, page_text
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.schema import Arguments

Get = Callable[[str], Awaitable[Page]]
"""Reads the page at an address. Raises Unreachable."""


class WebFetchArguments(Arguments):
    """Arguments of `web_fetch`."""

    url: str = Field(description="https address")


def _assess(arguments: WebFetchArguments) -> Approval:
    return Approval.ALWAYS if holds_credential(arguments.url) else Approval.UNLESS_ALWAYS


def _fault(arguments: WebFetchArguments) -> str | None:
    try:
        check_url(arguments.url)
    except Unreachable as error:
        return f"The page was not read: {error}"
    return None


class WebFetch:
    """Gives a page as Markdown.

    An address tells its server something. One that holds a secret is never asked, and one that the model put together
    needs consent: words of the conversation could be in it. One that stands in the conversation does not.
    """

    spec: ClassVar = ToolSpec(
        "web_fetch",
        "Read a web page as Markdown.",
        WebFetchArguments,
        Effect.READ,  # RFC 9110, 9.2.1: GET asks for no change
        assess=_assess,
        told_address=lambda arguments: arguments.url,
        check=_fault,
        rate=RateLimit(30, 500),
    )

    def __init__(self, get: Get, contains_secret: Callable[[str], bool]) -> None:
        self._get = get
        self._contains_secret = contains_secret

    def scope(self, arguments: WebFetchArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: WebFetchArguments, context: ToolContext) -> ToolOutput:
        if self._contains_secret(spellings(arguments.url)):
            return ToolOutput("The address holds what looks like a credential. It was not asked.", is_error=True)
        try:
            page = await self._get(arguments.url)
        except Unreachable as error:
            return ToolOutput(f"The page was not read: {error}", is_error=True)
        text = await asyncio.to_thread(page_text, page)
        if text is None:
            size = len(page.body)
            return ToolOutput(
                f"The page was not read: it is {page.media_type} of {size} bytes, no text.", is_error=True
            )
        return ToolOutput(f"URL: {page.url}\nStatus: {page.status}\n{text}", is_error=page.status >= 400)


async def get_from_the_web(url: str) -> Page:
    """Asks the internet. The HTTP client loads at the first call."""
    from agent.net.client import WebClient

    return await WebClient().get(url)
