"""The door between one command's empty network and the proxy.

The command keeps a network namespace of its own in which there is nothing but loopback. Before it starts, a launcher in
there opens a listening socket on loopback and hands it to the bot over a socket pair. So nothing of ours runs beside
the command, no socket lies in the file system, and no other command can reach this one's door: it is in no other
namespace. When the command ends, the bot closes the door with all connections through it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent.tools.sandbox_proxy import HostProxy, Usage

log = structlog.get_logger(__name__)

PORT = 3128  # the usual one of a proxy; in the command's own network nobody else has it

_ADDRESS = f"http://127.0.0.1:{PORT}"
_HERE = "localhost,127.0.0.1,::1"
# Python ignores two signals, and programs would inherit that: `yes | head` would never end.
_LAUNCHER = f"""
import _signal, os, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
try:
    listener = socket.socket()
    listener.bind(("127.0.0.1", {PORT}))
    listener.listen(64)
    socket.send_fds(channel, [b"."], [listener.fileno()])
    listener.close()
except OSError:
    pass
channel.close()
for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
    _signal.signal(number, _signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
# The answer shows that the proxy itself has heard it.
_PROBE = f"""
import socket
with socket.create_connection(("127.0.0.1", {PORT}), 5) as connection:
    connection.sendall(b"PROBE\\r\\n\\r\\n")
    print(connection.recv(12).decode())
"""
PROBE_ANSWER = "HTTP/1.1 400"


@dataclass(frozen=True, slots=True)
class Door:
    """One command's door. `descriptor` is the launcher's end of the socket pair."""

    descriptor: int
    usage: Usage


def find_python(path: str) -> str | None:
    """A Python in the folders of `path` that is the system's own, and so is there inside the sandbox, too."""
    found = (shutil.which("python3", path=folder) for folder in path.split(":"))
    return next((python for python in found if python and Path(python).resolve().is_relative_to("/usr")), None)


def probing(python: str) -> str:
    """A command line that prints `PROBE_ANSWER` if the door is open."""
    return shlex.join((python, "-I", "-S", "-c", _PROBE))


def launching(python: str, descriptor: int) -> tuple[str, ...]:
    """What stands before a program with its arguments to open the door and then become that program."""
    return (python, "-I", "-S", "-c", _LAUNCHER, str(descriptor))


def proxy_variables() -> Mapping[str, str]:
    """Where programs look for a proxy; some know only the lower-case names."""
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _ADDRESS) | {"NO_PROXY": _HERE}
    return proxies | {name.lower(): value for name, value in proxies.items()}


@asynccontextmanager
async def open_door(proxy: HostProxy) -> AsyncIterator[Door]:
    """A door for as long as the context lasts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        usage = Usage()
        serving = asyncio.create_task(_serve(proxy, ours, usage))
        try:
            yield Door(theirs.fileno(), usage)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            if not serving.cancelled() and (error := serving.exception()):
                log.warning("sandbox_network_lost", kind=type(error).__name__)


async def _serve(proxy: HostProxy, channel: socket.socket, usage: Usage) -> None:
    with await _take_listener(channel) as listener:
        await proxy.serve(listener, usage)


async def _take_listener(channel: socket.socket) -> socket.socket:
    """The listening socket that the launcher sends. Raises OSError."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(channel)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:
        raise ConnectionError
    os.set_inheritable(descriptors[0], False)
    listener = socket.socket(fileno=descriptors[0])
    if listener.family != socket.AF_INET or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise ConnectionError
    return listener
