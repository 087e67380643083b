"""The program itself as a process of its own, on loopback fakes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_llm_api import FakeLLMApi
from tests.support.fake_telegram import TOKEN, FakeTelegram

SOURCE = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Nothing of the machine but what Python needs to start."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return (
        kept | {"OPTIMCLAW_HOME": str(home), "PYTHONPATH": str(SOURCE), "TZ": "UTC", "WEB_ENABLED": "false"} | variables
    )


def on_fakes(home: Path, telegram: FakeTelegram, api: FakeLLMApi, **variables: str) -> dict[str, str]:
    """The environment of a bot whose platform and model are these."""
    fakes = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_API_BASE_URL": telegram.base_url,
        "TELEGRAM_OWNER_ID": "7",
        "OPENAI_BASE_URL": f"{api.url}/v1",
        "OPENAI_API_KEY": "loopback",
        "LLM_MODEL": "fake-model-1",
    }
    return environment(home, **fakes, **variables)


class Process:
    """A started program in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill_group(self) -> None:
        """Like a power cut: no process of it gets to do anything more."""
        os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> Ended:
        """How it ends, waiting for that."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await self._process.communicate()
        assert self._process.returncode is not None
        return Ended(self._process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def started(arguments: list[str], variables: Mapping[str, str], cwd: Path) -> AsyncIterator[Process]:
    """A running program; whatever is left of it at the end is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bot",
        *arguments,
        env=dict(variables),
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    handle = Process(process)
    try:
        yield handle
    finally:
        if handle.is_running:
            handle.kill_group()
            await process.communicate()


async def run(arguments: list[str], variables: Mapping[str, str], cwd: Path) -> Ended:
    """A program from its start to its end."""
    async with started(arguments, variables, cwd) as process:
        return await process.end()
