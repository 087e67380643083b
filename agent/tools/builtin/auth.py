"""Credentials from the model's side: ask the person for one, list names, forget one. No tool gives a value."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import ClassVar, Protocol, assert_never

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.credentials import wording
from agent.credentials.errors import CredentialRefused
from agent.credentials.names import credential_name
from agent.mcp.errors import ConfigUnusable
from agent.mcp.outcome import AsksFor, Connected, NotConnected, Outcome
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.store.credentials import Terms
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments
from channels.message import Address

PRIVATE_ONLY = (
    "credentials are handled in private chats alone, and this chat has other readers. Nothing was done. "
    "Tell the person to write to you in a private chat and to ask for it there."
)
UNREACHABLE = "the credential store is not reachable at the moment. Nothing was done."


class Credentials(Protocol):
    """What these tools need of the credential store."""

    async def exists(self, user: UserId, name: str) -> bool: ...

    async def names(self, user: UserId) -> tuple[str, ...]: ...

    async def delete(self, user: UserId, name: str) -> bool: ...


class Services(Protocol):
    """What is known of services and their hosts."""

    def reload(self) -> None: ...

    def terms_for(self, name: str) -> Terms: ...


class Servers(Protocol):
    """What `tool_auth` needs of the MCP servers."""

    def knows(self, name: str) -> bool: ...

    async def authenticate(self, name: str, address: Address) -> Outcome: ...


class Awaiting(BaseModel):
    """What `tool_auth` and `tool_activate` return: the next message is to be the credential of this name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    awaiting_token: bool
    name: str
    instructions: str


def awaited(tool_name: str, output: ToolOutput) -> Awaiting | None:
    """The request that a tool's raw output makes, if it makes one. Other tools cannot, whatever they return."""
    if tool_name not in ("tool_auth", "tool_activate") or output.is_error:
        return None
    try:
        request = Awaiting.model_validate_json(output.text)
    except ValidationError:
        return None
    return request if request.awaiting_token else None


class NameArguments(Arguments):
    """Arguments of `tool_auth` and `secret_delete`."""

    name: str = Field(description="the service, such as github")


class ToolAuth:
    """Asks the person for a credential, whether or not anything is known by its name."""

    spec: ClassVar = ToolSpec(
        "tool_auth",
        "Ask the person for the credential of a service or an MCP server, or to sign in there. It is stored encrypted; "
        "you never see it. Never ask for one in your own words.",
        NameArguments,
        Effect.WRITE,
        Approval.UNLESS_ALWAYS,
        timeout=timedelta(seconds=150),
        keeps_arguments=True,
    )

    def __init__(self, credentials: Credentials, services: Services, servers: Servers) -> None:
        self._credentials = credentials
        self._services = services
        self._servers = servers

    def scope(self, arguments: NameArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: NameArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return error(PRIVATE_ONLY)
        try:
            name = credential_name(arguments.name)
            if context.is_operator and self._servers.knows(name):
                return told(await self._servers.authenticate(name, context.address))
            await asyncio.to_thread(self._services.reload)
            replaces = await self._credentials.exists(context.user, name)
        except (CredentialRefused, ConfigUnusable) as fault:
            return error(str(fault))
        except StoreError:
            return error(UNREACHABLE)
        hosts = (self._services.terms_for(name).host_pattern or "").replace(" ", " and ")
        return told(AsksFor(name, wording.instructions(name, replaces=replaces, goes_to=hosts)))


def told(outcome: Outcome) -> ToolOutput:
    """What came of connecting something, for the model; a request for a credential in the form that is understood."""
    match outcome:
        case AsksFor(name=name, instructions=instructions):
            return ToolOutput(Awaiting(awaiting_token=True, name=name, instructions=instructions).model_dump_json())
        case Connected(detail=detail):
            return ToolOutput(f"Connected: {detail}.")
        case NotConnected(reason=reason):
            return error(f"not connected: {reason}")
        case unreachable:
            assert_never(unreachable)


class SecretListArguments(Arguments):
    """Arguments of `secret_list`: none."""


class SecretList:
    """Names the credentials of the one who asks."""

    spec: ClassVar = ToolSpec(
        "secret_list", "The names of the person's stored credentials.", SecretListArguments, Effect.READ, rare=True
    )

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def scope(self, arguments: SecretListArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SecretListArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return error(PRIVATE_ONLY)
        try:
            names = await self._credentials.names(context.user)
        except StoreError:
            return error(UNREACHABLE)
        return ToolOutput(json.dumps(names, ensure_ascii=False) if names else "No credential is stored.")


class SecretDelete:
    """Forgets a credential of the one who asks."""

    spec: ClassVar = ToolSpec(
        "secret_delete",
        "Delete a stored credential.",
        NameArguments,
        Effect.WRITE,
        Approval.UNLESS_ALWAYS,
        rare=True,
    )

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def scope(self, arguments: NameArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: NameArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return error(PRIVATE_ONLY)
        try:
            if await self._credentials.delete(context.user, arguments.name):
                return ToolOutput("Deleted. The service itself still accepts it until it is revoked there.")
        except CredentialRefused as fault:
            return error(str(fault))
        except StoreError:
            return error(UNREACHABLE)
        return error("no credential of this name is stored; secret_list gives the names.")


def error(text: str) -> ToolOutput:
    """An expected failure."""
    return ToolOutput(text, is_error=True)
