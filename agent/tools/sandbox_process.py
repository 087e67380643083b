"""Runs one program to its end: both streams drained as they come, the whole process group killed when it is over."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from agent.tools.sandbox_request import Finished, TimedOut

_GRACE_SECONDS = 5.0  # for a killed process to be gone, and for its last output

# The only variables of ours that a command may see; no name of a secret is among them.
_LANGUAGE = ("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM")
_MACHINE = (
    *_LANGUAGE,
    *("PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "EDITOR", "VISUAL"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "NODE_PATH"),
)


def language_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Language, time zone and terminal."""
    return _pick(environment, _LANGUAGE)


def machine_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those, and where the machine's programs are."""
    return _pick(environment, _MACHINE)


async def run_program(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    timeout: timedelta,
    output_bytes: int,
    folder: Path | None = None,
    descriptors: Sequence[int] = (),
) -> Finished | TimedOut:
    """Run `argv` with its input closed; `descriptors` stay open in it. Raises OSError if it cannot be started."""
    output = _HeadAndTail(output_bytes)
    read_end, write_end = os.pipe()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: output, os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
                pass_fds=tuple(descriptors),
            )
        except BaseException:
            transport.close()
            raise
    finally:
        os.close(write_end)
    timed_out = False
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await _end(process, output, transport)
    if timed_out:
        return TimedOut(output.text())
    assert process.returncode is not None
    return Finished(process.returncode, output.text())


async def _end(process: asyncio.subprocess.Process, output: _HeadAndTail, transport: asyncio.ReadTransport) -> None:
    """Kill what is left of the group, and take what it had written."""
    with suppress(ProcessLookupError, PermissionError):  # all gone, or another user's by now
        os.killpg(process.pid, signal.SIGKILL)
    try:
        with suppress(TimeoutError):  # something that left the group may still hold the pipe
            async with asyncio.timeout(_GRACE_SECONDS):
                await process.wait()
                await output.ended.wait()
    finally:
        transport.close()


class _HeadAndTail(asyncio.Protocol):
    """Keeps the beginning and the end of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self.ended = asyncio.Event()
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def data_received(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * self._half:
            self._trim()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def text(self) -> str:
        self._trim()
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return f"{head}\n[... {self._omitted} bytes left out ...]\n{tail}" if self._omitted else head + tail

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._half)
        self._omitted += excess
        del self._tail[:excess]


def _pick(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in names or name.startswith("LC_")}
