"""Credentials from the model's side: ask the person for one, list names, forget one. No tool gives a value."""

from __future__ import annotations

import json
from typing import ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.credentials import wording
from agent.credentials.errors import CredentialRefused
from agent.credentials.names import credential_name
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments

_PRIVATE_ONLY = (
    "credentials are handled in private chats alone, and this chat has other readers. Nothing was done. "
    "Tell the person to write to you in a private chat and to ask for it there."
)
_UNREACHABLE = "the credential store is not reachable at the moment. Nothing was done."


class Credentials(Protocol):
    """What these tools need of the credential store."""

    async def exists(self, user: UserId, name: str) -> bool: ...

    async def names(self, user: UserId) -> tuple[str, ...]: ...

    async def delete(self, user: UserId, name: str) -> bool: ...


class Awaiting(BaseModel):
    """What `tool_auth` returns: the next message of the thread is to be the credential of this name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    awaiting_token: bool
    name: str
    instructions: str


def awaited(tool_name: str, output: ToolOutput) -> Awaiting | None:
    """The request that a tool's raw output makes, if it makes one. Other tools cannot, whatever they return."""
    if tool_name != ToolAuth.spec.name or output.is_error:
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
        "Ask the person for a service's credential. It is stored encrypted; you never see it. Never ask for one in "
        "your own words.",
        NameArguments,
        Effect.WRITE,
        Approval.UNLESS_ALWAYS,
    )

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def scope(self, arguments: NameArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: NameArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return _error(_PRIVATE_ONLY)
        try:
            name = credential_name(arguments.name)
            replaces = await self._credentials.exists(context.user, name)
        except CredentialRefused as error:
            return _error(str(error))
        except StoreError:
            return _error(_UNREACHABLE)
        request = Awaiting(awaiting_token=True, name=name, instructions=wording.instructions(name, replaces=replaces))
        return ToolOutput(request.model_dump_json())


class SecretListArguments(Arguments):
    """Arguments of `secret_list`: none."""


class SecretList:
    """Names the credentials of the one who asks."""

    spec: ClassVar = ToolSpec(
        "secret_list", "The names of the person's stored credentials.", SecretListArguments, Effect.READ
    )

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def scope(self, arguments: SecretListArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SecretListArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return _error(_PRIVATE_ONLY)
        try:
            names = await self._credentials.names(context.user)
        except StoreError:
            return _error(_UNREACHABLE)
        return ToolOutput(json.dumps(names, ensure_ascii=False) if names else "No credential is stored.")


class SecretDelete:
    """Forgets a credential of the one who asks."""

    spec: ClassVar = ToolSpec(
        "secret_delete", "Delete a stored credential.", NameArguments, Effect.WRITE, Approval.UNLESS_ALWAYS
    )

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def scope(self, arguments: NameArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: NameArguments, context: ToolContext) -> ToolOutput:
        if context.is_shared:
            return _error(_PRIVATE_ONLY)
        try:
            if await self._credentials.delete(context.user, arguments.name):
                return ToolOutput("Deleted. The service itself still accepts it until it is revoked there.")
        except CredentialRefused as error:
            return _error(str(error))
        except StoreError:
            return _error(_UNREACHABLE)
        return _error("no credential of this name is stored; secret_list gives the names.")


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
