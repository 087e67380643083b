"""A program that runs beside the bot until it ends, or is ended. The end of its output is kept."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

_KEPT_BYTES = 8 * 1024
_CHUNK = 64 * 1024
_GRACE_SECONDS = 5.0


class Child:
    """A started program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._kept = bytearray()
        self._drained = asyncio.ensure_future(self._drain())

    def ended(self) -> Awaitable[int]:
        return self._process.wait()

    async def last_words(self) -> str:
        """The end of what it printed, once it has ended. Something that it left behind is not waited for long."""
        await asyncio.wait([self._drained], timeout=_GRACE_SECONDS)
        return self._kept.decode(errors="replace")

    async def end(self) -> None:
        """Kill it with all of its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self.last_words()
        self._drained.cancel()

    async def give(self, word: bytes) -> None:
        """Hand over all of its input."""
        stream = self._process.stdin
        assert stream is not None  # asked for at its start
        with suppress(ConnectionError):  # it has ended already, which its status says
            stream.write(word)
            await stream.drain()
        stream.close()

    async def _drain(self) -> None:
        """Read what it prints until its end, so that it never waits for us."""
        stream = self._process.stdout
        assert stream is not None  # asked for at its start
        while data := await stream.read(_CHUNK):
            self._kept += data
            del self._kept[:-_KEPT_BYTES]


@asynccontextmanager
async def running_child(
    argv: Sequence[str],
    environment: Mapping[str, str],
    word: bytes,
    descriptors: Sequence[int] = (),
    clean_up: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Child]:
    """Run `argv` while entered; at the end its whole process group is killed. Raises OSError if it cannot be started.

    `clean_up` ends what does not belong to the group. A cancellation waits for both.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
        pass_fds=tuple(descriptors),
    )
    child = Child(process)
    try:
        await child.give(word)
        yield child
    finally:
        await _whatever_happens(_end(child, clean_up))


async def run_to_end(argv: Sequence[str], environment: Mapping[str, str], timeout: timedelta) -> tuple[int | None, str]:
    """The exit status and the end of the output of a short program; None if it took too long or could not be run."""
    try:
        async with running_child(argv, environment, b"") as child, asyncio.timeout(timeout.total_seconds()):
            return await child.ended(), await child.last_words()
    except TimeoutError:
        return None, "it took too long"
    except OSError as error:
        return None, str(error.strerror)


async def _end(child: Child, clean_up: Callable[[], Awaitable[None]] | None) -> None:
    try:
        await child.end()
    finally:
        if clean_up is not None:
            await clean_up()


async def _whatever_happens(work: Awaitable[None]) -> None:
    """Finish `work` although this task is cancelled meanwhile; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
