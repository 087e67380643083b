"""A bot with a secret planted somewhere, and every place where it must not turn up."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from structlog.testing import capture_logs

from agent.llm.base import CompletionRequest
from agent.llm.messages import AssistantTurn
from agent.tools.registry import AnyTool
from bot.plugins import NO_PLUGINS
from channels.message import Draft, ToolStep
from tests.support.bot import Bot
from tests.support.memory_channel import MemoryChannel
from tests.support.scripted_llm import ScriptedLLM


class ShowingChannel(MemoryChannel):
    """A platform that shows answers as they are written, and each step of a tool."""

    name = "telegram"

    def __init__(self) -> None:
        super().__init__("telegram")
        self.steps: list[ToolStep] = []

    async def show(self, draft: Draft) -> str | None:
        self.drafts.append(draft)
        return "draft-1" if draft.text else None

    async def show_step(self, step: ToolStep) -> None:
        self.steps.append(step)


class Watch:
    """All that left the agent while it was watched."""

    def __init__(
        self, home: Path, logged: Sequence[Mapping[str, object]], records: Sequence[logging.LogRecord]
    ) -> None:
        self._home = home
        self._logged = logged
        self._records = records
        self.bot: Bot

    def rows(self, table: str = "") -> str:
        """Every value of the database, or of one table."""
        return "\n".join(f"{name}: {value}" for name, value in values_of(self._home) if table in ("", name))

    def prompts(self) -> str:
        """What models were told, without what they had said themselves."""
        return "\n".join(map(_told, self.bot.llm.requests))

    def chat(self) -> str:
        """What people were shown, files, drafts and edits included."""
        parts: list[str] = []
        for channel in self.bot.channels.values():
            parts += [str(each) for post in channel.posted for each in (post.message, *post.edits)]
            parts += [str(draft) for draft in channel.drafts]
            parts += [f"{name} {data!r}" for _, name, data in channel.uploads]
            parts += [str(step) for step in getattr(channel, "steps", ())]
        return "\n".join(parts)

    def log(self) -> str:
        """What was logged at every level, before anything is masked in it."""
        return "\n".join([*map(str, self._logged), *(record.getMessage() for record in self._records)])

    def places(self, secret: str) -> list[str]:
        """Where a secret turned up."""
        looks: Mapping[str, Callable[[], str]] = {
            "rows": self.rows, "prompts": self.prompts, "chat": self.chat, "log": self.log,
        }  # fmt: skip
        return [name for name, look in looks.items() if secret in look()]


def values_of(home: Path) -> Iterator[tuple[str, str]]:
    """Each value of each table, with the table's name; bytes as the text they may be."""
    database = sqlite3.connect(home / "optimclaw.db")
    try:
        names = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (name,) in names:
            for row in database.execute(f'select * from "{name}"'):
                for value in row:
                    yield name, value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    finally:
        database.close()


@asynccontextmanager
async def watched(
    home: Path, llm: ScriptedLLM, variables: Mapping[str, str] | None = None, tools: Sequence[AnyTool] = ()
) -> AsyncIterator[Watch]:
    """A bot whose every exit is watched. The rows can be looked at after it has ended, too."""
    with capture_logs() as logged, library_records() as records:
        watch = Watch(home, logged, records)
        bot = watch.bot = Bot(home, llm, variables=variables, plugins=replace(NO_PLUGINS, tools=tuple(tools)))
        channel = ShowingChannel()
        bot.channels["telegram"] = bot.telegram = channel
        bot.steps = {"telegram": channel}
        async with bot:
            yield watch


@contextmanager
def library_records() -> Iterator[list[logging.LogRecord]]:
    """What libraries log, from the level on at which the program lets them."""
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    keeper = Keeper(logging.WARNING)
    logging.getLogger().addHandler(keeper)
    try:
        yield records
    finally:
        logging.getLogger().removeHandler(keeper)


def _told(request: CompletionRequest) -> str:
    messages = [message for message in request.messages if not isinstance(message, AssistantTurn)]
    return "\n".join([request.system, *map(str, messages), *map(str, request.tools)])
