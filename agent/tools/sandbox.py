"""Which sandbox this machine can give the shell, and the test that it holds."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import assert_never

import structlog

from agent.tools.sandbox_bare import BareRunner
from agent.tools.sandbox_bubblewrap import BubblewrapSandbox
from agent.tools.sandbox_proxy import HostProxy
from agent.tools.sandbox_request import Finished, Limits, NotRun, Outcome, Sandbox, SandboxRequest, TimedOut

__all__ = [
    "BareRunner",
    "BubblewrapSandbox",
    "Finished",
    "Limits",
    "NotRun",
    "Outcome",
    "RefusingSandbox",
    "Sandbox",
    "SandboxRequest",
    "TimedOut",
    "choose_sandbox",
    "find_fault",
]

log = structlog.get_logger(__name__)

_SELF_TEST_TIMEOUT = timedelta(seconds=20)
_SELF_TEST = (
    "echo inside > probe && echo written; id -u; "
    "cat ../outside '{outside}' /etc/shadow /etc/ssh/ssh_host_* 2>/dev/null; "
    "grep -v -e lo: -e '|' /proc/net/dev; grep 'Max processes' /proc/self/limits"
)


class RefusingSandbox:
    """Stands in where there is no working sandbox: it runs nothing and says why."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def run(self, request: SandboxRequest) -> Outcome:
        return NotRun(self.reason)


async def choose_sandbox(
    backend: str, environment: Mapping[str, str] = os.environ, proxy: HostProxy | None = None
) -> Sandbox:
    """The sandbox for the setting `SANDBOX_BACKEND`, tested; a `RefusingSandbox` if it is missing or does not hold.

    `proxy` lets commands ask some hosts. Where it cannot be reached from inside, they run without network.
    """
    match backend:
        case "off":
            log.warning("sandbox_off", meaning="the shell runs with the rights of this process, by SANDBOX_BACKEND=off")
            if proxy is not None:
                log.warning("sandbox_hosts_ignored", meaning="SANDBOX_ALLOW_HOSTS has no effect without a sandbox")
            return BareRunner(environment)
        case "auto" | "bubblewrap":
            program = _find_bubblewrap()
            if program is None:
                return _refuse("bubblewrap is not installed; install the package 'bubblewrap' and start again")
            sandbox = BubblewrapSandbox(program, environment)
            if fault := await find_fault(sandbox):
                return _refuse(f"the bubblewrap sandbox does not work on this machine: {fault}")
            if proxy is not None:
                sandbox = await _connected(BubblewrapSandbox(program, environment, proxy), sandbox)
            log.info("sandbox_ready", backend=sandbox.name)
            return sandbox
        case _:
            return _refuse(f"SANDBOX_BACKEND={backend} is not supported by this installation; use bubblewrap or off")


async def find_fault(sandbox: Sandbox) -> str | None:
    """What a sandbox fails to keep, by running one command that tries; None if it holds."""
    place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="sandbox-test-"))
    try:
        return await _test_in(place, sandbox)
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


async def _test_in(place: Path, sandbox: Sandbox) -> str | None:
    outside = place / "outside"
    await asyncio.to_thread(outside.write_text, "outside\n")
    limits = replace(Limits(), processes=32)
    script = _SELF_TEST.format(outside=outside)
    outcome = await sandbox.run(SandboxRequest(script, place / "folder", timeout=_SELF_TEST_TIMEOUT, limits=limits))
    match outcome:
        case NotRun(reason=reason):
            return reason
        case TimedOut():
            return "its self-test did not end in time"
        case Finished(output=output):
            return await asyncio.to_thread(_judge_self_test, output, place / "folder" / "probe", limits)
        case unreachable:
            assert_never(unreachable)


def _judge_self_test(output: str, probe: Path, limits: Limits) -> str | None:
    lines = output.splitlines()
    if "written" not in lines or not probe.is_file() or probe.read_text() != "inside\n":
        return f"a command cannot write in its folder ({' '.join(lines)[:200]})"
    uid, *rest = lines[lines.index("written") + 1 :] or [""]
    if not uid.isdigit() or uid == "0":
        return "commands run as root"
    match rest:
        case [line] if line.split()[2:4] == [str(limits.processes)] * 2:
            return None
        case [line] if line.startswith("Max processes"):
            return "the number of processes is not limited"
        case _:
            return "commands see files or networks of the machine"


async def _connected(connected: BubblewrapSandbox, alone: BubblewrapSandbox) -> BubblewrapSandbox:
    """The sandbox with its way to the proxy if that works, else the one without."""
    if fault := await connected.network_fault():
        log.warning("sandbox_network_missing", reason=fault, meaning="commands run without network")
        return alone
    return connected


def _find_bubblewrap() -> str | None:
    if sys.platform != "linux":
        return None
    beside = Path(sys.executable).parent
    return shutil.which("bwrap") or shutil.which("bwrap", path=str(beside))


def _refuse(reason: str) -> RefusingSandbox:
    log.warning("sandbox_missing", reason=reason)
    return RefusingSandbox(reason)
