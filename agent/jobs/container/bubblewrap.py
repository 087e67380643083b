"""Containers of bubblewrap, for machines without podman and docker: the shell's sandbox around the whole worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.jobs.container.child import running_child
from agent.jobs.container.host import Launch, Program, Running
from agent.tools.sandbox_bubblewrap import (
    PROGRAM_PATH,
    WORKSPACE,
    drop_to,
    fresh_mounts,
    limits_of,
    open_text,
    system_mounts,
)
from agent.tools.sandbox_request import Limits, SandboxRequest

MARK = "--label"
"""The argument before a worker's label, by which an orphan is found among the processes of the machine."""


@dataclass(frozen=True, slots=True)
class BubblewrapHost:
    """Each container is a process tree of the bot's, which dies with it."""

    command: str
    program: Program
    name: str = "bubblewrap"

    @asynccontextmanager
    async def running(self, launch: Launch) -> AsyncIterator[Running]:
        with ExitStack() as opened:
            setup = open_text("\0".join(self._setup(launch)), opened)
            argv = [self.command, "--args", str(setup), "--", *self._inside(launch)]
            async with running_child(argv, {"PATH": PROGRAM_PATH}, launch.word, [setup]) as child:
                yield child

    async def reap(self, mark: str, keep: Collection[str]) -> Sequence[str]:
        return await asyncio.to_thread(reap_processes, mark, keep)

    def _setup(self, launch: Launch) -> Iterator[str]:
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
        yield from ("--die-with-parent", "--new-session", "--hostname", "job", "--cap-drop", "ALL")
        if os.geteuid() == 0:  # only to become somebody else, who keeps none of them
            yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
        else:
            yield from ("--unshare-user",)
        yield "--clearenv"
        for name, value in self.program.variables:
            yield from ("--setenv", name, value)
        yield from system_mounts(())
        yield from fresh_mounts(launch.limits.scratch_bytes)
        binds = launch.binds(self.program)
        parents = {str(place) for bind in binds for place in PurePosixPath(bind.target).parents[:-1]}
        for folder in sorted(parents):  # else made by bubblewrap, for its user alone
            yield from ("--perms", "0755", "--dir", folder)
        for bind in binds:
            yield from ("--bind" if bind.is_writable else "--ro-bind", str(bind.source), bind.target)
        yield from ("--remount-ro", "/")
        yield from ("--chdir", "/")  # root without its capabilities may not enter a folder that only its owner may

    def _inside(self, launch: Launch) -> Iterator[str]:
        limits = launch.limits
        kept = Limits(limits.memory_bytes, limits.file_bytes, limits.scratch_bytes, limits.processes)
        yield from limits_of(SandboxRequest("", launch.folder, timeout=limits.wall, limits=kept))
        if os.geteuid() == 0:
            yield from drop_to(launch.owner)
        yield from ("/usr/bin/env", "-C", str(WORKSPACE))
        yield from self.program.called(*launch.arguments, MARK, launch.label)


def reap_processes(mark: str, keep: Collection[str]) -> Sequence[str]:
    """End the workers whose label begins with `mark`, but for those to `keep`. Blocks."""
    ended: set[str] = set()
    for process, label in _workers():
        if label.startswith(mark) and label not in keep:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
                ended.add(label)
    return sorted(ended)


def _workers() -> Iterator[tuple[int, str]]:
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        with suppress(OSError):
            arguments = place.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
            if "bot.container_worker" in arguments and MARK in arguments[:-1]:
                yield int(place.name), arguments[arguments.index(MARK) + 1]
