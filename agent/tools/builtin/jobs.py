"""Background jobs from the model's side: start one, look at those of the person, steer and cancel them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, Protocol

from pydantic import Field

from agent.model import ids
from agent.model.ids import JobId
from agent.model.job import Job, JobEvent, JobListing, JobOrigin, JobRefusal, JobRequest, JobViewer
from agent.model.tool_call import JsonValue, ToolOutput
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.registry import AnyTool
from agent.tools.schema import Arguments
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope
from channels.message import ChatType

MOST_EVENTS = 200
_CONTAINER = "container"
_NOT_BUILT = (
    "jobs run inside this program: '{name}' is for jobs in containers, which are not available. Leave it out. "
    "Nothing was started."
)


class Jobs(Protocol):
    """What these tools need of the scheduler. What is refused comes back with a text that says why."""

    async def create(self, request: JobRequest) -> Job | JobRefusal: ...

    async def list(self, viewer: JobViewer, narrowed_to: str) -> JobListing | JobRefusal: ...

    async def find(self, viewer: JobViewer, reference: str) -> Job | JobRefusal: ...

    async def events(self, job: Job, limit: int) -> tuple[JobEvent, ...]: ...

    async def cancel(self, viewer: JobViewer, reference: str) -> Job | JobRefusal: ...

    async def send(self, viewer: JobViewer, reference: str, text: str, key: str) -> Job | JobRefusal: ...


class Containers(Protocol):
    """Takes jobs that run in a container of their own."""

    async def start(
        self, request: JobRequest, context: ToolContext, *, folder: str | None, has_credentials: bool, waits: bool
    ) -> Job | JobRefusal:
        """With `waits` the job is over when this returns, unless it took longer than anybody waits."""
        ...


class CreateJobArguments(Arguments):
    """Arguments of `create_job`. Those after `description` are for jobs in containers."""

    title: str
    description: str = Field(description="all it needs to know: it sees nothing of this conversation")
    wait: bool = Field(default=True, description="container: return with the result")
    mode: str | None = Field(default=None, description="'container': alone with one folder, without network")
    project_dir: str | None = Field(default=None, description="container: its folder below projects/")
    credentials: Mapping[str, JsonValue] | None = None


class ListJobsArguments(Arguments):
    """Arguments of `list_jobs`."""

    filter: str = Field(default="all", description="all, active, pending, in_progress, completed, failed, stuck, …")


class JobArguments(Arguments):
    """Arguments of the tools about one job."""

    job_id: str = Field(description="the id, or at least four of its first digits")


class JobEventsArguments(JobArguments):
    """Arguments of `job_events`."""

    limit: int = Field(default=50, ge=1, le=MOST_EVENTS)


class JobPromptArguments(JobArguments):
    """Arguments of `job_prompt`."""

    content: str = Field(description="what the job is to know or to do differently")
    done: bool = Field(default=False, description="nothing more will follow: the job is to come to an end")


class CreateJob:
    """Starts a job. Its end is told in the conversation that it was started from."""

    spec: ClassVar = ToolSpec(
        "create_job",
        "Start work that goes on in the background while you answer. It returns at once; the person is told here how "
        "it ends. For what takes many steps or long.",
        CreateJobArguments,
        Effect.WRITE,
        assess=lambda arguments: Approval.UNLESS_ALWAYS if arguments.mode == _CONTAINER else Approval.NEVER,
        timeout=timedelta(seconds=660),
        rate=RateLimit(per_minute=5, per_hour=30),
        keeps_arguments=True,
    )

    def __init__(self, jobs: Jobs, containers: Containers | None = None) -> None:
        self._jobs = jobs
        self._containers = containers

    def scope(self, arguments: CreateJobArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: CreateJobArguments, context: ToolContext) -> ToolOutput:
        containers = self._containers if arguments.mode == _CONTAINER else None
        if containers is None and (unknown := _not_built(arguments)) is not None:
            return ToolOutput(_NOT_BUILT.format(name=unknown), is_error=True)
        wish = (str(context.turn), context.call_id, arguments.title, arguments.description)
        request = JobRequest(
            user=context.user,
            title=arguments.title,
            description=arguments.description,
            origin=origin_of(context),
            id=JobId(ids.job_id(*wish)),
            model=context.model,
        )
        if containers is None:
            return _told(await self._jobs.create(request))
        job = await containers.start(
            request,
            context,
            folder=arguments.project_dir,
            has_credentials=bool(arguments.credentials),
            waits=arguments.wait,
        )
        return ToolOutput(job.text, is_error=True) if isinstance(job, JobRefusal) else _json(_full(job))


class ListJobs:
    """Lists the person's jobs; in a shared chat those that were asked for there."""

    spec: ClassVar = ToolSpec(
        "list_jobs", "List the person's background jobs.", ListJobsArguments, Effect.READ, rare=True
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def scope(self, arguments: ListJobsArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: ListJobsArguments, context: ToolContext) -> ToolOutput:
        found = await self._jobs.list(viewer_of(context), arguments.filter)
        if isinstance(found, JobRefusal):
            return ToolOutput(found.text, is_error=True)
        return _json({"jobs": [_brief(job) for job in found.jobs], "total": found.total})


class JobStatusTool:
    """Shows one job."""

    spec: ClassVar = ToolSpec("job_status", "Look at one background job.", JobArguments, Effect.READ, rare=True)

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def scope(self, arguments: JobArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: JobArguments, context: ToolContext) -> ToolOutput:
        found = await self._jobs.find(viewer_of(context), arguments.job_id)
        if isinstance(found, JobRefusal):
            return ToolOutput(found.text, is_error=True)
        return _json(_full(found))


class JobEvents:
    """Shows what a job has done."""

    spec: ClassVar = ToolSpec(
        "job_events", "What a background job has done, step by step.", JobEventsArguments, Effect.READ, rare=True
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def scope(self, arguments: JobEventsArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: JobEventsArguments, context: ToolContext) -> ToolOutput:
        found = await self._jobs.find(viewer_of(context), arguments.job_id)
        if isinstance(found, JobRefusal):
            return ToolOutput(found.text, is_error=True)
        events = await self._jobs.events(found, arguments.limit)
        return _json(_brief(found) | {"events": [{"kind": each.kind, "text": each.text} for each in events]})


class CancelJob:
    """Ends a job."""

    spec: ClassVar = ToolSpec(
        "cancel_job", "Cancel a background job.", JobArguments, Effect.WRITE, Approval.UNLESS_ALWAYS, rare=True
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def scope(self, arguments: JobArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: JobArguments, context: ToolContext) -> ToolOutput:
        return _told(await self._jobs.cancel(viewer_of(context), arguments.job_id))


class JobPrompt:
    """Tells a running job something."""

    spec: ClassVar = ToolSpec(
        "job_prompt",
        "Tell a background job something while it runs.",
        JobPromptArguments,
        Effect.WRITE,
        Approval.UNLESS_ALWAYS,
        timeout=timedelta(seconds=30),
        rare=True,
        keeps_arguments=True,
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def scope(self, arguments: JobPromptArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: JobPromptArguments, context: ToolContext) -> ToolOutput:
        words = arguments.content.strip()
        if arguments.done:
            words = f"{words}\n\nNothing more will follow: bring the job to its end now.".strip()
        key = f"{context.turn}-{context.call_id}"
        return _told(await self._jobs.send(viewer_of(context), arguments.job_id, words, key))


def job_tools(jobs: Jobs, containers: Containers | None = None) -> tuple[AnyTool, ...]:
    """The tools about background jobs."""
    about = (ListJobs(jobs), JobStatusTool(jobs), JobEvents(jobs), CancelJob(jobs), JobPrompt(jobs))
    return (CreateJob(jobs, containers), *about)


def viewer_of(context: ToolContext) -> JobViewer:
    """Whose jobs a call sees, and where."""
    return JobViewer(context.user, context.address if context.is_shared else None)


def origin_of(context: ToolContext) -> JobOrigin:
    """The conversation of a call, as the place a job comes from."""
    match context.scope:
        case OperatorScope():
            sender = ""
        case PersonScope(user_id=sender):
            pass
        case GroupScope(member=member):
            sender = member or ""
    chat_type = ChatType.GROUP if context.is_shared else ChatType.PRIVATE
    return JobOrigin(context.address, chat_type, sender, context.zone.key)


def _not_built(arguments: CreateJobArguments) -> str | None:
    """The argument that asks for a kind of job which is not there."""
    if arguments.mode not in (None, "", "worker", "local"):
        return "mode"
    if arguments.project_dir:
        return "project_dir"
    return "credentials" if arguments.credentials else None


def _told(outcome: Job | JobRefusal) -> ToolOutput:
    if isinstance(outcome, JobRefusal):
        return ToolOutput(outcome.text, is_error=True)
    return _json(_brief(outcome))


def _brief(job: Job) -> dict[str, JsonValue]:
    return {"job_id": str(job.id), "title": job.title, "status": job.state.value}


def _full(job: Job) -> dict[str, JsonValue]:
    more = {
        "created_at": job.created_at.isoformat(),
        "started_at": job.started_at.isoformat() if job.started_at else None,
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "steps": job.steps,
        "tokens": job.tokens,
        "attempts": job.attempts,
        "result": job.result,
        "error": job.error,
    }
    return _brief(job) | {name: value for name, value in more.items() if value is not None}


def _json(value: Mapping[str, JsonValue]) -> ToolOutput:
    return ToolOutput(json.dumps(value, ensure_ascii=False))
