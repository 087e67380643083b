"""The engine of one process: a task for each lane that has work, none for those that rest."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from agent.model.ids import ThreadId
from agent.store.inbox import Lane
from agent.turns.engine import Handlers

log = structlog.get_logger(__name__)

_Key = tuple[ThreadId, Lane]


class InProcessEngine:
    """`TurnEngine` on asyncio tasks. A wake while a lane runs lets it look once more before it rests."""

    def __init__(self) -> None:
        self._again: dict[_Key, bool] = {}
        self._group: asyncio.TaskGroup | None = None
        self._handlers: Handlers | None = None
        self._early: list[_Key] = []
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether every lane rests."""
        return not self._again and not self._early

    def wake(self, thread: ThreadId, lane: Lane) -> None:
        key = (thread, lane)
        if self._draining:
            return  # the rows are safe; the next start finds them
        if self._group is None:
            self._early.append(key)
        elif key in self._again:
            self._again[key] = True
        else:
            self._again[key] = False
            self._idle.clear()
            self._group.create_task(self._serve(key))

    def stop(self, thread: ThreadId) -> None:
        if self._handlers is not None:
            self._handlers.stop(thread)

    async def run(self, handlers: Handlers) -> None:
        self._handlers = handlers
        backlog = await handlers.backlog()
        if backlog:
            log.info("backlog_found", lanes=len(backlog))
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for thread, lane in (*backlog, *self._early):
                    self.wake(thread, lane)
                self._early.clear()
                await asyncio.Event().wait()  # until cancelled
            finally:
                self._group = None

    async def drain(self, grace: timedelta) -> None:
        self._draining = True
        try:
            async with asyncio.timeout(grace.total_seconds()):
                await self._idle.wait()
        except TimeoutError:
            log.warning("turns_cut_off", lanes=len(self._again))

    async def _serve(self, key: _Key) -> None:
        assert self._handlers is not None
        try:
            while True:
                self._again[key] = False
                await self._handlers.serve(*key)
                if not self._again[key] or self._draining:
                    return
        finally:
            del self._again[key]
            if not self._again:
                self._idle.set()
