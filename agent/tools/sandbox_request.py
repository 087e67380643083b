"""What a sandbox is asked, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Protocol

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use. Memory, file size and processor time are for each of its processes."""

    memory_bytes: int = 1024 * _MEBIBYTE
    file_bytes: int = 256 * _MEBIBYTE
    scratch_bytes: int = 256 * _MEBIBYTE
    processes: int = 128
    output_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """One command line for a shell.

    `folder`: the only place it can write, made if it is missing. `workdir`: where in it the command starts. `hidden`:
    folders in it that must look empty. `readonly`: files it may only read, in the folder or elsewhere; missing ones are
    left out. `readonly_folders`: folders directly in it that it may only read; missing ones are made. Not `writable`:
    it may only read all of the folder; a backend without walls cannot keep that.
    """

    command: str
    folder: Path
    workdir: PurePosixPath = field(default_factory=PurePosixPath)
    readonly: tuple[Path, ...] = ()
    readonly_folders: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    timeout: timedelta = timedelta(seconds=120)
    limits: Limits = field(default_factory=Limits)
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """The command ended by itself. `output`: both streams, in order; the middle of a long one is cut.

    `refusals`: what it asked of the network in vain.
    """

    exit_code: int
    output: str
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The command was killed at its time limit, with all it had started."""

    output: str
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotRun:
    """Nothing was started."""

    reason: str


Outcome = Finished | TimedOut | NotRun


class Sandbox(Protocol):
    """Runs commands. Cancelling `run` kills what was started before the cancellation goes on."""

    @property
    def name(self) -> str:
        """The backend, for logs and `check`."""
        ...

    async def run(self, request: SandboxRequest) -> Outcome: ...
