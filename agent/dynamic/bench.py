"""Runs the script of a built tool: always in the sandbox, never in the bot's own process."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from agent.dynamic.blueprint import Blueprint
from agent.model.tool_call import JsonValue
from agent.tools.sandbox_bubblewrap import AGENT_FILES
from agent.tools.sandbox_request import Finished, Limits, NotRun, Sandbox, SandboxRequest, TimedOut

CALL_LIMIT = timedelta(seconds=60)
EXAMPLE_LIMIT = timedelta(seconds=20)
DECLINED = 2
"""The exit code by which a script says that it cannot do what was asked. Any other one but 0 means that it broke."""
LONGEST_SHOWN = 2_000

_MEBIBYTE = 1024 * 1024
_LIMITS = Limits(file_bytes=64 * _MEBIBYTE, scratch_bytes=64 * _MEBIBYTE, output_bytes=32 * 1024)
_CODE, _ARGUMENTS = "tool.py", "arguments.json"
_LINE = re.compile(rf'File "{AGENT_FILES}/{_CODE}", line (\d{{1,6}})')
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]{0,80}?(?:Error|Exception|Interrupt|Exit|Warning))(?::|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """The files of a call. `hidden` and `readonly_folders` lie in `folder`; `readonly` are shown beside or in it."""

    folder: Path
    hidden: tuple[Path, ...] = ()
    readonly: tuple[Path, ...] = ()
    readonly_folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The script did it. `text`: what it printed."""

    text: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The script said that it cannot do this."""

    text: str


@dataclass(frozen=True, slots=True)
class Broke:
    """The script is at fault. `kind` names the fault and nothing of what was worked on."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nothing ran."""

    reason: str


Ran = Answered | Declined | Broke | Unavailable


class Bench:
    """Scripts get their arguments as one JSON object on their standard input and answer on their output."""

    def __init__(self, sandbox: Sandbox, python: str | None) -> None:
        self._sandbox = sandbox
        self._python = python

    async def run(
        self, code: str, arguments: Mapping[str, JsonValue], place: Place, *, writes: bool, limit: timedelta
    ) -> Ran:
        """One call. Files can be changed in the place's folder alone, and only if `writes`."""
        if self._python is None:
            return Unavailable("there is no Python in /usr to run it")
        async with _scratch() as scratch:
            files = await asyncio.to_thread(_put, scratch, code, arguments)
            request = SandboxRequest(
                _command(self._python),
                place.folder,
                readonly=(*place.readonly, *files),
                readonly_folders=place.readonly_folders,
                hidden=place.hidden,
                timeout=limit,
                limits=_LIMITS,
                writable=writes,
            )
            outcome = await self._sandbox.run(request)
        match outcome:
            case Finished(exit_code=0, output=output):
                return Answered(output)
            case Finished(exit_code=code_, output=output) if code_ == DECLINED:
                return Declined(output)
            case Finished(exit_code=code_, output=output):
                return Broke(fault_kind(code_, output), output)
            case TimedOut(output=output):
                return Broke(f"not done after {limit.total_seconds():g} s", output)
            case NotRun(reason=reason):
                return Unavailable(reason)
            case unreachable:
                assert_never(unreachable)

    async def failing_example(self, blueprint: Blueprint) -> str | None:
        """Which example does not come out as expected, and what came instead; None if all do.

        Each runs in an empty folder of its own.
        """
        for number, example in enumerate(blueprint.examples, 1):
            async with _scratch() as scratch:
                place = Place(scratch / "folder")
                ran = await self.run(
                    blueprint.code, example.arguments, place, writes=blueprint.writes, limit=EXAMPLE_LIMIT
                )
            match ran:
                case Answered(text=text) if example.expect in text:
                    continue
                case Answered(text=text):
                    fault = f"the expected text is not in its output.\n{shown(text)}"
                case Declined(text=text):
                    fault = f"it declined (exit code {DECLINED}).\n{shown(text)}"
                case Broke(kind=kind, text=text):
                    fault = f"it broke: {kind}.\n{shown(text)}"
                case Unavailable(reason=reason):
                    return f"the sandbox did not run it: {reason}."
                case unreachable:
                    assert_never(unreachable)
            return f"example {number}: {fault}"
        return None


def fault_kind(exit_code: int, output: str) -> str:
    """The fault by its exit code, the class of the exception and the line of the script; no words of the output."""
    exceptions, lines = _EXCEPTION.findall(output), _LINE.findall(output)
    what = exceptions[-1] if exceptions and lines else f"exit code {exit_code}"
    return f"{what} in line {lines[-1]}" if lines else what


def shown(output: str) -> str:
    """As much of an output as a report holds: its end, where faults are named."""
    text = output.strip() or "(It printed nothing.)"
    return text if len(text) <= LONGEST_SHOWN else f"[...] {text[-LONGEST_SHOWN:]}"


def _command(python: str) -> str:
    words = shlex.join((python, "-I", "-B", "-X", "utf8", str(AGENT_FILES / _CODE)))
    return f"exec {words} < {AGENT_FILES / _ARGUMENTS}"


def _put(scratch: Path, code: str, arguments: Mapping[str, JsonValue]) -> tuple[Path, ...]:
    files = (scratch / _CODE, scratch / _ARGUMENTS)
    files[0].write_text(code, "utf-8", "replace")
    files[1].write_text(json.dumps(dict(arguments)), "utf-8")
    return files


@asynccontextmanager
async def _scratch() -> AsyncIterator[Path]:
    place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="optimclaw-tool-"))
    try:
        yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
