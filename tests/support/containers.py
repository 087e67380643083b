"""Jobs in containers for tests: everything real but the model, and a life of the job that tests can steer."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import pytest

from agent.clock import SystemClock
from agent.conversation.envelope import Envelope
from agent.jobs.container.assignment import Bounds
from agent.jobs.container.bubblewrap import MARK, reap_processes
from agent.jobs.container.child import running_child
from agent.jobs.container.choose import ContainerSettings, choose_container
from agent.jobs.container.host import ContainerHost, Launch, RefusingHost, Running
from agent.jobs.container.hosts import ContainerHosts
from agent.jobs.container.limits import SOCKET_NAME
from agent.jobs.container.turns import ContainerTurns
from agent.jobs.container.wish import ContainerWish, facts_of, folder_named, wish_of
from agent.llm.messages import ChatMessage
from agent.loop.agentic_loop import Continue, Finish, LoopSignal, Proceed, Step
from agent.loop.context import ReasoningContext
from agent.model.ids import JobId, ThreadId, TurnId, UserId
from agent.model.job import Job, JobLimits, JobOrigin, JobState
from agent.model.session import Turn, TurnState
from agent.safety.layer import SafetyLayer
from agent.store.base import Store
from agent.store.outbox import Parcel
from agent.store.turns import Journal
from agent.tools.builtin import file_tools
from agent.tools.registry import ToolRegistry
from bot.container_door import ContainerDoor
from channels.message import Address, ChatType
from tests.support.builders import NOON, make_message, make_thread
from tests.support.scripted_llm import ScriptedLLM

PODMAN = shutil.which("podman")
needs_podman = pytest.mark.skipif(PODMAN is None, reason="podman is not installed: containers of it are NOT tested")
REPOSITORY = Path(__file__).parents[2]
SECRET = "sk-ant-api03-canary-of-the-operator-0123456789abcdef"
ORIGIN = JobOrigin(Address(channel="telegram", chat_id="1"), ChatType.PRIVATE, "1")


def make_job(number: int = 7, *, folder: str | None = None, **changes: object) -> Job:
    """A job of the operator's that is to run in a container."""
    identifier = JobId(UUID(int=number << 96))
    job = Job(
        id=identifier,
        user=UserId("operator"),
        thread=ThreadId(UUID(int=1)),
        title="Count the sheep",
        description="Count all of them.",
        state=JobState.IN_PROGRESS,
        origin=ORIGIN,
        model=None,
        limits=JobLimits(),
        allowed_tools=None,
        reports=True,
        metadata=facts_of(ContainerWish(folder_named(folder, str(identifier)[:8]))),
        created_at=NOON,
    )
    return replace(job, **changes)  # type: ignore[arg-type]  # any of its fields


def make_envelope(messages: tuple[ChatMessage, ...] = (), *, user: str = "operator", sender: str = "1") -> Envelope:
    """A claimed turn of the job; `messages` are what an earlier process did of it."""
    thread = make_thread(user=user)
    turn = Turn(TurnId(UUID(int=2)), thread.id, 0, TurnState.RUNNING, NOON)
    journal = Journal(messages, frozenset(), len(messages))
    return Envelope(thread, turn, (make_message("do it", user=sender),), journal, {})


@dataclass
class Life:
    """The job's row and journal, in memory. `signals` are given one by one; then nothing happens any more."""

    signals: list[LoopSignal] = field(default_factory=list)
    kept: list[ReasoningContext] = field(default_factory=list)
    pulses: list[tuple[str, ...]] = field(default_factory=list)
    refuses: Finish | None = None

    async def check_signals(self) -> LoopSignal:
        return self.signals.pop(0) if self.signals else Proceed()

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step:
        return self.refuses or Continue(context)

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        self.kept.append(context)

    async def pulse(self, tools: Sequence[str]) -> None:
        self.pulses.append(tuple(tools))


@dataclass
class ProcessHost:
    """Runs the worker, or another program in its place, as a process without any walls.

    `script` is Python: it finds the socket in `SOCKET` and its token in `TOKEN`.
    """

    script: str | None = None
    name: str = "process"
    launches: list[Launch] = field(default_factory=list)

    @asynccontextmanager
    async def running(self, launch: Launch) -> AsyncIterator[Running]:
        self.launches.append(launch)
        assert launch.door is not None
        place = str(launch.door / SOCKET_NAME)
        if self.script is None:
            what = ["-m", "bot.container_worker", "--socket", place, MARK, launch.label]
        else:
            head = f"import sys\nSOCKET = {place!r}\nTOKEN = sys.stdin.readline().strip()\n"
            what = ["-c", head + self.script, "bot.container_worker", MARK, launch.label]
        argv = ["/usr/bin/env", "-C", str(launch.folder), sys.executable, *what]
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
        async with running_child(argv, variables, launch.word) as child:
            yield child

    async def reap(self, mark: str, keep: Collection[str]) -> Sequence[str]:
        return await asyncio.to_thread(reap_processes, mark, keep)


@dataclass
class Deliveries:
    """Keeps what is to be sent."""

    parcels: list[Parcel] = field(default_factory=list)

    def offer(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)

    @property
    def texts(self) -> list[str]:
        return [parcel.message.text for parcel in self.parcels]


class ContainerBench:
    """Runs jobs on a host, as the bot does. Close it at the end."""

    def __init__(
        self,
        home: Path,
        store: Store,
        host: ContainerHost | RefusingHost | None,
        llm: ScriptedLLM,
        *,
        backend: str = "auto",
        bounds: Bounds | None = None,
    ) -> None:
        async def choose(mark: str) -> ContainerHost | RefusingHost:
            if host is not None:
                return host
            return await choose_container(ContainerSettings(backend, "", None, home / "containers" / "root"), mark)

        self.home = home
        self.workspace = home / "workspace"
        self.llm = llm
        self.life = Life()
        self.hosts = ContainerHosts(home, choose, SystemClock())
        self.door = ContainerDoor(self.hosts.mark)
        self.deliveries = Deliveries()
        self.is_allowed = True
        self.turns = ContainerTurns(
            self.workspace,
            self.hosts,
            self.door,
            store,
            SystemClock(),
            llm,
            SafetyLayer([SECRET]),
            ToolRegistry(file_tools(self.workspace)),
            self.deliveries,
            lambda is_operator: self.is_allowed and is_operator,
            bounds or Bounds(),
        )

    async def work(self, job: Job | None = None, envelope: Envelope | None = None) -> Finish:
        """Work on a job to its end."""
        job = job or make_job()
        wish = wish_of(job)
        assert wish is not None
        return await self.turns.work(wish, job, envelope or make_envelope(), self.life, self.life.pulse)

    def left_running(self) -> list[str]:
        """The labels of workers of this home that are still there."""
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = place.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            found += [each for each in arguments if each.startswith(self.hosts.mark)]
        return found

    async def close(self) -> None:
        await self.door.close()
