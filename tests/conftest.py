"""Keeps every test on this machine: reaching for another one fails the test that does it, even if its code copes."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import settings


class LeftTheMachine(RuntimeError):
    """A test tried to reach something beyond loopback."""


_allowed = {"", "localhost", "localhost.", urlsplit(os.environ.get("TEST_DATABASE_URL", "")).hostname or ""}
attempts: list[str] = []


def _is_here(host: str) -> bool:
    if host in _allowed:
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: the interpreter tells it of every connection and every look-up before it happens."""
    match event, arguments:
        case (("socket.connect" | "socket.sendto"), (socket.SocketType(family=family), (host, *_))) if family in (
            socket.AF_INET,
            socket.AF_INET6,
        ):
            pass
        case (("socket.getaddrinfo" | "socket.gethostbyname"), (host, *_)):
            pass
        case _:
            return
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    if name.endswith(".invalid"):  # RFC 6761, 6.4: no such name exists; said here, so that no resolver is asked
        raise socket.gaierror(socket.EAI_NONAME, "no such host")
    if not _is_here(name):
        attempts.append(f"{event} {name}")
        raise LeftTheMachine(f"{event} {name}: tests reach nothing but 127.0.0.1")


sys.addaudithook(_watch)

# The same examples everywhere, and no fault because a machine is slow.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _stays_on_this_machine() -> Iterator[None]:
    attempts.clear()
    yield
    assert not attempts, f"this test tried to leave the machine: {attempts}"
