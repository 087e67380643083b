"""Which hosts a stored credential may be sent to, and how it is put into a request.

The catalogue and the operator's `services.json` say which hosts belong to a name. The hosts that were in force when a
credential was entered are sealed with it: a later change of the file does not send an old key somewhere new.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol, assert_never

import structlog
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from agent.credentials.errors import CredentialError, CredentialRefused
from agent.credentials.names import credential_name
from agent.credentials.store import NO_TERMS, Credential, matches_any
from agent.extensions.catalogue import WELL_KNOWN, Scheme, Service
from agent.extensions.view import Extension, ExtensionKind
from agent.model.ids import UserId
from agent.store.credentials import Terms
from agent.store.errors import StoreError

log = structlog.get_logger(__name__)

SERVICES_FILE = "services.json"
MOST_SERVICES = 256
_LARGEST_FILE = 256 * 1024
_HOST = re.compile(r"(?:\*\.(?=[^.]+\.))?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,62}")
_FIELD = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A key in one of these would change what is asked, or of whom.
_NOT_FOR_KEYS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection", "cookie"})


class Carrier(StrEnum):
    """Which part of a request carries it."""

    HEADER = "header"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Injection:
    """What is added to a request at the last moment."""

    carrier: Carrier
    name: str
    value: SecretStr


class Vault(Protocol):
    """What is needed of the credential store."""

    async def get(self, user: UserId, name: str) -> Credential: ...


class ServiceBook:
    """The services that are known. `claim` adds what other extensions know of credentials of their own."""

    def __init__(self, home: Path) -> None:
        self._path = home / SERVICES_FILE
        self._services: tuple[Service, ...] = WELL_KNOWN
        self._claims: dict[str, Terms] = {}
        self.faults: tuple[tuple[str, str], ...] = ()
        """What is wrong with the operator's file, by the name of the entry."""

    def reload(self) -> None:
        """Read the operator's file again. Blocks. A bad entry costs itself, a bad file all of its entries."""
        own, self.faults = _read(self._path)
        names = {service.name for service in own}
        both = (*own, *(service for service in WELL_KNOWN if service.name not in names))
        self._services = tuple(sorted(both, key=lambda service: service.name))
        for name, _ in self.faults:
            log.warning("service_unusable", service=name)

    def claim(self, claims: Mapping[str, Terms]) -> None:
        """Set the terms of credentials that belong to no service, by their names."""
        self._claims = dict(claims)

    def find(self, name: str) -> Service | None:
        return next((service for service in self._services if service.name == name), None)

    def claiming(self, host: str) -> tuple[Service, ...]:
        """The services that a host belongs to."""
        return tuple(service for service in self._services if matches_any(service.hosts, host))

    def terms_for(self, name: str) -> Terms:
        """The terms that a credential of this name is sealed with."""
        service = self.find(name)
        if service is not None:
            return Terms(service.name, service.host_pattern)
        return self._claims.get(name, NO_TERMS)

    def extensions(self, stored: Iterable[str]) -> tuple[Extension, ...]:
        """All services, on where a credential of that name is among the `stored` ones."""
        names = frozenset(stored)
        return tuple(
            Extension(
                ExtensionKind.SERVICE,
                service.name,
                f"requests to {', '.join(service.hosts)}",
                service.name in names,
                "connected" if service.name in names else "available",
                for_everyone=True,
            )
            for service in self._services
        )


class HttpCredentials:
    """Puts a person's own credentials into their requests."""

    def __init__(self, book: ServiceBook, vault: Vault) -> None:
        self._book = book
        self._vault = vault

    def knows(self, host: str) -> bool:
        """Whether some service claims the host."""
        return bool(self._book.claiming(host))

    async def injections(self, user: UserId, host: str) -> tuple[Injection, ...]:
        """What to add to a request to `host`: of this person's credentials those that are sealed for it.

        One that cannot be had is left out.
        """
        found: list[Injection] = []
        for service in self._book.claiming(host):
            try:
                credential = await self._vault.get(user, service.name)
            except (CredentialError, StoreError):
                continue
            if credential.may_be_sent_to(host) and (injection := _injection(service, credential)) is not None:
                found.append(injection)
        return tuple(found)


def _injection(service: Service, credential: Credential) -> Injection | None:
    secret = credential.secret.get_secret_value()
    if not secret.isascii() or not secret.isprintable():
        log.warning("credential_cannot_be_sent", service=service.name)  # a line break would begin another header
        return None
    match service.scheme:
        case Scheme.BEARER:
            return Injection(Carrier.HEADER, "Authorization", SecretStr(f"Bearer {secret}"))
        case Scheme.BASIC:
            coded = base64.b64encode(secret.encode("ascii")).decode("ascii")
            return Injection(Carrier.HEADER, "Authorization", SecretStr(f"Basic {coded}"))
        case Scheme.HEADER:
            return Injection(Carrier.HEADER, service.field, SecretStr(secret))
        case Scheme.QUERY:
            return Injection(Carrier.QUERY, service.field, SecretStr(secret))
        case unreachable:
            assert_never(unreachable)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    hosts: tuple[str, ...] = Field(min_length=1, max_length=16)
    scheme: str = "bearer"


class _Fault(Exception):
    """What is wrong with an entry."""


def _read(path: Path) -> tuple[tuple[Service, ...], tuple[tuple[str, str], ...]]:
    try:
        entries = _entries(path)
    except _Fault as fault:
        return (), ((SERVICES_FILE, str(fault)),)
    services: list[Service] = []
    faults: list[tuple[str, str]] = []
    for name, raw in sorted(entries.items())[:MOST_SERVICES]:
        try:
            services.append(_service(name, raw))
        except _Fault as fault:
            faults.append(("".join(filter(str.isprintable, name))[:64], str(fault)))
    return tuple(services), tuple(faults)


def _entries(path: Path) -> dict[str, object]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _Fault(f"it cannot be read ({error.strerror}).") from None
    with open(handle, "rb") as file:
        if os.fstat(handle).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _Fault("it can be changed by other users of the machine; run chmod 600 on it.")
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise _Fault("it is larger than 256 KiB.")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _Fault("it is no JSON.") from None
    entries = document.get("services") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise _Fault('it has no object "services".')
    return entries


def _service(name: str, raw: object) -> Service:
    try:
        folded = credential_name(name)
        entry = _Entry.model_validate(raw)
    except CredentialRefused as error:
        raise _Fault(str(error)) from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _Fault(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}.") from None
    hosts = tuple(host.lower().rstrip(".") for host in entry.hosts)
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise _Fault("a host is a name such as api.example.com, or *.example.com for all names below it.")
    word, _, field = entry.scheme.partition(" ")
    if word not in list(Scheme):
        raise _Fault("scheme is bearer, basic, header NAME or query NAME.")
    scheme = Scheme(word)
    if (scheme in (Scheme.HEADER, Scheme.QUERY)) != bool(field) or (field and not _FIELD.fullmatch(field)):
        raise _Fault("scheme is bearer, basic, header NAME or query NAME.")
    if scheme is Scheme.HEADER and field.lower() in _NOT_FOR_KEYS:
        raise _Fault(f"the header {field} cannot carry a key.")
    return Service(folded, hosts, scheme, field)
