"""What starts containers is asked for, and what of this installation they need inside."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from agent.jobs.container.limits import SOCKET_FOLDER, WALL_TIME
from agent.tools.sandbox_bubblewrap import PROGRAM_PATH, WORKSPACE

_PACKAGES = ("agent", "bot", "channels", "config")
_APP, _SITE, _PYTHON = "/opt/app", "/opt/site", "/opt/python"
_LIBRARIES = ("aiohttp", "pydantic", "structlog", "re2")
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bind:
    """A folder of the machine, and where it lies inside."""

    source: Path
    target: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """How the worker is called inside, and what has to be mounted for it, for reading only."""

    argv: tuple[str, ...]
    binds: tuple[Bind, ...]
    variables: tuple[tuple[str, str], ...]

    def called(self, *arguments: str) -> tuple[str, ...]:
        """The command line with arguments of its own."""
        return (*self.argv, *arguments)


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What one container may use."""

    memory_bytes: int = 1024 * _MEBIBYTE
    file_bytes: int = 256 * _MEBIBYTE
    scratch_bytes: int = 256 * _MEBIBYTE
    processes: int = 128
    processors: int = 1
    wall: timedelta = WALL_TIME + timedelta(seconds=60)  # its own end comes first; this is for one that nobody ends


@dataclass(frozen=True, slots=True)
class Launch:
    """One container: `label` tells whose it is, `arguments` what the worker is told, `word` what it reads at its start.

    `folder`: what it may write, `owner` whom that belongs to inside. `door`: the folder with the socket to the program;
    None: it can reach nothing at all.
    """

    label: str
    folder: Path
    owner: int
    door: Path | None
    arguments: tuple[str, ...] = ()
    word: bytes = field(default=b"", repr=False)
    limits: ContainerLimits = field(default_factory=ContainerLimits)

    def binds(self, program: Program) -> tuple[Bind, ...]:
        """All that is mounted."""
        own = [Bind(self.folder, str(WORKSPACE), is_writable=True)]
        if self.door is not None:
            own.append(Bind(self.door, SOCKET_FOLDER))
        return (*program.binds, *own)


class Running(Protocol):
    """A container that was started."""

    def ended(self) -> Awaitable[int]:
        """Its exit status, once it has ended."""
        ...

    async def last_words(self) -> str:
        """The end of what it printed, once it has ended."""
        ...


class ContainerHost(Protocol):
    """Starts containers. Leaving `running` ends the container, whatever it does, before anything else goes on."""

    @property
    def name(self) -> str: ...

    def running(self, launch: Launch) -> AbstractAsyncContextManager[Running]:
        """Raises OSError where nothing can be started."""
        ...

    async def reap(self, mark: str, keep: Collection[str]) -> Sequence[str]:
        """End the containers whose label begins with `mark` and is none of `keep`; the labels of those it ended."""
        ...


class RefusingHost:
    """Stands in where containers cannot be had; `reason` is for whoever asked for one."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self.reason = reason


def worker_program(*, is_own_system: bool) -> Program:
    """The worker of this installation. `is_own_system`: the container has the /usr of this machine.

    Only our four packages are mounted, never the folder around them: a `.env` may lie there.
    """
    home = Path(__file__).parents[3]
    binds = [Bind(home / name, f"{_APP}/{name}") for name in _PACKAGES]
    libraries = [Bind(place, f"{_SITE}{number}") for number, place in enumerate(_places_of_libraries(), 1)]
    binds += libraries
    prefix = Path(sys.base_prefix).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not prefix.is_relative_to("/usr") or prefix.is_relative_to("/usr/local"):
        binds.append(Bind(prefix, _PYTHON))
        python = f"{_PYTHON}/bin/{version}"
    else:
        python = f"/usr/bin/{version}" if is_own_system else version
    variables = {
        "PYTHONPATH": ":".join((_APP, *(bind.target for bind in libraries))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": PROGRAM_PATH,
        "HOME": str(WORKSPACE),
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
    }
    return Program((python, "-m", "bot.container_worker"), tuple(binds), tuple(variables.items()))


def _places_of_libraries() -> list[Path]:
    """The folders that what the worker imports was installed in: one, as a rule."""
    found = {Path(spec.origin).parents[1] for name in _LIBRARIES if (spec := find_spec(name)) and spec.origin}
    return sorted(found)


def owner_for(identity: int) -> int:
    """Who works in a folder with this identity: of a bot that runs as root another user, else the bot's own."""
    return identity if os.geteuid() == 0 else os.geteuid()
