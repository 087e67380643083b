"""Requests to the APIs of the web, with credentials that the model never sees."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import BeforeValidator, Field
from pydantic import JsonValue as AnyJson
from yarl import URL

from agent.extensions.services import Carrier, Injection
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.net.address import Unreachable, check_url, holds_credential, is_credential_header, spellings
from agent.net.page import Page, page_text
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.builtin.files import save_file
from agent.tools.schema import Arguments
from agent.workspace.errors import WorkspaceError

if TYPE_CHECKING:
    from agent.net.client import WebRequest

_MOST_SAVED_BYTES = 50 * 1024 * 1024
_MOST_BODY_BYTES = 1024 * 1024
_MOST_HEADERS = 40
_LONGEST_HEADER = 4096
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")  # RFC 9110, 5.6.2: token
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Said by the client itself, or about the connection: RFC 9110, 7.6.1.
_NOT_GIVEN = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
    "proxy-connection",
})  # fmt: skip


class Method(StrEnum):
    """What `http` can ask for."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"
    PATCH = "PATCH"

    @classmethod
    def _missing_(cls, value: object) -> Method | None:
        upper = value.upper() if isinstance(value, str) else None
        return next((method for method in cls if method.value == upper), None)


def _named(value: object) -> object:
    """A map of headers, also from a list of name and value pairs."""
    if not isinstance(value, list):
        return value
    pairs = [(item.get("name"), item.get("value")) for item in value if isinstance(item, dict)]
    if len(pairs) != len(value) or len({str(name).lower() for name, _ in pairs}) != len(pairs):
        raise ValueError("give each header once, with name and value")
    return dict(pairs)


class HttpArguments(Arguments):
    """Arguments of `http`."""

    method: Method = Method.GET
    url: str = Field(description="https address")
    headers: Annotated[dict[str, str], BeforeValidator(_named)] = Field(default_factory=dict)
    body: AnyJson = Field(default=None, description="text, or a value sent as JSON")
    timeout_secs: int = Field(default=30, ge=1, le=120)
    save_to: str | None = Field(default=None, description="file in your folder for the answer")

    @property
    def is_plain_get(self) -> bool:
        """Whether the request carries nothing but its address."""
        return self.method is Method.GET and not self.headers and self.body is None


class Send(Protocol):
    """Asks the web. Raises Unreachable."""

    def __call__(self, request: WebRequest, timeout: timedelta, most_bytes: int) -> Awaitable[Page]: ...


class Credentials(Protocol):
    """What stored credentials go where."""

    def knows(self, host: str) -> bool:
        """Whether a service of this host is known, so that a credential may be sent there."""
        ...

    async def injections(self, user: UserId, host: str) -> Sequence[Injection]:
        """What to add to a request of this person to this host. Does not raise."""
        ...


class Http:
    """Asks an API. What it sends is searched for secrets first; stored credentials are added after that.

    A plain GET of an address that stands in the conversation needs no consent; one that the model put together can
    carry something out of the conversation and asks, as everything else does. What holds a credential given by hand
    asks every time.
    """

    def __init__(
        self,
        send: Send,
        credentials: Credentials,
        contains_secret: Callable[[str], bool],
        root: Path,
        may_save: Callable[[ToolContext], bool],
    ) -> None:
        self._send = send
        self._credentials = credentials
        self._contains_secret = contains_secret
        self._root = root
        self._may_save = may_save
        self.spec: ToolSpec = ToolSpec(
            "http",
            "Call a web API. Stored credentials of known services are added by the program; never write one yourself.",
            HttpArguments,
            Effect.OUTSIDE,
            assess=_assess,
            assess_effect=_effect,
            told_address=self._told_address,
            check=_fault,
            timeout=timedelta(seconds=130),
            rate=RateLimit(30, 500),
        )

    def scope(self, arguments: HttpArguments) -> PathScope:
        return PathScope.of(arguments.save_to) if arguments.save_to else PathScope.nothing()

    async def run(self, arguments: HttpArguments, context: ToolContext) -> ToolOutput:
        from agent.net.client import MOST_BYTES, WebRequest

        body = _encoded(arguments.body)
        said = "\n".join(f"{name}: {value}" for name, value in arguments.headers.items())
        sent = "\n".join((spellings(arguments.url), said, (body or b"").decode(errors="replace")))
        if self._contains_secret(sent):
            return _error("it holds what looks like a credential, so it was not sent. Stored ones are added anyway.")
        if arguments.save_to and not self._may_save(context):
            return _error("files are not available to this person. It was not sent.")
        url, headers = check_url(arguments.url), dict(arguments.headers)
        if isinstance(arguments.body, dict | list):
            headers = {"Content-Type": "application/json", **headers}
        host = url.host or ""
        added = () if context.is_shared else await self._credentials.injections(context.user, host)
        url, headers = _injected(url, headers, added)
        request = WebRequest(url, arguments.method.value, headers, body)
        most = _MOST_SAVED_BYTES if arguments.save_to else MOST_BYTES
        try:
            page = _without(await self._send(request, timedelta(seconds=arguments.timeout_secs), most), added)
            return await self._answer(page, arguments, context, used=bool(added))
        except Unreachable as error:
            return _error(str(error))
        except WorkspaceError as error:
            return _error(f"the answer came but was not saved: {error}")

    async def _answer(self, page: Page, arguments: HttpArguments, context: ToolContext, *, used: bool) -> ToolOutput:
        lines = [f"Status: {page.status}", f"Type: {page.media_type}"]
        if used:
            lines.append("A stored credential was used.")
        elif context.is_shared and self._credentials.knows(URL(arguments.url).host or ""):
            lines.append("Stored credentials are used in private chats alone.")
        if arguments.save_to is not None:
            save = (self._root, context.scope, arguments.save_to, page.body, _MOST_SAVED_BYTES)
            lines.append(f"Saved {len(page.body):,} bytes to {await asyncio.to_thread(save_file, *save)}.")
        else:
            text = await asyncio.to_thread(page_text, page) if page.body else ""
            lines += ["", f"[{len(page.body)} bytes that are no text; use save_to]" if text is None else text]
        return ToolOutput("\n".join(lines), is_error=page.status >= 400)

    def _told_address(self, arguments: HttpArguments) -> str | None:
        host = URL(arguments.url).host or ""
        return arguments.url if arguments.is_plain_get and not self._credentials.knows(host) else None


async def send_to_the_web(request: WebRequest, timeout: timedelta, most_bytes: int) -> Page:
    """Asks the internet. The HTTP client loads at the first call."""
    from agent.net.client import WebClient

    return await WebClient().send(request, timeout, most_bytes)


def _assess(arguments: HttpArguments) -> Approval:
    by_hand = holds_credential(arguments.url) or any(is_credential_header(*pair) for pair in arguments.headers.items())
    return Approval.ALWAYS if by_hand else Approval.UNLESS_ALWAYS


def _effect(arguments: HttpArguments) -> Effect:
    if arguments.method is not Method.GET:
        return Effect.OUTSIDE
    return Effect.WRITE if arguments.save_to else Effect.READ  # RFC 9110, 9.2.1: GET asks for no change


def _fault(arguments: HttpArguments) -> str | None:
    try:
        check_url(arguments.url)
    except Unreachable as error:
        return f"{error} It was not sent."
    if len(arguments.headers) > _MOST_HEADERS:
        return f"more than {_MOST_HEADERS} headers. It was not sent."
    for name, value in arguments.headers.items():
        if name.lower() in _NOT_GIVEN:
            return f"the header {name} is set by the program. It was not sent."
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value) or len(value) > _LONGEST_HEADER:
            return "a header is not well formed. It was not sent."
    if len(_encoded(arguments.body) or b"") > _MOST_BODY_BYTES:
        return "the body is larger than 1 MiB. It was not sent."
    return None


def _encoded(body: AnyJson) -> bytes | None:
    if body is None:
        return None
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def _injected(url: URL, headers: Mapping[str, str], added: Sequence[Injection]) -> tuple[URL, dict[str, str]]:
    """The request with credentials. One given by hand in the same place is replaced."""
    out = dict(headers)
    for injection in added:
        if injection.carrier is Carrier.QUERY:
            url = url.update_query({injection.name: injection.value.get_secret_value()})
        else:
            out = {name: value for name, value in out.items() if name.lower() != injection.name.lower()}
            out[injection.name] = injection.value.get_secret_value()
    return url, out


def _without(page: Page, added: Sequence[Injection]) -> Page:
    """The answer without the credentials that were sent: some servers repeat what they were told."""
    body = page.body
    for injection in added:
        secret = injection.value.get_secret_value()
        for part in (secret, secret.rpartition(" ")[2]):
            body = body.replace(part.encode(), b"[REDACTED]")
    return replace(page, body=body)


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
