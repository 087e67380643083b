"""What memory search costs: the whole tool, without the model, over many small files.

The texts are words of made-up lengths whose frequencies fall as those of a language do (Zipf); each query has a few
words that occur in some documents and one that occurs in most, as questions of people do.
"""

from __future__ import annotations

import asyncio
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog

from agent.clock import SystemClock
from agent.model.ids import OPERATOR, ThreadId
from agent.store.open import open_store
from agent.store.search import SearchIndex
from agent.store.sqlite import SqliteStore
from agent.tools.base import ToolContext
from agent.tools.builtin.memory import MemorySearch, MemorySearchArguments
from agent.workspace.scope import OperatorScope
from agent.workspace.workspace import FolderWorkspace
from channels.message import Address

Figures = dict[str, float]

DOCUMENTS = 10_000
QUERIES = 200
_WORDS = 20_000
_SIZES = (20, 60, 200, 600)  # words of a document
_FOLDERS = 200


class Language:
    """Words and how often they are used."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._random.choices(letters, k=self._random.randint(3, 9))) for _ in range(_WORDS)]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(_WORDS)))

    def text(self) -> str:
        """A document."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=self._random.choice(_SIZES)))

    def query(self) -> str:
        """A question: three words that mean something, one that is nearly everywhere."""
        return " ".join([*self._random.choices(self._words[100:10_000], k=3), self._random.choice(self._words[:10])])


def write(root: Path, language: Language) -> None:
    """The documents."""
    for number in range(DOCUMENTS):
        path = root / "projects" / f"project-{number % _FOLDERS}" / f"note-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(language.text())


async def measure() -> Figures:
    """All figures, in the bot's column."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    language = Language(7)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        await asyncio.to_thread(write, home / "workspace", language)
        store = open_store(home)
        try:
            return await _measured(home / "workspace", store, language)
        finally:
            await store.close()


async def _measured(root: Path, store: SqliteStore, language: Language) -> Figures:
    workspace = FolderWorkspace(root, SystemClock())
    tool = MemorySearch(workspace, SearchIndex(store))
    context = _context()

    async def ask() -> None:
        output = await tool.run(MemorySearchArguments(query=language.query()), context)
        assert not output.is_error

    async def ask_after_a_change() -> None:
        (root / "projects" / "by-hand.md").write_text(language.text())
        await ask()

    lags: list[float] = []
    watching = asyncio.ensure_future(_watch_the_loop(lags))
    (first,) = await _times(ask, 1)
    same = await _times(ask, QUERIES)
    changed = await _times(ask_after_a_change, QUERIES // 10)
    watching.cancel()
    return {
        f"first search of {DOCUMENTS} documents, s": first / 1000,
        f"search, {DOCUMENTS} documents, p50, ms": statistics.median(same),
        f"search, {DOCUMENTS} documents, p95, ms": statistics.quantiles(same, n=20)[18],
        "search after an edit by hand, p50, ms": statistics.median(changed),
        "longest hold of the loop meanwhile, ms": max(lags),
    }


async def _times(act: Callable[[], Awaitable[None]], count: int) -> Sequence[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await act()
        times.append((time.perf_counter() - began) * 1000)
    return times


async def _watch_the_loop(lags: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        lags.append((time.perf_counter() - began) * 1000 - 1)


def _context() -> ToolContext:
    return ToolContext(
        user=OPERATOR,
        is_operator=True,
        is_shared=False,
        scope=OperatorScope(),
        address=Address(channel="telegram", chat_id="1"),
        thread=ThreadId(UUID(int=1)),
        turn=UUID(int=2),
        call_id="call_1",
        zone=ZoneInfo("UTC"),
        now=datetime.now(UTC),
    )


GOALS = {f"search, {DOCUMENTS} documents, p95, ms": "<= 10"}
