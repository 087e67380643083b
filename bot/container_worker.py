"""What runs inside a container: `python -m bot.container_worker`, for one job, and ends with it.

Its first line of input holds the job's token. It has no settings, no store and no key of anything; all that leaves it
goes through one socket. `--probe` reports what it can reach instead, for the test of a new kind of container.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import aiohttp
from pydantic import ValidationError

from agent.clock import SystemClock
from agent.jobs.container.delegate import ContainerDelegate, DoorClosed
from agent.jobs.container.limits import FOLDER_HEADER, SOCKET_FOLDER, SOCKET_NAME
from agent.jobs.container.protocol import (
    Brief,
    Event,
    ModelAnswer,
    ModelAsk,
    Prompts,
    Result,
    Status,
    Wire,
    completion_of,
    to_wire,
    tool_to_wire,
)
from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import UserText
from agent.loop.agentic_loop import Exhausted, Failed, Finish, Responded, run_agentic_loop
from agent.loop.context import ReasoningContext
from agent.model.ids import OPERATOR, ThreadId
from agent.safety.layer import SafetyLayer
from agent.tools.base import ToolContext
from agent.tools.builtin import file_tools
from agent.tools.builtin.echo import Echo
from agent.tools.builtin.json import JsonTool
from agent.tools.builtin.shell import ShellTool
from agent.tools.builtin.time import TimeTool
from agent.tools.execute import ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.tools.sandbox_bare import BareRunner
from agent.workspace.scope import OperatorScope
from channels.message import Address

OVER, NO_JOB, DOOR_CLOSED = 0, 2, 3
_WORD_BYTES = 10_000
_QUICK = aiohttp.ClientTimeout(total=30)
_OUT_OF_STEPS = "It used up its {count} steps (maximum iterations) without coming to an end. What it did is kept."
_OUT_OF_TIME = "Its time of {seconds} s was over. What it did is kept."
_BROKE = "Something in its container broke. What it did is kept."
_OUTPUT_BYTES = 100_000
_NOT_TO_BE_WRITTEN = ("/", "/usr", "/opt", "/etc", "/opt/app/agent", "/root", "/home")
_NOT_TO_BE_SEEN = ("/etc/shadow", "/etc/ssh/ssh_host_rsa_key")


class Door:
    """The program outside, over HTTP. Each request is sent once: the other side counts them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def job(self, folder: Path) -> Brief:
        """The task."""
        found = os.stat(folder)
        body = await self._send("GET", "/job", headers={FOLDER_HEADER: f"{found.st_dev}:{found.st_ino}"})
        return Brief.model_validate_json(body)

    async def prompts(self) -> Prompts:
        return Prompts.model_validate_json(await self._send("GET", "/prompts"))

    async def ask_model(self, request: CompletionRequest) -> Completion:
        ask = ModelAsk(
            messages=tuple(to_wire(message) for message in request.messages),
            tools=tuple(tool_to_wire(tool) for tool in request.tools),
            max_tokens=request.max_tokens,
            temperature=request.temperature,
        )
        body = await self._send("POST", "/llm", ask, timeout=aiohttp.ClientTimeout(total=None))
        return completion_of(ModelAnswer.model_validate_json(body))

    async def tell(self, event: Event) -> None:
        await self._send("POST", "/events", event)

    async def report(self, status: Status) -> None:
        await self._send("POST", "/status", status)

    async def finish(self, result: Result) -> None:
        await self._send("POST", "/result", result)

    async def _send(
        self,
        method: str,
        path: str,
        body: Wire | None = None,
        headers: dict[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = _QUICK,
    ) -> bytes:
        data = None if body is None else body.model_dump_json().encode()
        try:
            async with self._session.request(
                method, f"http://optimclaw{path}", data=data, headers=headers, timeout=timeout
            ) as answer:
                text = await answer.read()
                if answer.status != 200:
                    raise DoorClosed(f"{path}: {answer.status} {text[:200].decode(errors='replace')}")
                return text
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DoorClosed(f"{path}: {type(error).__name__}") from error


def executor_of(folder: Path, zone: ZoneInfo) -> tuple[ToolExecutor, ToolRegistry, ToolContext]:
    """The tools of a container on the folder it was given, run as in the program itself."""
    clock = SystemClock()

    async def no_stash(context: ToolContext, call: str) -> str | None:
        return None

    runner = BareRunner({"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"})
    shell = ShellTool(runner, lambda scope: folder, lambda scope: ())
    registry = ToolRegistry([Echo(), TimeTool(clock), JsonTool(no_stash), *file_tools(folder), shell])
    executor = ToolExecutor(
        registry, SafetyLayer((), _OUTPUT_BYTES), RateWindows(clock), None, LocalToolsFor.OPERATOR, _OUTPUT_BYTES
    )
    context = ToolContext(
        user=OPERATOR,  # within its own walls it may do everything
        is_operator=True,
        is_shared=False,
        scope=OperatorScope(),
        address=Address(channel="job", chat_id="container"),
        thread=ThreadId(UUID(int=0)),
        turn=UUID(int=0),
        call_id="",
        zone=zone,
        now=datetime.now(UTC),
        origin="container",
    )
    return executor, registry, context


async def work(door: Door, folder: Path) -> None:
    """Do the job and report how it ended. Raises DoorClosed where nobody wants it any more."""
    brief = await door.job(folder)
    executor, registry, context = executor_of(folder, ZoneInfo(brief.zone))
    offered = registry.offered_to(executor.audience(context), frozenset(brief.tools))
    start = ReasoningContext(
        brief.system,
        tuple(tool for tool in offered if tool.name in brief.tools),
        (),
        (UserText(f"Job: {brief.title}\n\n{brief.description}"),),
    )
    delegate = ContainerDelegate(door, executor, context)
    try:
        async with asyncio.timeout(brief.seconds) as limit:
            finish = await run_agentic_loop(delegate, start, max_iterations=brief.max_iterations)
    except TimeoutError:
        if not limit.expired():
            raise
        await door.finish(Result(success=False, text=_OUT_OF_TIME.format(seconds=f"{brief.seconds:g}")))
        return
    if (result := result_of(finish)) is not None:
        await door.finish(result)


def result_of(finish: Finish) -> Result | None:
    """What the end of the loop means; None where the other side has ended it."""
    match finish.outcome:
        case Responded(text=text):
            return Result(success=True, text=text)
        case Failed(text=text):
            return Result(success=False, text=text)
        case Exhausted(iterations=count):
            return Result(success=False, text=_OUT_OF_STEPS.format(count=count))
        case _:
            return None


async def serve(token: str, socket_path: str, folder: Path) -> int:
    """Work through the door until the job is over; the exit status."""
    connector = aiohttp.UnixConnector(path=socket_path, limit=1)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False) as session:
        door = Door(session)
        try:
            await work(door, folder)
        except (DoorClosed, ValidationError) as error:
            _say(f"the door is closed: {error}" if isinstance(error, DoorClosed) else "not understood")
            return DOOR_CLOSED
        except Exception as error:  # noqa: BLE001 - the last place that can say that it broke
            _say(f"broke: {type(error).__name__}")
            with suppress(DoorClosed):
                await door.finish(Result(success=False, text=_BROKE))
            return 1
    return OVER


def probe(folder: Path) -> dict[str, object]:
    """What this process can reach."""

    def writes(place: Path) -> bool:
        try:
            place.write_text("probe")
            place.unlink()
        except OSError:
            return False
        return True

    def is_readable(place: str) -> bool:
        try:
            return bool(Path(place).read_bytes())
        except OSError:
            return False

    return {
        "uid": os.getuid(),
        "writes": writes(folder / "probe"),
        "writes_elsewhere": [place for place in _NOT_TO_BE_WRITTEN if writes(Path(place, "probe"))],
        "interfaces": [name for _, name in socket.if_nameindex() if name != "lo" and not _is_idle(name)],
        "sees": [path for path in _NOT_TO_BE_SEEN if is_readable(path)],
    }


def _is_idle(name: str) -> bool:
    """Whether an interface leads nowhere: kernels with tunnels compiled in show some in every namespace."""
    try:
        return "up" not in Path(f"/sys/class/net/{name}/operstate").read_text()
    except OSError:
        return True


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The entry point."""
    folder = Path.cwd()
    if "--probe" in arguments:
        _say(json.dumps(probe(folder)))
        return OVER
    token = sys.stdin.buffer.readline(_WORD_BYTES).decode("ascii", "replace").strip()
    if not token:
        return NO_JOB
    place = arguments[arguments.index("--socket") + 1] if "--socket" in arguments[:-1] else ""
    return asyncio.run(serve(token, place or f"{SOCKET_FOLDER}/{SOCKET_NAME}", folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
