"""One connection to a server, from the first greeting to the last: what is listed, called and noticed over it.

The library's scopes must be left by the task that entered them, so one task holds a connection. Calls may come from
any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agent.mcp.errors import CallFailed, ServerLost
from agent.mcp.words import clean_text

if TYPE_CHECKING:
    import httpx2
    from mcp.client.session import IncomingMessage
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    from agent.mcp.streams import Streams

MOST_TOOLS = 128
LARGEST_EVENT = 4 * 1024 * 1024
_MOST_PAGES = 16
_LONGEST_REASON = 500
_SLACK = timedelta(seconds=2)
"""How much later than the library we give up: it stops its clock while a request cannot be written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited for a server."""

    connect: timedelta = timedelta(seconds=30)
    listing: timedelta = timedelta(seconds=30)
    call: timedelta = timedelta(seconds=120)
    ping: timedelta = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Listing:
    """The records of a server's tools, as it sent them, and whether there were more than are taken."""

    tools: tuple[object, ...]
    is_cut: bool


class Session:
    """An open connection. `ended` and `changed` are set from outside it: it is over; the list of tools is another."""

    def __init__(
        self, dispatcher: JSONRPCDispatcher[Any], limits: Limits, ended: asyncio.Event, changed: asyncio.Event
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self.ended = ended
        self.changed = changed
        self.doubted = asyncio.Event()
        """A call failed in a way that may mean that the server is gone."""

    async def tools(self) -> Listing:
        """At most `MOST_TOOLS` tools. Raises ServerLost."""
        found: list[object] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._listed({} if cursor is None else {"cursor": cursor})
            tools = page.get("tools")
            found += tools if isinstance(tools, list) else []
            following = page.get("nextCursor")
            if len(found) > MOST_TOOLS or not isinstance(following, str) or following == cursor:
                return Listing(tuple(found[:MOST_TOOLS]), len(found) > MOST_TOOLS)
            cursor = following
        return Listing(tuple(found), is_cut=True)

    async def call(self, name: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The server's own record of a call. Raises CallFailed or ServerLost."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            return await self._ask("tools/call", {"name": name, "arguments": dict(arguments)}, self._limits.call)
        except TimeoutError:
            self.doubted.set()
            seconds = self._limits.call.total_seconds()
            raise CallFailed(f"the server did not answer within {seconds:g} s. What it did is not known.") from None
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                if not _is_answer(error.code):
                    self.doubted.set()
                raise CallFailed(f"the server refused the call: {clean_text(error.message, _LONGEST_REASON)}") from None
            self.doubted.set()
            raise ServerLost("the connection to the server broke during the call. What it did is not known.") from None

    async def is_alive(self) -> bool:
        """Whether the server still answers at all."""
        from mcp import MCPError

        try:
            await self._ask("ping", {}, self._limits.ping)
        except TimeoutError:
            return False
        except MCPError as error:
            return _is_answer(error.code)
        return True

    async def _listed(self, params: Mapping[str, object]) -> Mapping[str, object]:
        from mcp import MCPError

        try:
            return await self._ask("tools/list", params, self._limits.listing)
        except TimeoutError:
            raise ServerLost("it did not list its tools in time.") from None
        except MCPError as error:
            reason = "the connection broke" if not _is_answer(error.code) else "it refused"
            raise ServerLost(f"its tools could not be listed: {reason}.") from None

    async def _ask(self, method: str, params: Mapping[str, object], limit: timedelta) -> Mapping[str, object]:
        from mcp import MCPError
        from mcp_types import REQUEST_TIMEOUT

        async with asyncio.timeout((limit + _SLACK).total_seconds()):
            try:
                return await self._dispatcher.send_raw_request(method, params, {"timeout": limit.total_seconds()})
            except MCPError as error:
                if error.code == REQUEST_TIMEOUT:
                    raise TimeoutError from None
                raise


@asynccontextmanager
async def session_over(streams: Streams, limits: Limits, ended: asyncio.Event) -> AsyncIterator[Session]:
    """Greet the server. The library's errors pass; `connected` translates them."""
    from mcp import ClientSession
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
    from mcp_types import Implementation, ToolListChangedNotification

    changed = asyncio.Event()

    async def notice(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    # Made here, so that results arrive as the server sent them: one bad tool must not cost the whole list, and an
    # output schema that takes minutes to compare is not compared.
    dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
    session = ClientSession(
        dispatcher=dispatcher, message_handler=notice, client_info=Implementation(name="optimclaw", version="1")
    )
    async with session:
        await session.initialize()
        yield Session(dispatcher, limits, ended, changed)


@asynccontextmanager
async def http_streams(url: str, client: httpx2.AsyncClient) -> AsyncIterator[Streams]:
    """The streams of a server over HTTP, on a client of ours."""
    from mcp.client.streamable_http import streamable_http_client

    # Nothing is said at the end: a server that hangs would hold up ours.
    async with (
        client,
        streamable_http_client(
            url, http_client=client, terminate_on_close=False, max_sse_event_size=LARGEST_EVENT
        ) as streams,
    ):
        yield streams


def quiet_library() -> None:
    """Keep the library's records out of the log: they hold messages, addresses with codes and answers of servers."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _is_answer(code: int) -> bool:
    """Whether an error is surely the server's word, and not the library's on a connection that does not work."""
    from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR

    return code not in (CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR)
