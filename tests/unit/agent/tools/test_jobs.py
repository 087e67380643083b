"""The tools about background jobs: what the model is told, and whose jobs they reach."""

import json
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from agent.model import ids
from agent.model.ids import JobId, ThreadId
from agent.model.job import (
    Job,
    JobEvent,
    JobLimits,
    JobListing,
    JobRefusal,
    JobRequest,
    JobState,
    JobViewer,
)
from agent.model.tool_call import ToolCall
from agent.tools.base import Approval, ToolContext
from agent.tools.builtin.jobs import job_tools
from agent.tools.execute import Prepared, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import PROTECTED, LocalToolsFor, ToolRegistry
from agent.workspace.scope import GroupScope, PersonScope
from channels.message import Address, ChatType
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import PlainSafety, make_context

GROUP = GroupScope("telegram", "-100", "7")


@dataclass
class Desk:
    """Takes every job, knows one, and remembers what it was asked."""

    taken: list[JobRequest] = field(default_factory=list)
    viewers: list[JobViewer] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)

    async def create(self, request: JobRequest) -> Job | JobRefusal:
        self.taken.append(request)
        return a_job(request) if request.title else JobRefusal("needs a title")

    async def list(self, viewer: JobViewer, narrowed_to: str) -> JobListing | JobRefusal:
        self.viewers.append(viewer)
        return JobListing((a_job(),), 7) if narrowed_to == "all" else JobRefusal("Choose one of all.")

    async def find(self, viewer: JobViewer, reference: str) -> Job | JobRefusal:
        self.viewers.append(viewer)
        return a_job() if reference == "abcd" else JobRefusal("Job not found")

    async def events(self, job: Job, limit: int) -> tuple[JobEvent, ...]:
        return (JobEvent("tool_use", "echo {}"),)[:limit]

    async def cancel(self, viewer: JobViewer, reference: str) -> Job | JobRefusal:
        return await self.find(viewer, reference)

    async def send(self, viewer: JobViewer, reference: str, text: str, key: str) -> Job | JobRefusal:
        self.told.append((text, key))
        return await self.find(viewer, reference)


def a_job(request: JobRequest | None = None) -> Job:
    return Job(
        id=(request.id if request else None) or JobId(UUID(int=5)),
        user=make_context().user,
        thread=ThreadId(UUID(int=6)),
        title=request.title if request else "Sheep",
        description="d",
        state=JobState.PENDING,
        origin=None,
        model=None,
        limits=JobLimits(),
        allowed_tools=None,
        reports=True,
        metadata={},
        created_at=NOON,
    )


async def run(desk: Desk, name: str, context: ToolContext | None = None, **arguments: object) -> tuple[bool, Any]:
    """Whether the call was an error, and what it returned."""
    registry = ToolRegistry(job_tools(desk))
    executor = ToolExecutor(registry, PlainSafety(), RateWindows(FakeClock()), None, LocalToolsFor.OPERATOR, 100_000)
    prepared = await executor.prepare(ToolCall("c1", name, arguments), context or make_context())
    assert isinstance(prepared, Prepared), prepared.output.text
    output = await executor.run(prepared, context or make_context())
    return output.is_error, output.text if output.is_error else json.loads(output.text)


async def test_new_job_belongs_to_the_person_and_reports_to_the_conversation_of_the_call() -> None:
    desk = Desk()

    is_error, told = await run(desk, "create_job", make_context(GROUP), title="Sheep", description="Count")

    (request,) = desk.taken
    assert not is_error
    assert told == {"job_id": str(request.id), "title": "Sheep", "status": "pending"}
    assert request.origin is not None
    assert request.origin.address == Address(channel="telegram", chat_id="-100")
    assert (request.origin.chat_type.is_shared, request.origin.sender) == (True, "7")
    assert request.allowed_tools is None


async def test_job_of_a_private_call_keeps_the_persons_own_scope() -> None:
    desk = Desk()

    await run(desk, "create_job", make_context(PersonScope("slack", "U7")), title="t", description="d")

    origin = desk.taken[0].origin
    assert origin is not None
    assert (origin.chat_type, origin.sender) == (ChatType.PRIVATE, "U7")


async def test_same_call_asks_for_the_same_job_and_another_for_another() -> None:
    desk = Desk()
    for call_id in ("c1", "c1", "c2"):
        await run(desk, "create_job", replace(make_context(), call_id=call_id), title="t", description="d")

    first, again, other = (request.id for request in desk.taken)
    assert first == again != other


async def test_kinds_of_jobs_that_are_not_there_are_refused_by_name() -> None:
    for extra in ({"mode": "claude_code"}, {"project_dir": "/x"}, {"credentials": {"a": "B"}}):
        desk = Desk()
        is_error, told = await run(desk, "create_job", title="t", description="d", **extra)

        assert is_error
        assert next(iter(extra)) in told
        assert not desk.taken


async def test_waiting_for_a_job_of_this_program_is_accepted_and_returns_at_once() -> None:
    wish = ids.job_id(str(make_context().turn), "call_1", "t", "d")

    assert await run(Desk(), "create_job", title="t", description="d", wait=True) == (
        False,
        {"job_id": str(wish), "title": "t", "status": "pending"},
    )


async def test_refusals_reach_the_model_as_errors() -> None:
    desk = Desk()

    assert await run(desk, "create_job", title="", description="d") == (True, "needs a title")
    assert await run(desk, "job_status", job_id="ffff") == (True, "Job not found")
    assert await run(desk, "job_events", job_id="ffff") == (True, "Job not found")
    assert await run(desk, "cancel_job", job_id="ffff") == (True, "Job not found")
    assert await run(desk, "list_jobs", filter="odd") == (True, "Choose one of all.")


async def test_jobs_are_looked_at_as_the_person_and_place_of_the_call() -> None:
    desk = Desk()

    await run(desk, "list_jobs")
    await run(desk, "job_status", make_context(GROUP), job_id="abcd")

    assert desk.viewers == [
        JobViewer(make_context().user),
        JobViewer(make_context(GROUP).user, Address(channel="telegram", chat_id="-100")),
    ]


async def test_listing_status_and_events_are_json() -> None:
    desk = Desk()
    brief = {"job_id": str(UUID(int=5)), "title": "Sheep", "status": "pending"}

    assert await run(desk, "list_jobs") == (False, {"jobs": [brief], "total": 7})
    assert await run(desk, "job_events", job_id="abcd", limit=1) == (
        False,
        brief | {"events": [{"kind": "tool_use", "text": "echo {}"}]},
    )
    is_error, status = await run(desk, "job_status", job_id="abcd")
    assert not is_error
    assert brief.items() <= status.items()


async def test_last_word_tells_the_job_to_come_to_its_end() -> None:
    desk = Desk()

    await run(desk, "job_prompt", job_id="abcd", content="skip the lambs", done=True)

    assert desk.told[0][0].startswith("skip the lambs")
    assert "bring the job to its end" in desk.told[0][0]


def test_names_rules_and_prompt_size_are_those_of_the_specification() -> None:
    specs = {tool.spec.name: tool.spec for tool in job_tools(Desk())}

    assert set(specs) <= PROTECTED
    assert {name for name, spec in specs.items() if not spec.rare} == {"create_job"}
    assert {name for name, spec in specs.items() if spec.approval is Approval.UNLESS_ALWAYS} == {
        "cancel_job",
        "job_prompt",
    }
    rate = specs["create_job"].rate
    assert rate is not None
    assert (rate.per_minute, rate.per_hour) == (5, 30)
