"""No tool tells a shared chat, or another person, what is private. Invariant 1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model.tool_call import ToolCall
from agent.safety.layer import SafetyLayer
from agent.store.search import SEARCH_DDL, SearchIndex
from agent.tools.base import ToolContext
from agent.tools.builtin import basic_tools, file_tools
from agent.tools.execute import Prepared, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.workspace.scope import OperatorScope, scope_of
from agent.workspace.workspace import FolderWorkspace
from channels.message import Address, ChatType
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.tool_context import PlainSafety, make_context

CANARY = "zanzibar"
PRIVATE = (
    "MEMORY.md",
    "USER.md",
    "HEARTBEAT.md",
    "daily/2026-03-02.md",
    "context/plan.md",
    "projects/plan.txt",
    "users/telegram/700/MEMORY.md",
    "users/slack/U0OTHER/USER.md",
    "users/telegram/42/notes.txt",
    "groups/telegram/-77/MEMORY.md",
    "groups/telegram/-1/people/700.md",
)
NAMES = ("MEMORY.md", "memory.md", "USER.md", "daily", "2026-03-02.md", "users", "USERS", "telegram", "700", "groups")
MORE = ("-1", "-77", "people", "700.md", "..", ".", "", "~", "%2e%2e", "projects", "plan.txt", "\\..", "link", "uſers")
PATHS = st.lists(st.sampled_from(NAMES + MORE), max_size=6).flatmap(
    lambda parts: st.sampled_from(["", "/", "./", "../../../", "{root}/", "file://{root}/"]).map(
        lambda start: start + "/".join(parts)
    )
)
CALLS = st.one_of(
    st.builds(lambda p: ToolCall("c", "memory_read", {"path": p}), PATHS),
    st.builds(lambda p, d: ToolCall("c", "memory_tree", {"path": p, "depth": d}), PATHS, st.integers(1, 10)),
    st.builds(
        lambda q: ToolCall("c", "memory_search", {"query": q, "limit": 20}), st.sampled_from([CANARY, "is secret"])
    ),
    st.builds(lambda p: ToolCall("c", "read_file", {"path": p}), PATHS),
    st.builds(lambda p: ToolCall("c", "list_dir", {"path": p, "recursive": True, "max_depth": 10}), PATHS),
    st.builds(lambda p: ToolCall("c", "apply_patch", {"path": p, "old_string": "is", "new_string": "was"}), PATHS),
    st.builds(lambda p: ToolCall("c", "write_file", {"path": p, "content": "x"}), PATHS),
    st.builds(lambda p: ToolCall("c", "memory_write", {"content": "x", "target": p, "append": False}), PATHS),
    st.builds(lambda p: ToolCall("c", "memory_write", {"content": "x", "target": p}), PATHS),
)
SHARED = [chat_type for chat_type in ChatType if chat_type.is_shared]


@contextmanager
def planted() -> Iterator[tuple[Path, ToolExecutor]]:
    """A workspace with a canary in every private place, and everything that can be asked of it."""

    async def no_stash(context: ToolContext, call_id: str) -> str | None:
        return None

    with TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for path in PRIVATE:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"{CANARY} is secret")
        for scope in ("groups/telegram/-1", "users/telegram/41"):
            (root / scope).mkdir(parents=True, exist_ok=True)
            (root / scope / "link").symlink_to(root)
        clock = FakeClock()
        workspace = FolderWorkspace(root, clock)
        search = SearchIndex(MemoryStore(SEARCH_DDL))
        registry = ToolRegistry(
            (*basic_tools(workspace, search, no_stash, clock, SafetyLayer().contains_secret), *file_tools(root))
        )
        yield root, ToolExecutor(registry, PlainSafety(), RateWindows(clock), None, LocalToolsFor.EVERYONE, 100_000)


async def ask(executor: ToolExecutor, call: ToolCall, context: ToolContext) -> str:
    prepared = await executor.prepare(call, context)
    output = await executor.run(prepared, context) if isinstance(prepared, Prepared) else prepared.output
    return executor.present(call, output).text


@settings(max_examples=40, deadline=None)
@given(st.lists(CALLS, min_size=1, max_size=6), st.sampled_from([*SHARED, None]), st.booleans())
def test_no_call_of_a_shared_chat_or_another_person_tells_or_harms_what_is_private(
    calls: list[ToolCall], shared: ChatType | None, is_operator: bool
) -> None:
    if shared is None:
        scope = scope_of(Address(channel="telegram", chat_id="41"), "41", ChatType.PRIVATE, is_operator=False)
        context = make_context(scope, is_operator=False)
    else:
        scope = scope_of(Address(channel="telegram", chat_id="-1"), "9", shared, is_operator=is_operator)
        context = make_context(scope, is_operator=is_operator)

    async def run(root: Path, executor: ToolExecutor) -> None:
        # The operator's own search fills the index first: nothing of it may come back to others.
        found = await ask(executor, ToolCall("c", "memory_search", {"query": CANARY}), make_context(OperatorScope()))
        assert f"{CANARY} is secret" in found
        for call in calls:
            arguments = {k: v.format(root=root) if isinstance(v, str) else v for k, v in call.arguments.items()}
            assert CANARY not in (await ask(executor, ToolCall("c", call.name, arguments), context)).replace(
                str(call.arguments.get("query", "-")), ""
            )
        for path in PRIVATE:
            assert (root / path).read_text() == f"{CANARY} is secret", path

    with planted() as (root, executor):
        asyncio.run(run(root, executor))


async def test_the_operator_in_private_finds_their_own_and_nothing_of_others() -> None:
    with planted() as (_, executor):
        context = make_context(OperatorScope())
        assert CANARY in await ask(executor, ToolCall("c", "memory_read", {"path": "MEMORY.md"}), context)
        for path in ("users/telegram/700/MEMORY.md", "groups/telegram/-77/MEMORY.md", "USERS/slack/U0OTHER/USER.md"):
            assert CANARY not in await ask(executor, ToolCall("c", "memory_read", {"path": path}), context)
            assert CANARY not in await ask(executor, ToolCall("c", "read_file", {"path": path}), context)
        tree = await ask(executor, ToolCall("c", "memory_tree", {"depth": 10}), context)
        assert "700" not in tree
        assert "-77" not in tree
