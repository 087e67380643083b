"""The containers of this process: chosen when the first one is wanted, and cleared of what earlier processes left."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import structlog

from agent.clock import Clock
from agent.jobs.container.host import ContainerHost, RefusingHost
from agent.model.ids import JobId

log = structlog.get_logger(__name__)

REAP_EVERY = timedelta(minutes=1)
Choose = Callable[[str], Awaitable[ContainerHost | RefusingHost]]


class Closing(Protocol):
    """What is to be closed at the end."""

    async def close(self) -> None: ...


class ContainerHosts:
    """Knows which containers are those of running jobs; all others of this home are orphans."""

    def __init__(self, home: Path, choose: Choose, clock: Clock) -> None:
        self._place = home / "containers"
        self.mark = f"{hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]}:"
        """How the labels of this home's containers begin."""
        self._choose = choose
        self._clock = clock
        self._chosen: ContainerHost | RefusingHost | None = None
        self._lock = asyncio.Lock()
        self._running: set[str] = set()

    async def host(self) -> ContainerHost | RefusingHost:
        """The host, chosen and tested once. A refusal is not kept: what was missing may be installed meanwhile."""
        async with self._lock:
            if self._chosen is None or isinstance(self._chosen, RefusingHost):
                self._chosen = await self._choose(self.mark)
                if not isinstance(self._chosen, RefusingHost):  # from now on each start looks for orphans
                    await asyncio.to_thread(self._place.mkdir, parents=True, exist_ok=True)
            return self._chosen

    @contextmanager
    def label(self, job: JobId) -> Iterator[str]:
        """The label for a job's container, which is spared while entered."""
        label = f"{self.mark}{job}"
        self._running.add(label)
        try:
            yield label
        finally:
            self._running.discard(label)

    async def run(self) -> None:
        """A service: end orphans at the start and each minute. Idle where no container was ever wanted."""
        while True:
            await self.reap()
            await self._clock.sleep(REAP_EVERY)

    async def reap(self) -> None:
        """One look."""
        if self._chosen is None and not await asyncio.to_thread(self._place.is_dir):
            return
        host = self._chosen or await self.host()
        if isinstance(host, RefusingHost):
            return
        if orphans := await host.reap(self.mark, frozenset(self._running)):
            log.warning("containers_reaped", count=len(orphans))
