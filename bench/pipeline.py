"""What safety, skills and the tool pipeline cost a message and a call, without model and store."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

from agent.clock import SystemClock
from agent.hooks.audit import audit_hook
from agent.hooks.runner import HookRunner
from agent.model.ids import OPERATOR, ThreadId
from agent.model.tool_call import ToolCall
from agent.safety.layer import SafetyLayer
from agent.skills.folders import skill_folders
from agent.skills.shelf import SkillShelf, means_of_this_machine
from agent.tools.base import ToolContext
from agent.tools.builtin.echo import Echo
from agent.tools.execute import Prepared, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.workspace.scope import OperatorScope
from channels.message import Address

GOALS = {
    "safety scan of 100 kB, ms": "<= 10",
    "safety scan and skill selection, a message, ms": "<= 3",
    "tool pipeline, a call, ms": "<= 1",
}
_WORDS = "the deploy of the shop went wrong again, please look into the log of last night and tell me what to do. "
_MESSAGE = _WORDS * 3
_SKILLS = 30


async def measure() -> dict[str, float]:
    """Medians, in milliseconds."""
    safety = SafetyLayer(["a-token-of-a-platform-0123456789", "another-secret-value-9876543210"])
    page = (_WORDS + "https://example.com/a?b=c <p>text</p> 0123456789abcdef\n") * 700
    page = page[:100_000]
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        shelf = _shelf(Path(home))

        async def scan() -> None:
            safety.clean_output("web_fetch", page)

        async def message() -> None:
            safety.screen_input(_MESSAGE)
            await shelf.select(_MESSAGE)

        return {
            "safety scan of 100 kB, ms": await _median(scan, 50),
            "safety scan and skill selection, a message, ms": await _median(message, 300),
            "tool pipeline, a call, ms": await _median(_call(safety), 1000),
        }


def _call(safety: SafetyLayer) -> Callable[[], Awaitable[None]]:
    clock = SystemClock()
    hooks = HookRunner()
    hooks.register(audit_hook())
    executor = ToolExecutor(
        ToolRegistry([Echo()]), safety, RateWindows(clock), None, LocalToolsFor.OPERATOR, 100_000, hooks
    )
    address = Address(channel="telegram", chat_id="1")
    context = ToolContext(
        user=OPERATOR,
        is_operator=True,
        is_shared=False,
        scope=OperatorScope(),
        address=address,
        thread=ThreadId(UUID(int=1)),
        turn=UUID(int=2),
        call_id="c",
        zone=ZoneInfo("UTC"),
        now=clock.now(),
    )
    call = ToolCall("c", "echo", {"message": _MESSAGE})

    async def run() -> None:
        prepared = await executor.prepare(call, context)
        assert isinstance(prepared, Prepared)
        executor.present(call, await executor.run(prepared, context))

    return run


def _shelf(home: Path) -> SkillShelf:
    for number in range(_SKILLS):
        folder = home / "skills" / f"skill-{number}"
        folder.mkdir(parents=True)
        keywords = json.dumps([f"word{number}{n}" for n in range(8)] + ["deploy"] * (number % 7 == 0))
        front = f"name: skill-{number}\nactivation:\n  keywords: {keywords}\n  tags: [tag{number}, shop]\n"
        (folder / "SKILL.md").write_text(f"---\n{front}  patterns: ['err(or)? {number}']\n---\n{_WORDS * 5}")
    return SkillShelf(skill_folders(home / "workspace", home), means_of_this_machine(lambda name: False))


async def _median(work: Callable[[], Awaitable[None]], times: int) -> float:
    await work()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)
