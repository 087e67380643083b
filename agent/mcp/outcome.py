"""What comes of connecting a server, for the tools that ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.credentials.names import CredentialName


@dataclass(frozen=True, slots=True)
class Connected:
    """The server can be used."""

    detail: str


@dataclass(frozen=True, slots=True)
class AsksFor:
    """The person's next message is awaited: a credential, or the end of a sign-in."""

    name: CredentialName
    instructions: str


@dataclass(frozen=True, slots=True)
class NotConnected:
    """The server cannot be used now; why."""

    reason: str


Outcome = Connected | AsksFor | NotConnected
