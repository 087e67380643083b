"""Which MCP servers there are: `mcp.json` as frozen values. A bad entry costs itself and says why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.credentials.errors import CredentialRefused
from agent.credentials.names import credential_name
from agent.mcp.names import SERVER_NAME, token_name

MOST_SERVERS = 64
_CREDENTIAL = re.compile(r"\$\{credential:([^{}]{1,64})\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")  # what services use of RFC 9110, 5.1
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


class OfferedTo(StrEnum):
    """Whom a server's tools are offered to: the operator in private chats, or all people and chats."""

    OPERATOR = "operator"
    EVERYONE = "everyone"


@dataclass(frozen=True, slots=True)
class Program:
    """A server that is a program of this machine. `environment` may name credentials."""

    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that is asked over HTTP. `headers` may name credentials.

    `is_installed`: added in a chat, so it must be public and its word about its own tools is not taken.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    is_installed: bool

    @property
    def host(self) -> str:
        return (urlsplit(self.url).hostname or "").rstrip(".").lower()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server as the operator wants it. `credential`: the name of the one that is sent as a bearer token."""

    name: str
    place: Program | Endpoint
    is_enabled: bool
    offered_to: OfferedTo
    credential: str | None

    @property
    def is_trusted(self) -> bool:
        """Whether the operator wrote the entry: then the server's marks on its tools decide what asks."""
        return isinstance(self.place, Program) or not self.place.is_installed

    @property
    def token_name(self) -> str:
        """The credential that a server over HTTP is known by, unless the entry names another."""
        return self.credential or token_name(self.name)


@dataclass(frozen=True, slots=True)
class Configured:
    """The servers in the order of their names, and what is wrong with the other entries, by name."""

    servers: tuple[ServerConfig, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> ServerConfig | None:
        return next((server for server in self.servers if server.name == name), None)


class _Entry(BaseModel):
    """One entry. Keys that other programs put there are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    command: str | None = Field(default=None, min_length=1, max_length=4096)
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = Field(default=None, min_length=1, max_length=2048)
    headers: dict[str, str] = {}
    type: str | None = None
    enabled: bool = True
    offered_to: OfferedTo = Field(default=OfferedTo.OPERATOR, alias="for")
    credential: str | None = None
    installed: bool = False


class _Fault(Exception):
    """An entry that cannot be used. The text says why."""


def read_config(document: Mapping[str, object]) -> Configured:
    """The servers of a parsed `mcp.json`."""
    entries = document.get("mcpServers", {})
    if not isinstance(entries, Mapping):
        return Configured(faults=(("mcp.json", "mcpServers is no object."),))
    servers: list[ServerConfig] = []
    faults: list[tuple[str, str]] = []
    for name, entry in sorted(entries.items()):
        try:
            if len(servers) == MOST_SERVERS:
                raise _Fault(f"there are more than {MOST_SERVERS} servers.")
            servers.append(_server(name, entry))
        except _Fault as fault:
            faults.append((_shown(name), str(fault)))
    return Configured(tuple(servers), tuple(faults))


def named_credentials(text: str) -> tuple[str, ...]:
    """The credentials that a value names as `${credential:NAME}`."""
    return tuple(_CREDENTIAL.findall(text))


def with_credentials(text: str, secrets: Mapping[str, str]) -> str:
    """A value with each `${credential:NAME}` replaced by the secret of that name."""
    return _CREDENTIAL.sub(lambda match: secrets[match[1]], text)


def _server(name: str, raw: object) -> ServerConfig:
    if not SERVER_NAME.fullmatch(name):
        raise _Fault("its name may have 1 to 32 of a-z, 0-9 and -.")
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _Fault(f"{place}: {first['msg']}." if place else f"{first['msg']}.") from None
    if entry.credential is not None:
        _check_credential(entry.credential)
    for value in (*entry.env.values(), *entry.headers.values()):
        for named in named_credentials(value):
            _check_credential(named)
    return ServerConfig(name, _place(entry), entry.enabled, entry.offered_to, entry.credential)


def _place(entry: _Entry) -> Program | Endpoint:
    if (entry.command is None) == (entry.url is None):
        raise _Fault("it needs either command or url.")
    if entry.command is not None:
        if entry.installed:
            raise _Fault("a program cannot be installed from a chat.")
        if any("\0" in part for part in (entry.command, *entry.args, *entry.env, *entry.env.values())):
            raise _Fault("it holds a NUL byte.")
        return Program(entry.command, entry.args, tuple(sorted(entry.env.items())))
    assert entry.url is not None
    if entry.type == "sse":
        raise _Fault("the transport sse is not supported; use the server's streamable HTTP address.")
    for name, value in entry.headers.items():
        if not _HEADER_NAME.fullmatch(name) or _UNPRINTABLE.search(value):
            raise _Fault("a header has a name or a value that cannot be sent.")
    return Endpoint(_url(entry.url), tuple(sorted(entry.headers.items())), entry.installed)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _Fault("url is no address.") from None
    if parts.scheme not in ("http", "https") or not host or _UNPRINTABLE.search(text) or " " in text:
        raise _Fault("url is no http or https address.")
    if parts.username is not None or parts.password is not None:
        raise _Fault("url holds a name or a password; use credential or headers.")
    return parts._replace(fragment="").geturl()


def _check_credential(name: str) -> None:
    try:
        credential_name(name)
    except CredentialRefused as error:
        raise _Fault(str(error)) from None


def _shown(name: str) -> str:
    return "".join(char for char in name if char.isprintable())[:32] or "an entry"
