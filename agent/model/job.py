"""Background jobs: work that outlives the message that asked for it, and the states it goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from agent.errors import InvalidTransition
from agent.model.ids import JobId, ThreadId, UserId
from agent.model.tool_call import JsonValue
from channels.message import Address, ChatType

JOB_PLACE = "job"
"""The channel in the key of a job's thread. No chat has it, so no message of a chat ever leads there."""


class JobState(StrEnum):
    """How far a job has come. `SUBMITTED` and `ACCEPTED` are for work that somebody else has to take: unused so far."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    SUBMITTED = "submitted"
    ACCEPTED = "accepted"
    FAILED = "failed"
    STUCK = "stuck"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether the job does nothing any more."""
        return self not in (JobState.PENDING, JobState.IN_PROGRESS, JobState.STUCK)

    @property
    def holds_slot(self) -> bool:
        """Whether it counts against the number of jobs that run side by side."""
        return self in (JobState.IN_PROGRESS, JobState.STUCK)


_S = JobState
_TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    _S.PENDING: frozenset({_S.IN_PROGRESS, _S.CANCELLED, _S.FAILED}),
    _S.IN_PROGRESS: frozenset({_S.COMPLETED, _S.FAILED, _S.STUCK, _S.CANCELLED}),
    _S.COMPLETED: frozenset({_S.COMPLETED, _S.SUBMITTED, _S.FAILED}),
    _S.SUBMITTED: frozenset({_S.ACCEPTED, _S.FAILED}),
    _S.STUCK: frozenset({_S.IN_PROGRESS, _S.FAILED, _S.CANCELLED}),
    _S.ACCEPTED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}


def check_transition(before: JobState, after: JobState) -> None:
    """Raises InvalidTransition where a job may not go from one state to the other."""
    if after not in _TRANSITIONS[before]:
        raise InvalidTransition(before, f"go to {after}")


def may_go(before: JobState, after: JobState) -> bool:
    """Whether a job may go from one state to the other."""
    return after in _TRANSITIONS[before]


@dataclass(frozen=True, slots=True)
class JobOrigin:
    """The chat a job comes from: whose files it may see, where its questions and its end are told.

    `sender` is the platform's id of the person; `reply_to` the message that asked, for shared chats.
    """

    address: Address
    chat_type: ChatType
    sender: str
    zone: str | None = None
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What a job may use up. `max_tokens` 0: as many as it needs."""

    max_iterations: int = 50
    max_tokens: int = 0


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A wish for a job.

    `id`: chosen by the caller where the same wish may be made twice (a call that is resumed); the second changes
    nothing. `origin`: None where there is no chat: nobody can be asked and nobody is told. `allowed_tools`: for jobs
    that run with nobody about: calls that ask unless they were allowed run without asking, those that ask each time
    only if their tool is named here; None: the person is asked in the chat of origin. `reports`: whether the end is
    told in the chat of origin. `metadata`: facts of the one who asked; `routine` names the routine.
    """

    user: UserId
    title: str
    description: str
    origin: JobOrigin | None
    id: JobId | None = None
    model: str | None = None
    limits: JobLimits | None = None
    allowed_tools: frozenset[str] | None = None
    reports: bool = True
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobViewer:
    """Who looks at jobs, and before whose eyes. `user` None: the operator of the machine, who sees everybody's.

    `chat`: a shared chat, whose readers see only what was asked for there.
    """

    user: UserId | None
    chat: Address | None = None

    def sees(self, job: Job) -> bool:
        """Whether the job exists for them."""
        if self.user is not None and job.user != self.user:
            return False
        if self.chat is None:
            return True
        here = (self.chat.channel, self.chat.chat_id)
        return job.origin is not None and (job.origin.address.channel, job.origin.address.chat_id) == here


@dataclass(frozen=True, slots=True)
class JobRefusal:
    """Why something about a job was not done, for whoever asked."""

    text: str


@dataclass(frozen=True, slots=True)
class JobListing:
    """The newest jobs that were asked for, and how many there are."""

    jobs: tuple[Job, ...]
    total: int


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened in a job. `kind` is status, message, tool_use, tool_result or result."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of state, and why."""

    before: JobState
    after: JobState
    at: datetime
    reason: str


MOST_TRANSITIONS = 200


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands.

    `deadline`: when its time is over; `alive_until`: without a sign of life by then it hangs. Both are None while it
    waits for a slot or for a person. `attempts`: how often it was started again. `shown_at`: when its progress was
    told last.
    """

    id: JobId
    user: UserId
    thread: ThreadId
    title: str
    description: str
    state: JobState
    origin: JobOrigin | None
    model: str | None
    limits: JobLimits
    allowed_tools: frozenset[str] | None
    reports: bool
    metadata: Mapping[str, JsonValue]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline: datetime | None = None
    alive_until: datetime | None = None
    attempts: int = 0
    steps: int = 0
    tokens: int = 0
    shown_at: datetime | None = None
    result: str | None = None
    error: str | None = None
    transitions: tuple[Transition, ...] = ()

    @property
    def is_unattended(self) -> bool:
        """Whether it runs with nobody about, on what was allowed beforehand."""
        return self.allowed_tools is not None

    @property
    def short_id(self) -> str:
        """The first eight digits, enough to name it in a chat."""
        return str(self.id)[:8]
