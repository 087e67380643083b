"""A server that is a program: started in a group of its own, spoken to in lines of JSON, ended with all it started.

The library's own transport keeps a line of any length in memory and gives the program the terminal for its errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from agent.mcp.config import Program
from agent.mcp.errors import ServerLost

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from agent.mcp.streams import Streams

log = structlog.get_logger(__name__)

LONGEST_LINE = 4 * 1024 * 1024
STEP_OF_ENDING = timedelta(seconds=1)
"""How long the program gets after its input was closed, and again after it was told to end."""

_MOST_ERROR_LINES = 200
_LONGEST_ERROR_LINE = 500
# What programs need to find themselves; the rest of our environment holds tokens.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")


@asynccontextmanager
async def running(
    server: str, program: Program, variables: Mapping[str, str], hide: Callable[[str], str], ended: asyncio.Event
) -> AsyncIterator[Streams]:
    """The streams of a started program. `ended` is set when it closes its output. Raises ServerLost."""
    import anyio

    process = await _start(program, variables)
    to_session, from_program = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    from_session, to_program = anyio.create_memory_object_stream["SessionMessage"](0)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = (
                group.create_task(_read(process, to_session, ended)),
                group.create_task(_write(process, to_program, ended)),
                group.create_task(_report(server, process, hide)),
            )
            try:
                yield from_program, from_session
            finally:
                await _end(process)
                to_program.close()
                # What is still in the pipes is read: they are closed at their end only.
                _, open_still = await asyncio.wait(tasks, timeout=STEP_OF_ENDING.total_seconds())
                for task in open_still:
                    task.cancel()
    finally:
        for stream in (to_session, from_program, from_session, to_program):
            stream.close()


async def _start(program: Program, variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(variables)
    try:
        return await asyncio.create_subprocess_exec(
            program.command,
            *program.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
            limit=LONGEST_LINE,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "its command cannot be run"
        raise ServerLost(f"its program could not be started: {reason}.") from error


async def _read(
    process: asyncio.subprocess.Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ended: asyncio.Event,
) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            try:
                # Read by the standard library: the adapter's own reader gives up on nesting that costs one tool here.
                message = jsonrpc_message_adapter.validate_python(json.loads(line), by_name=False)
            except (ValueError, RecursionError):
                log.debug("mcp_line_unreadable", length=len(line))
                continue
            await to_session.send(SessionMessage(message))
    except (ValueError, OSError):  # ValueError: a line longer than the limit
        log.warning("mcp_output_unusable")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass  # the session is over
    finally:
        ended.set()
        to_session.close()
    with suppress(OSError):
        while await process.stdout.read(LONGEST_LINE):
            pass


async def _write(
    process: asyncio.subprocess.Process, to_program: MemoryObjectReceiveStream[SessionMessage], ended: asyncio.Event
) -> None:
    import anyio

    assert process.stdin is not None
    try:
        async for message in to_program:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(line.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()
    except OSError:
        ended.set()
    except anyio.ClosedResourceError:
        pass  # the end


async def _report(server: str, process: asyncio.subprocess.Process, hide: Callable[[str], str]) -> None:
    """The program's errors, for those who look at the log that closely. All of it is read: a full pipe stops it."""
    assert process.stderr is not None
    lines = 0
    with suppress(OSError):
        while piece := await process.stderr.read(64 * 1024):
            for line in piece.decode("utf-8", "replace").splitlines():
                if lines < _MOST_ERROR_LINES and line.strip():
                    log.debug("mcp_server_stderr", server=server, line=hide(line[:_LONGEST_ERROR_LINE]))
                    lines += 1


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, then tell its group to end, then end it. What it started and left behind ends too."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _is_gone(process):
        _signal(process, signal.SIGTERM)
        await _is_gone(process)
    _signal(process, signal.SIGKILL)
    if not await _is_gone(process):
        log.error("mcp_program_survived", pid=process.pid)


async def _is_gone(process: asyncio.subprocess.Process) -> bool:
    try:
        async with asyncio.timeout(STEP_OF_ENDING.total_seconds()):
            await process.wait()
    except TimeoutError:
        return process.returncode is not None
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
