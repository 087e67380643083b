"""Containers of podman and docker, through their commands: no network, no rights, limits, one folder to write in."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from agent.jobs.container.child import run_to_end, running_child
from agent.jobs.container.host import Bind, Launch, Program, Running
from agent.tools.sandbox_bubblewrap import PROGRAM_PATH, WORKSPACE

log = structlog.get_logger(__name__)

LABEL = "optimclaw.job"
RUNC = ("--runtime", "runc", "--cgroup-manager", "cgroupfs")
"""For machines on whose mixed cgroups podman's own choice of a runtime refuses to work."""
_NAME = "optimclaw-"
_COMMAND_TIMEOUT = timedelta(seconds=20)
_ROOT_FOLDERS = (
    *("dev", "etc", "home", "mnt", "proc", "root", "run/optimclaw", "sys", "tmp", "usr", "var", "workspace"),
    *("opt/python", "opt/site1", "opt/site2", "opt/app/agent", "opt/app/bot", "opt/app/channels", "opt/app/config"),
)
_USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_OWN_SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")


@dataclass(frozen=True, slots=True)
class Image:
    """What a container has for a system: an image by its name, or a folder as its root.

    `is_own_system`: the folder is a skeleton, to which this machine's /usr is added.
    """

    name: str = ""
    root: Path | None = None
    is_own_system: bool = False


@dataclass(frozen=True, slots=True)
class EngineHost:
    """podman or docker. `options` stand before the command's own word."""

    name: str
    command: str
    image: Image
    program: Program
    options: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, launch: Launch) -> AsyncIterator[Running]:
        container = name_of(launch.label)

        async def remove() -> None:
            await self._ask("rm", "--force", container)

        argv = (self.command, *self.options, *run_arguments(self, launch))
        async with running_child(argv, environment(), launch.word, clean_up=remove) as child:
            yield child

    async def reap(self, mark: str, keep: Collection[str]) -> Sequence[str]:
        found = await self._ask("ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}")
        labels = [label for line in found.splitlines() if (label := label_of(line.strip()))]
        orphans = [label for label in labels if label.startswith(mark) and label not in keep]
        for label in orphans:
            await self._ask("rm", "--force", name_of(label))
        return orphans

    async def _ask(self, *arguments: str) -> str:
        status, output = await run_to_end((self.command, *self.options, *arguments), environment(), _COMMAND_TIMEOUT)
        if status != 0:
            log.warning("container_command_failed", engine=self.name, command=arguments[0], status=status)
            return ""
        return output


def run_arguments(host: EngineHost, launch: Launch) -> Iterator[str]:
    """The arguments that start one container. Pure."""
    limits = launch.limits
    is_podman = host.name == "podman"
    yield from ("run", "--rm", "--interactive", "--name", name_of(launch.label), "--label", f"{LABEL}={launch.label}")
    yield from ("--network", "none", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--hostname", "job")
    yield from ("--read-only", "--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.scratch_bytes},mode=1777")
    yield from ("--pids-limit", str(limits.processes), "--cpus", str(limits.processors))
    yield from ("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes))
    yield from ("--ulimit", "nofile=1024:1024", "--ulimit", "core=0:0", "--ulimit", "nproc=1024:1024")
    yield from ("--ulimit", f"fsize={limits.file_bytes}:{limits.file_bytes}")
    # For each process, since what is for all of them is ignored for ordinary users on machines with old cgroups.
    yield from ("--ulimit", f"data={limits.memory_bytes}:{limits.memory_bytes}")
    group = launch.owner if os.geteuid() == 0 else os.getegid()
    yield from ("--user", f"{launch.owner}:{group}", "--workdir", str(WORKSPACE))
    yield from ("--log-driver", "none", "--pull", "never", "--stop-timeout", "0")
    if is_podman:
        yield from (
            "--http-proxy=false",
            "--read-only-tmpfs=false",
            "--passwd=false",
            "--timeout",
            f"{limits.wall.total_seconds():.0f}",
        )
        if os.geteuid() != 0:
            yield from ("--userns", "keep-id")
    for name, value in host.program.variables:
        yield from ("--env", f"{name}={value}")
    for bind in (*_system_binds(host.image), *launch.binds(host.program)):
        yield from ("--mount", mount(bind))
    yield from ("--entrypoint", "")
    yield from ("--rootfs", str(host.image.root)) if host.image.root is not None else (host.image.name,)
    yield from host.program.called(*launch.arguments)


def mount(bind: Bind) -> str:
    """A mount as the commands read it: comma separated, so names with commas and quotes are quoted."""
    fields = ["type=bind", f"src={bind.source}", f"dst={bind.target}"]
    if not bind.is_writable:
        fields.append("readonly")
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def name_of(label: str) -> str:
    """The name of the container with a label."""
    return f"{_NAME}{label.replace(':', '-', 1)}"


def label_of(name: str) -> str:
    """The label of the container with a name; empty for one of somebody else."""
    return name.removeprefix(_NAME).replace("-", ":", 1) if name.startswith(_NAME) else ""


def make_skeleton(root: Path) -> None:
    """Make the folder of empty folders that this machine's /usr is mounted into. Blocks."""
    for name in _ROOT_FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    for name in _USR_LINKS:
        link, here = root / name, Path("/", name)
        if here.is_symlink() and not link.is_symlink():
            link.symlink_to(os.readlink(here))


def environment() -> Mapping[str, str]:
    """What podman and docker themselves are told: where programs and their own files are, and nothing else of ours."""
    names = ("HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "DOCKER_HOST", "TMPDIR", "USER")
    found = {name: os.environ[name] for name in names if name in os.environ}
    path = os.environ.get("PATH", "")
    return {**found, "PATH": f"{path}:{PROGRAM_PATH}" if path else PROGRAM_PATH}


def _system_binds(image: Image) -> Iterator[Bind]:
    if not image.is_own_system:
        return
    for name in _OWN_SYSTEM:
        if Path(name).exists():
            yield Bind(Path(name), name)
    for name in _USR_LINKS:
        here = Path("/", name)
        if here.is_dir() and not here.is_symlink():
            yield Bind(here, f"/{name}")
