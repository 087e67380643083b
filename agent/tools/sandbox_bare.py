"""No sandbox: the operator's explicit choice to run the shell with the rights of the bot itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping

from agent.tools.sandbox_process import machine_variables, run_program
from agent.tools.sandbox_request import NotRun, Outcome, SandboxRequest


class BareRunner:
    """Runs commands in their folder with a cleared environment and limits, but sees the whole machine."""

    name = "off"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = machine_variables(environment)
        self._shell = shutil.which("bash") or "/bin/sh"
        self._prlimit = shutil.which("prlimit")

    async def run(self, request: SandboxRequest) -> Outcome:
        try:
            await asyncio.to_thread(request.folder.mkdir, parents=True, exist_ok=True)
            place = request.folder / request.workdir
            environment = {**self._environment, "HOME": str(request.folder), "PWD": str(place)}
            return await run_program(
                [*self._limits(request), self._shell, "-c", request.command],
                environment=environment,
                timeout=request.timeout,
                output_bytes=request.limits.output_bytes,
                folder=place,
            )
        except OSError as error:
            return NotRun(f"the shell could not be started: {error.strerror}")

    def _limits(self, request: SandboxRequest) -> list[str]:
        if self._prlimit is None:
            return []
        limits = request.limits
        return [self._prlimit, f"--data={limits.memory_bytes}", f"--fsize={limits.file_bytes}", "--core=0", "--"]
