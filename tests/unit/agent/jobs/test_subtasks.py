"""Subtasks of a job: side by side, in order, by the rules of a job that nobody attends."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from uuid import UUID

import pytest
from pydantic import Field

from agent.jobs.subtasks import Background, Subtasks, ToolExec
from agent.model.ids import JobId, ThreadId
from agent.model.job import Job, JobLimits, JobRequest, JobState
from agent.model.tool_call import ToolCall, ToolOutput
from agent.store import jobs
from agent.store.open import open_store
from agent.store.sqlite import SqliteStore
from agent.tools.base import Approval, Effect, PathScope, ToolContext, ToolSpec
from agent.tools.execute import ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.tools.schema import Arguments
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import PlainSafety, make_context

ATTENDED, UNATTENDED, OVER = (JobId(UUID(int=number)) for number in (1, 2, 3))


class Say(Arguments):
    """What to say, and how many others have to be there first."""

    word: str = Field(min_length=1)
    others: int = 0


class Meeting:
    """A tool that returns once so many of its calls run at the same time."""

    def __init__(self, name: str, approval: Approval) -> None:
        self.spec: ToolSpec = ToolSpec(name, "Meets.", Say, Effect.READ, approval)

    present: ClassVar[int] = 0

    def scope(self, arguments: Say) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: Say, context: ToolContext) -> ToolOutput:
        if arguments.word == "break":
            raise RuntimeError("a defect")
        type(self).present += 1
        while type(self).present < arguments.others:
            await asyncio.sleep(0)
        return ToolOutput(f"{arguments.word} for {context.origin}")


def job(identifier: JobId, allowed: frozenset[str] | None, state: JobState = JobState.PENDING) -> Job:
    return Job(
        id=identifier,
        user=make_context().user,
        thread=ThreadId(identifier),
        title="t",
        description="d",
        state=state,
        origin=None,
        model=None,
        limits=JobLimits(),
        allowed_tools=allowed,
        reports=False,
        metadata={},
        created_at=NOON,
    )


@pytest.fixture
async def subtasks(tmp_path: Path) -> AsyncIterator[Subtasks]:
    store: SqliteStore = open_store(tmp_path)
    for each in (
        job(ATTENDED, None),
        job(UNATTENDED, frozenset({"always"})),
        job(OVER, None, JobState.CANCELLED),
    ):
        await store.write(lambda tx, known=each: jobs.add(tx, known))  # type: ignore[misc]
    Meeting.present = 0
    tools = [Meeting(approval.value, approval) for approval in Approval] + [Meeting("other", Approval.ALWAYS)]
    executor = ToolExecutor(
        ToolRegistry(tools), PlainSafety(), RateWindows(FakeClock()), None, LocalToolsFor.OPERATOR, 100_000
    )
    yield Subtasks(executor, store)
    await store.close()


def call(tool: str, parent: JobId = ATTENDED, word: str = "hi", **more: object) -> ToolExec:
    return ToolExec(parent, ToolCall("c1", tool, {"word": word} | more))


async def test_all_start_at_once_and_results_keep_the_order(subtasks: Subtasks) -> None:
    async with asyncio.timeout(5):
        results = await subtasks.spawn_batch(
            [call("never", word="a", others=3), call("never", word="b", others=3), call("never", word="c", others=3)],
            make_context(),
        )

    assert [result.text[0] for result in results] == ["a", "b", "c"]
    assert results[0].text == f"a for job:{ATTENDED}"


async def test_one_that_breaks_leaves_the_others_alone(subtasks: Subtasks) -> None:
    async def broken() -> ToolOutput:
        raise RuntimeError("a defect")

    results = await subtasks.spawn_batch(
        [call("never", word="break"), Background(broken), call("never"), call("no_such_tool"), call("never", word="")],
        make_context(),
    )

    assert [result.is_error for result in results] == [True, True, False, True, True]
    assert not any("a defect" in result.text for result in results)


async def test_nothing_gives_nothing(subtasks: Subtasks) -> None:
    assert await subtasks.spawn_batch([], make_context()) == ()


@pytest.mark.parametrize(
    ("parent", "runs"), [(ATTENDED, {"never"}), (UNATTENDED, {"never", "unless_always", "always"})]
)
async def test_what_would_ask_runs_only_by_what_was_allowed_beforehand(
    subtasks: Subtasks, parent: JobId, runs: set[str]
) -> None:
    names = ("never", "unless_always", "always", "other")

    results = await subtasks.spawn_batch([call(name, parent) for name in names], make_context())

    assert {name for name, result in zip(names, results, strict=True) if not result.is_error} == runs


async def test_job_that_is_over_gets_nothing_done_and_a_job_is_no_subtask(subtasks: Subtasks) -> None:
    wish = JobRequest(make_context().user, "t", "d", None)

    over = await subtasks.spawn_subtask(call("never", OVER), make_context())
    unknown = await subtasks.spawn_subtask(replace(call("never"), parent=JobId(UUID(int=9))), make_context())
    nested = await subtasks.spawn_subtask(wish, make_context())

    assert [each.is_error for each in (over, unknown, nested)] == [True] * 3
    assert Meeting.present == 0
