"""One process: starts everything in order, runs until told to stop, stops everything in order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import click
import structlog

from agent.llm.errors import LLMError
from agent.safety.access import access_warnings
from agent.store import facts
from agent.store.conversations import DEFAULT_MODEL
from agent.store.errors import HomeLocked, SchemaMismatch, StoreError
from agent.store.open import home_lock, open_store
from agent.turns.engine import Handlers
from agent.workspace.seeding import seed
from bot import __version__
from bot.compose import Core, build_channels, build_core, load, policies, web_channel
from bot.foundation import secrets_of
from bot.log import configure_logging
from bot.plugins import Plugins
from bot.presenter import StepSurface
from bot.supervise import supervise
from channels import CHANNELS
from channels.base import Channel
from config.features import without_effect
from config.settings import LogLevel, Settings

log = structlog.get_logger(__name__)

DRAIN_GRACE = timedelta(seconds=5)
FLUSH_GRACE = timedelta(seconds=2)
FAILED = 1
_RESTART = -1


def run_bot(settings: Settings, plugins: Plugins, *, terminal: bool) -> int:
    """`optimclaw run`: all channels, the page, and a chat in the terminal if there is one."""
    if terminal and "LOG_LEVEL" not in settings.set_names:
        settings = _quieter(settings)  # the terminal is for the chat
    return _run(settings, lambda: _serve(settings, plugins, terminal=terminal))


def run_chat(settings: Settings, plugins: Plugins, message: str | None) -> int:
    """`optimclaw chat`: the terminal alone; with `message` one exchange."""
    quiet = settings if "LOG_LEVEL" in settings.set_names else _quieter(settings)
    return _run(quiet, lambda: _chat(quiet, plugins) if message is None else _one_shot(quiet, plugins, message))


def _quieter(settings: Settings) -> Settings:
    return settings.model_copy(update={"log": settings.log.model_copy(update={"level": LogLevel.WARNING})})


def _run(settings: Settings, main: Callable[[], Coroutine[None, None, int]]) -> int:
    configure_logging(settings.log, secrets_of(settings))
    try:
        with home_lock(settings.home):
            code = asyncio.run(main())
        if code == _RESTART:
            os.execv(sys.executable, [sys.executable, "-m", "bot", *sys.argv[1:]])
        return code
    except HomeLocked as error:
        click.echo(
            f"Another optimclaw (process {error}) is already running with this home. Stop it first, or set "
            "OPTIMCLAW_HOME to another folder.",
            err=True,
        )
    except (SchemaMismatch, StoreError) as error:
        click.echo(f"The database cannot be used: {error}", err=True)
    except OSError as error:
        click.echo(f"The home cannot be used: {error.strerror or error}. Check OPTIMCLAW_HOME.", err=True)
    return FAILED


# -- the three ways to run --------------------------------------------------------------------------------------
async def _serve(settings: Settings, plugins: Plugins, *, terminal: bool) -> int:
    from bot.web_service import open_web

    stop = _Stop()
    channels = build_channels(settings, plugins)
    steps: dict[str, StepSurface] = {}
    page = web_channel() if settings.web.enabled else None
    if page is not None:
        channels["web"] = steps["web"] = page
    if settings.web.takes_webhooks:
        channels["webhook"] = load(CHANNELS["webhook"])()
    if terminal:
        from channels.console import ConsoleChannel

        channels["console"] = steps["console"] = ConsoleChannel(_history_file(settings), stop.ask)
    if not channels:
        click.echo("Nothing to run: no channel has a token and WEB_ENABLED is false.", err=True)
        return 2
    async with AsyncExitStack() as stack:
        core = await _open(settings, plugins, stack, channels, steps, stop.ask, stop.ask_restart)
        if page is not None:
            await open_web(settings, stack, page, core, channels)
        _say_warnings(settings)
        if terminal:
            _greet(settings)
        await _Life(core, stop).run(list(channels))
    return _RESTART if stop.restarts else 0


async def _chat(settings: Settings, plugins: Plugins) -> int:
    from channels.console import ConsoleChannel

    stop = _Stop()
    console = ConsoleChannel(_history_file(settings), stop.ask)
    async with AsyncExitStack() as stack:
        core = await _open(settings, plugins, stack, {"console": console}, {"console": console}, stop.ask)
        await _Life(core, stop).run(["console"])
    return 0


async def _one_shot(settings: Settings, plugins: Plugins, message: str) -> int:
    from channels.one_shot import OneShotChannel

    stop = _Stop()
    channel = OneShotChannel(message, sys.stdout, sys.stderr)
    is_answered = False

    async def watch() -> None:
        nonlocal is_answered
        is_answered = await channel.result()
        stop.ask()

    async with AsyncExitStack() as stack:
        core = await _open(settings, plugins, stack, {"console": channel}, {"console": channel}, stop.ask)
        await _Life(core, stop).run(["console"], watch)
    return 0 if is_answered else FAILED


async def _open(
    settings: Settings,
    plugins: Plugins,
    stack: AsyncExitStack,
    channels: Mapping[str, Channel],
    steps: Mapping[str, StepSurface],
    quit_bot: Callable[[], None],
    restart_bot: Callable[[timedelta], None] | None = None,
) -> Core:
    store = open_store(settings.home)
    stack.push_async_callback(store.close)
    core = build_core(settings, store, channels, steps, quit_bot, restart_bot, plugins=plugins)
    stack.push_async_callback(core.llm.close)
    stack.push_async_callback(core.cheap_llm.close)
    stack.push_async_callback(core.images.close)
    stack.push_async_callback(core.containers.turns.close)
    stack.push_async_callback(core.speech.close)
    if core.vectors is not None:
        stack.push_async_callback(core.vectors.close)
    await seed(core.workspace)
    await core.shelf.prepare()
    if core.built_tools is not None:
        await core.built_tools.load()
    await core.hooks.refresh()
    if "LLM_MODEL" in settings.set_names:  # what the operator sets explicitly wins over what was chosen in a chat
        await store.write(lambda tx: facts.put(tx, DEFAULT_MODEL, ""))
    return core


def _greet(settings: Settings) -> None:
    """What somebody at a terminal is told first."""
    click.echo(f"optimclaw {__version__}. Write a message, or /help. Ctrl-D stops the bot.", err=True)
    if settings.llm.provider == "local":
        click.echo(
            "A small local model answers; it can chat but not use tools. For a real agent set ANTHROPIC_API_KEY, "
            "OPENAI_API_KEY or OPENAI_BASE_URL and start again.",
            err=True,
        )


def _history_file(settings: Settings) -> Path:
    return settings.home / "terminal-history"


def _say_warnings(settings: Settings) -> None:
    for warning in settings.warnings:
        log.warning("setting_doubtful", about=warning)
    if idle := without_effect(settings):
        log.warning("settings_without_effect_yet", names=list(idle))
    for name, policy in policies(settings).items():
        for warning in access_warnings(name, policy) if name in settings.channels else ():
            log.warning("access_doubtful", channel=name, about=warning)


# -- the life of a process ----------------------------------------------------------------------------------------
class _Stop:
    """The wish to stop: from a signal, `/quit` or the end of the terminal. `restarts`: to begin anew after it."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.restarts = False

    def ask(self) -> None:
        self._asked.set()

    def ask_restart(self, delay: timedelta) -> None:
        """Stop after a while, and begin anew. A wish to stop that comes before that wins."""
        asyncio.get_running_loop().call_later(delay.total_seconds(), self._restart)

    def _restart(self) -> None:
        if not self._asked.is_set():
            self.restarts = True
            self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()

    def on_signal(self) -> None:
        """The first signal asks; a second one ends the process at once. What is committed is safe."""
        if self._asked.is_set():
            os._exit(130)
        self._asked.set()


class _Life:
    """Runs the services of a core until asked to stop; then: receive no more, finish turns, say what is said, end."""

    def __init__(self, core: Core, stop: _Stop) -> None:
        self._core = core
        self._stop = stop

    async def run(self, channels: list[str], *more: Callable[[], Awaitable[None]]) -> None:
        core = self._core
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.on_signal)
        handlers = Handlers(core.runner.serve, core.runner.stop, core.runner.backlog)
        async with asyncio.TaskGroup() as group:

            def start(service: Coroutine[None, None, None]) -> asyncio.Task[None]:
                return group.create_task(service)

            deliver = start(core.gateway.deliver())
            present = start(core.presenter.run())
            work = start(core.engine.run(handlers))
            receive = [start(core.gateway.receive(name, core.intake.accept)) for name in channels]
            servers = start(supervise("mcp", core.servers.run, core.clock))
            others = [
                start(supervise("expiry", core.expiry.run, core.clock)),
                start(supervise("pruning", core.pruner.run, core.clock)),
                start(supervise("last seen", core.gateway.keep_last_seen, core.clock)),
                start(supervise("sent files", core.gateway.prune_files, core.clock)),
                start(supervise("hooks", core.hooks.run, core.clock)),
                start(supervise("jobs", core.repair.run, core.clock)),
                start(supervise("containers", core.containers.hosts.run, core.clock)),
                start(self._warm_up()),
            ]
            if core.heartbeat_enabled:
                others.append(start(supervise("heartbeat", core.heartbeat.run, core.clock)))
            if core.routines is not None:
                others.append(start(supervise("routines", core.routines.engine.run, core.clock)))
            if core.hygiene is not None:
                others.append(start(supervise("hygiene", core.hygiene.run, core.clock)))
            if core.vectors is not None:
                others.append(start(supervise("vectors", core.vectors.backfill.run, core.clock)))
            others += [start(_awaited(service)) for service in more]
            log.info("bot_started", channels=channels)
            await self._stop.wait()
            log.info("bot_stopping")
            await _end(*others)
            await core.engine.drain(DRAIN_GRACE)
            await core.gateway.flush(FLUSH_GRACE)
            await _end(*receive, work, present, deliver, servers)
        log.info("bot_stopped")

    async def _warm_up(self) -> None:
        """Load what the first message would otherwise wait for, once the channels are on their way."""
        await asyncio.sleep(0)
        try:
            await self._core.llm.warm_up()
        except LLMError as error:
            log.error("model_not_ready", error=type(error).__name__, detail=error.detail)
        await self._core.sandbox.warm_up()
        gc.collect()
        gc.freeze()  # what is loaded by now stays: later collections need not look at it


async def _awaited(service: Callable[[], Awaitable[None]]) -> None:
    await service()


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
