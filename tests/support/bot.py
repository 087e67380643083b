"""A whole bot in one process, on a database in a folder: everything real but the platforms, the model and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.llm.base import LLMProvider
from agent.store.base import Store
from agent.store.open import open_store
from agent.turns.engine import Handlers
from agent.workspace.seeding import seed
from bot.compose import build_core
from bot.plugins import NO_PLUGINS, Plugins
from bot.presenter import StepSurface
from channels.base import Accepted, Channel
from channels.message import ChatType, IncomingMessage, OutgoingMessage
from config.settings import Settings
from tests.support.builders import make_message
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel, Posted
from tests.support.scripted_llm import ScriptedLLM
from tests.support.settings import make_settings

OWNER = "1"
PATIENCE_SECONDS = 5

_VARIABLES = {
    "TELEGRAM_BOT_TOKEN": "123456789:AAF4keTelegramTokenForLoopbackTests0",
    "TELEGRAM_OWNER_ID": OWNER,
    "TELEGRAM_DM_POLICY": "open",
    "TELEGRAM_GROUP_POLICY": "open",
    "SLACK_BOT_TOKEN": "xoxb-1-2-loopback",
    "SLACK_APP_TOKEN": "xapp-1-A-loopback",
    "SLACK_DM_POLICY": "open",
    "SLACK_GROUP_POLICY": "open",
    "SANDBOX_BACKEND": "off",
    "AGENT_LOCAL_TOOLS_FOR": "everyone",
}


class Bot:
    """Enter it to start, leave it to stop; `crash` leaves all where it stands. Start another on the same home."""

    def __init__(
        self,
        home: Path,
        llm: ScriptedLLM,
        *,
        variables: Mapping[str, str] | None = None,
        clock: FakeClock | None = None,
        plugins: Plugins = NO_PLUGINS,
        routines: bool = False,
    ) -> None:
        self.home = home
        self.llm = llm
        self.clock = clock or FakeClock()
        self.settings = make_settings(home, _VARIABLES | dict(variables or {}))
        self.telegram = MemoryChannel("telegram")
        self.slack = MemoryChannel("slack")
        self.channels: dict[str, MemoryChannel] = {"telegram": self.telegram, "slack": self.slack}
        self.more: dict[str, Channel] = {}  # channels beside those in memory; put in before it is entered
        self.steps: dict[str, StepSurface] = {}
        self.wrap_store: Callable[[Store], Store] = lambda store: store
        self.quit = asyncio.Event()
        self.restarts: list[timedelta] = []
        self._plugins = plugins
        self._routines = routines  # their engine sleeps on the clock, which tests of other things do not expect

    async def __aenter__(self) -> Self:
        self.store = open_store(self.home)
        store = self.wrap_store(self.store)
        self.core = build_core(
            self.settings,
            store,
            self.channels | self.more,
            self.steps,
            self.quit.set,
            self.restarts.append,
            self.clock,
            self._provider,
            self._plugins,
        )
        await seed(self.core.workspace)
        if self.core.built_tools is not None:
            await self.core.built_tools.load()
        self._stop = asyncio.Event()
        self._task = asyncio.ensure_future(self._serve())
        for channel in self.channels.values():
            await channel.ready.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.crash()

    async def crash(self) -> None:
        """End every task in the middle of whatever it does; what is committed stays."""
        if not self._task.done():
            self._stop.set()
            await self._task
            await self.core.containers.turns.close()
            await self.store.close()

    async def say(self, text: str, *, user: str = OWNER, **more: object) -> Accepted:
        """A message on Telegram; a private chat unless told otherwise."""
        return await self.deliver(make_message(text, user=user, chat_id=str(more.pop("chat_id", user)), **more))  # type: ignore[arg-type]

    async def say_in_group(self, text: str, *, user: str = OWNER, **more: object) -> Accepted:
        """A message in a Telegram group."""
        return await self.say(text, user=user, chat_id="-100", chat_type=ChatType.SUPERGROUP, **more)

    async def deliver(self, message: IncomingMessage) -> Accepted:
        """Any message, as its channel hands it over."""
        return await self.core.intake.accept(message)

    async def press(self, post: Posted, word: str, *, user: str = OWNER, **more: object) -> Accepted:
        """A tap on a button of a prompt; `word` is its last letter: y, a or n."""
        data = next(choice.data for choice in post.message.choices if choice.data.endswith(f":{word}"))
        return await self.tap(data, user, post.message.address.chat_id, **more)

    async def tap(self, data: str, user: str = OWNER, chat_id: str = OWNER, **more: object) -> Accepted:
        """A tap on a button with this data."""
        _, request, word = data.split(":")
        approved, always = ("true" if word in "ya" else "false"), ("true" if word == "a" else "false")
        text = f'{{"ExecApproval": {{"request_id": "{request}", "approved": {approved}, "always": {always}}}}}'
        return await self.say(text, user=user, chat_id=chat_id, structured=True, answers=request, **more)

    async def post(
        self, fits: Callable[[Posted], bool] | str = "", *, count: int = 1, on: MemoryChannel | None = None
    ) -> Posted:
        """The `count`-th post that fits, or contains a text, as soon as it is there."""
        channel = on or self.telegram

        def found() -> list[Posted]:
            return [
                p for p in channel.posted if (fits in p.message.text + p.text if isinstance(fits, str) else fits(p))
            ]

        try:
            async with asyncio.timeout(PATIENCE_SECONDS), channel.changed:
                await channel.changed.wait_for(lambda: len(found()) >= count)
        except TimeoutError:
            raise AssertionError(f"not posted: {fits!r}; there is {[p.text for p in channel.posted]}") from None
        return found()[count - 1]

    async def rest(self) -> None:
        """Return when no lane has work and everything is sent."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._is_idle:
                await asyncio.sleep(0.001)

    @property
    def _is_idle(self) -> bool:
        routines = self.core.routines if self._routines else None
        is_quiet = routines is None or routines.engine.is_idle
        return is_quiet and self.core.engine.is_idle and self.core.gateway.is_idle

    @property
    def texts(self) -> list[str]:
        """What Telegram shows, oldest first."""
        return [post.text for post in self.telegram.posted]

    @property
    def sent(self) -> list[OutgoingMessage]:
        """What was posted on Telegram, oldest first."""
        return [post.message for post in self.telegram.posted]

    def _provider(self, settings: Settings, model: str | None) -> LLMProvider:
        return self.llm

    async def _serve(self) -> None:
        core = self.core
        handlers = Handlers(core.runner.serve, core.runner.stop, core.runner.backlog)
        async with asyncio.TaskGroup() as group:
            services = [
                group.create_task(core.gateway.deliver()),
                group.create_task(core.presenter.run()),
                group.create_task(core.engine.run(handlers)),
                group.create_task(core.expiry.run()),
                group.create_task(core.hooks.run()),
                group.create_task(core.repair.run()),
                group.create_task(core.servers.run()),
                *(
                    group.create_task(core.gateway.receive(name, core.intake.accept))
                    for name in self.channels | self.more
                ),
                *([group.create_task(core.routines.engine.run())] if self._routines and core.routines else []),
            ]
            await self._stop.wait()
            for service in services:
                service.cancel()
