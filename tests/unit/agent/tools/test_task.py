"""A subagent works by itself on what it is given, within the bounds of the turn that started it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.errors import ContextTooLong
from agent.llm.messages import ToolResult, UserText
from agent.model.tool_call import ToolCall, ToolOutput
from agent.safety.layer import SafetyLayer
from agent.tools.base import Approval, Effect, IterationBudget, PathScope, ToolContext, ToolSpec
from agent.tools.builtin.task import Task, TaskArguments, allowed_paths
from agent.tools.execute import ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.tools.schema import Arguments
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, call, calls, say
from tests.support.tool_context import make_context

KEY = "sk-ant-api03-" + "a" * 95


class PathArguments(Arguments):
    path: str = ""


@dataclass
class Doer:
    """A tool that notes the paths it was called with."""

    name: str
    effect: Effect = Effect.WRITE
    approval: Approval = Approval.NEVER
    knows_its_scope: bool = True
    done: list[str] = field(default_factory=list)
    meets: asyncio.Barrier | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "Does it.", PathArguments, self.effect, self.approval)

    def scope(self, arguments: PathArguments) -> PathScope | None:
        return PathScope.of(arguments.path) if self.knows_its_scope else None

    async def run(self, arguments: PathArguments, context: ToolContext) -> ToolOutput:
        if self.meets is not None:
            await self.meets.wait()
        self.done.append(f"{context.origin}:{arguments.path}")
        return ToolOutput("done")


class Allowed:
    """Consents to tools by name."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def allows(self, tool: str) -> bool:
        return tool in self._names


def make_task(steps: list[ScriptStep], *tools: Doer) -> tuple[Task, ScriptedLLM]:
    llm = ScriptedLLM(steps)
    registry = ToolRegistry(tools)
    safety = SafetyLayer()
    executor = ToolExecutor(
        registry, safety, RateWindows(FakeClock()), None, LocalToolsFor.OPERATOR, output_limit_bytes=100_000
    )
    return Task(llm, registry, executor, safety), llm


def context(limit: int = 10, *allowed: str) -> ToolContext:
    return replace(make_context(), budget=IterationBudget(limit), consents=Allowed(*allowed))


def results(llm: ScriptedLLM) -> str:
    return "\n".join(message.text for message in llm.requests[-1].messages if isinstance(message, ToolResult))


async def test_the_subagent_sees_its_prompt_alone_and_gives_its_answer() -> None:
    reader = Doer("reader", Effect.READ)
    task, llm = make_task([call("reader", path="a"), say("<think>hm</think>It is 7.")], reader)

    output = await task.run(TaskArguments(prompt="count them"), context())

    assert output == ToolOutput("It is 7.")
    assert reader.done == ["task:a"]
    assert list(llm.requests[0].messages) == [UserText("count them")]


async def test_a_secret_that_the_subagent_writes_does_not_come_back() -> None:
    task, _ = make_task([say(f"the key is {KEY}")])

    assert KEY not in (await task.run(TaskArguments(prompt="go"), context())).text


async def test_memory_messages_and_further_subagents_are_not_offered_and_refused_by_name() -> None:
    names = ("task", "memory_read", "message", "reader")
    tools = [Doer(name, Effect.READ) for name in names]
    asked = calls(*(ToolCall(f"c{number}", name, {}) for number, name in enumerate(names)))
    task, llm = make_task([asked, say("ok")], *tools)

    await task.run(TaskArguments(prompt="go"), context())

    assert [tool.name for tool in llm.requests[0].tools] == ["reader"]
    assert [tool.name for tool in tools if tool.done] == ["reader"]
    assert results(llm).count("not available to a subagent") == 3


async def test_depth_ends_at_two() -> None:
    task, llm = make_task([say("never asked")])

    output = await task.run(TaskArguments(prompt="go"), replace(context(), budget=None))

    assert output.is_error
    assert not llm.requests


@pytest.mark.parametrize(
    ("paths", "path", "runs"),
    [
        ([], "a.txt", False),
        (["docs"], "docs/a.txt", True),
        (["docs"], "docs", True),
        (["docs"], "docs2/a.txt", False),
        (["docs"], "docs/../a.txt", False),
        (["docs/../.."], "a.txt", False),
        (["."], "a.txt", True),
        (["a.txt", "b.txt"], "b.txt", True),
    ],
)
async def test_it_changes_nothing_but_its_paths(paths: list[str], path: str, runs: bool) -> None:
    writer = Doer("writer")
    task, llm = make_task([call("writer", path=path), say("ok")], writer)

    await task.run(TaskArguments(prompt="go", paths=paths), context())

    assert bool(writer.done) == runs
    assert ("outside the paths" in results(llm)) == (not runs)


@pytest.mark.parametrize("doer", [Doer("sh", knows_its_scope=False), Doer("sh", Effect.OUTSIDE)])
@pytest.mark.parametrize(("paths", "runs"), [(["docs"], False), (["."], True)])
async def test_what_may_touch_anything_needs_the_whole_folder(doer: Doer, paths: list[str], runs: bool) -> None:
    writer = replace(doer, done=[])
    task, _ = make_task([call("sh"), say("ok")], writer)

    await task.run(TaskArguments(prompt="go", paths=paths), context())

    assert bool(writer.done) == runs


@pytest.mark.parametrize(
    ("approval", "allowed", "runs"),
    [
        (Approval.UNLESS_ALWAYS, (), False),
        (Approval.UNLESS_ALWAYS, ("reader",), True),
        (Approval.ALWAYS, ("reader",), False),
    ],
)
async def test_what_needs_consent_runs_only_if_it_was_given_for_good(
    approval: Approval, allowed: tuple[str, ...], runs: bool
) -> None:
    reader = Doer("reader", Effect.READ, approval)
    task, llm = make_task([call("reader"), say("ok")], reader)

    await task.run(TaskArguments(prompt="go"), context(10, *allowed))

    assert bool(reader.done) == runs
    assert ("consent" in results(llm)) == (not runs)


async def test_it_takes_its_rounds_from_the_turn_and_leaves_the_last_one() -> None:
    task, llm = make_task([call("reader", path=str(number)) for number in range(20)], Doer("reader", Effect.READ))
    turn = context(6)
    assert turn.budget is not None
    turn.budget.own = 2

    output = await task.run(TaskArguments(prompt="go"), turn)

    assert output.is_error
    assert "no iterations are left" in output.text
    assert len(llm.requests) == 3
    assert turn.budget.left == 1


async def test_unused_rounds_stay_the_turns() -> None:
    task, _ = make_task([say("done")])
    turn = context(10)
    assert turn.budget is not None
    turn.budget.own = 1

    await task.run(TaskArguments(prompt="go"), turn)

    assert turn.budget.left == 8


async def test_its_own_limit_makes_it_answer_without_tools() -> None:
    task, llm = make_task([call("reader"), say("so far: 1")], Doer("reader", Effect.READ))

    output = await task.run(TaskArguments(prompt="go", max_iterations=2), context())

    assert output == ToolOutput("so far: 1")
    assert not llm.requests[-1].tools


async def test_a_fault_of_the_model_is_an_error_that_tells_how_far_it_came() -> None:
    task, _ = make_task(
        [call("reader", text="Read the first."), ContextTooLong("too long")], Doer("reader", Effect.READ)
    )

    output = await task.run(TaskArguments(prompt="go"), context())

    assert output.is_error
    assert "too long" in output.text
    assert "Read the first." in output.text


async def test_calls_that_only_read_different_things_run_side_by_side() -> None:
    reader = Doer("reader", Effect.READ, meets=asyncio.Barrier(2))
    both = calls(ToolCall("c1", "reader", {"path": "a"}), ToolCall("c2", "reader", {"path": "b"}))
    task, _ = make_task([both, say("ok")], reader)

    async with asyncio.timeout(5):
        await task.run(TaskArguments(prompt="go"), context())

    assert sorted(reader.done) == ["task:a", "task:b"]


def test_a_task_without_paths_reads_and_one_with_paths_writes() -> None:
    effect = Task.spec.assess_effect
    assert effect is not None
    assert effect(TaskArguments(prompt="x")) is Effect.READ
    assert effect(TaskArguments(prompt="x", paths=["a"])) is Effect.WRITE


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "c d"]), max_size=6).map("/".join))
def test_a_path_never_leads_out_of_the_folder(path: str) -> None:
    for allowed in allowed_paths([path]).paths:
        assert ".." not in allowed.parts
        assert allowed.is_relative_to(PurePosixPath("/"))
