"""Shows a turn while it runs: the typing sign, the answer as it is written, the steps of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Protocol, assert_never
from uuid import UUID

import structlog

from agent.clock import Clock
from agent.conversation.live import LiveEvent, TextSoFar, ToolBegan, ToolEnded, TurnBegan, TurnEnded, TurnPlace
from agent.store import outbox
from agent.store.base import Store
from agent.store.errors import StoreError
from channels.base import Channel
from channels.message import Draft, StepState, ToolStep

log = structlog.get_logger(__name__)

LONGEST_REST = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Pace:
    """How soon a first sign is shown, and how often the text is renewed. Quick answers need no sign at all."""

    first: timedelta
    every: timedelta


REMOTE = Pace(timedelta(seconds=1), timedelta(seconds=1))
LOCAL = Pace(timedelta(0), timedelta(milliseconds=100))


class StepSurface(Protocol):
    """A channel that shows tool calls."""

    async def show_step(self, step: ToolStep) -> None: ...


@dataclass(slots=True)
class _Shown:
    place: TurnPlace
    channel: Channel
    pace: Pace
    text: TextSoFar | None = None
    platform_id: str | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class Presenter:
    """A `Surface` on the channels. `run` owns its tasks; before and after it nothing is shown."""

    def __init__(
        self, channels: Mapping[str, Channel], steps: Mapping[str, StepSurface], store: Store, clock: Clock
    ) -> None:
        self._channels = channels
        self._steps = steps
        self._store = store
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._shown: dict[UUID, _Shown] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def publish(self, event: LiveEvent) -> None:
        if self._group is None:
            return
        match event:
            case TurnBegan(place=place):
                self._begin(place)
            case TextSoFar(place=place):
                if shown := self._shown.get(place.reply_id):
                    shown.text = event
            case ToolBegan(place=place, call_id=call, name=name):
                self._step(place, call, name, StepState.STARTED)
            case ToolEnded(place=place, call_id=call, name=name, ok=ok, preview=preview):
                self._step(place, call, name, StepState.SUCCEEDED if ok else StepState.FAILED, preview)
            case TurnEnded(place=place):
                self._end(place)
            case unreachable:
                assert_never(unreachable)

    async def rest(self, place: TurnPlace) -> None:
        shown = self._end(place)
        if shown is None or shown.task is None or shown.task.done():
            return
        _, slow = await asyncio.wait([shown.task], timeout=LONGEST_REST.total_seconds())
        if slow:
            log.warning("draft_is_slow", channel=place.address.channel)

    def _begin(self, place: TurnPlace) -> None:
        channel = self._channels.get(place.address.channel)
        if channel is None:
            return
        shown = _Shown(place, channel, LOCAL if channel.name in self._steps else REMOTE)
        self._shown[place.reply_id] = shown
        loop = asyncio.get_running_loop()
        shown.timer = loop.call_later(shown.pace.first.total_seconds(), self._start, shown)

    def _start(self, shown: _Shown) -> None:
        if self._group is not None and not shown.ended.is_set():
            shown.task = self._group.create_task(self._present(shown))

    def _end(self, place: TurnPlace) -> _Shown | None:
        shown = self._shown.pop(place.reply_id, None)
        if shown is not None:
            shown.ended.set()
            if shown.timer is not None:
                shown.timer.cancel()
        return shown

    async def _present(self, shown: _Shown) -> None:
        while not shown.ended.is_set():
            text = shown.text.render() if shown.text else ""
            draft = Draft(
                id=shown.place.reply_id,
                address=shown.place.address,
                text=text,
                reply_to=shown.place.reply_to,
                platform_id=shown.platform_id,
            )
            platform_id = await shown.channel.show(draft)
            if platform_id is not None and platform_id != shown.platform_id:
                shown.platform_id = platform_id
                await self._keep(draft.id, platform_id)
            try:
                async with asyncio.timeout(shown.pace.every.total_seconds()):
                    await shown.ended.wait()
            except TimeoutError:
                continue

    async def _keep(self, reply: UUID, platform_id: str) -> None:
        try:
            await self._store.write(
                partial(outbox.keep_draft, reply=reply, platform_id=platform_id, now=self._clock.now())
            )
        except StoreError as error:  # the answer stands beside its draft then, which is no reason to show no more
            log.error("draft_not_kept", reason=str(error))

    def _step(self, place: TurnPlace, call_id: str, name: str, state: StepState, detail: str = "") -> None:
        surface = self._steps.get(place.address.channel)
        if surface is not None and self._group is not None:
            step = ToolStep(address=place.address, call_id=call_id, name=name, state=state, detail=detail)
            self._group.create_task(surface.show_step(step))
