"""The wording of what is said about jobs, in chats and on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from agent.conversation.replies import within
from agent.model.job import Job, JobState

NO_TITLE = "A job needs a title: say in words what is to be done."
NO_DESCRIPTION = "A job needs a description of what is to be done."
TOO_LONG = "The description of the job is too long ({count} characters, at most {most})."
TOO_MANY = "{count} of your jobs are waiting already. Let some of them end, or cancel some, and ask again."
NOT_FOUND = "Job not found: none of yours has the id {reference}. `/jobs` lists them."
NO_ID = "{reference} is no job id. Type at least four of its first digits; `/jobs` lists your jobs."
AMBIGUOUS = "More than one of your jobs has an id that begins with {reference}. Type more of its digits."
IS_OVER = "Job {id} is {state} already; nothing was changed."
CANCELLED = "Job {id} (**{title}**) is cancelled."
NOT_STUCK = "Job {id} is not stuck, it is {state}."
RECOVERED = "Job {id} (**{title}**) goes on, attempt {attempt}."
TOLD = "Job {id} is told of it."
NOTHING_TO_TELL = "There is nothing to tell the job."
NO_JOBS = "There are no jobs. `/job WHAT IS TO BE DONE` starts one."
NONE_OF_THEM = "There are no jobs like that. `/jobs` lists all of them."
BAD_FILTER = "Choose one of {filters}."

OUT_OF_TIME = "its time was over"
HANGS = "it gave no sign of life"
MODEL_AWAY = "the language model did not answer"
OUT_OF_STEPS = "It used up its {count} steps (maximum iterations) without coming to an end. What it did is kept."
OUT_OF_TOKENS = "It used up its budget of {limit} tokens ({used} used). What it did is kept."
NO_NESTING = "a job cannot be a part of another job. Nothing was started."
PARENT_IS_OVER = "the job it belongs to is over. It was not run."
NEEDS_CONSENT = "{tool} needs a person's consent, and nobody can be asked here. It was not run."
TOO_LONG_FOR_MODEL = "It became longer than the model can take. What it did is kept. Ask for a smaller part."
MODEL_REFUSES = "The language model did not accept a request of it. What it did is kept. Ask for it in another way."
NO_WORDS = "The language model gave no answer for it. What it did is kept."
TOOL_SWITCHED_OFF = (
    "The tool {tool} broke {count} times in a row, so I took it away until the next start. Its server or plug-in may "
    "need a look; `/tools` lists what is left."
)

_BAR = 10


def started(job: Job) -> str:
    """What is said of a job that was taken."""
    word = "has started" if job.state is JobState.IN_PROGRESS else "waits for its turn"
    return f"Job `{job.id}` {word}: **{job.title}**\n\nI tell you here when it ends; `/status {job.short_id}` shows it."


def ended(job: Job, text: str) -> str:
    """The notice of a job's end; `text` is its result, or why it has none."""
    name = f"`{job.short_id}` **{job.title}**"
    match job.state:
        case JobState.COMPLETED:
            return f"✅ Job {name} is done.\n\n{text}"
        case JobState.CANCELLED:
            return f"⏹ Job {name} was cancelled."
        case _:
            return f"❌ Job {name} failed.\n\n{text}"


def is_stuck(job: Job, reason: str) -> str:
    """The notice of a job that came to a halt."""
    return (
        f"⚠️ Job `{job.short_id}` **{job.title}** is stuck: {reason}. I try it again by myself; "
        f"`/help {job.short_id}` does so at once."
    )


def gave_up(job: Job) -> str:
    """Why a job that was stuck too often is over."""
    return f"It was stuck again after {job.attempts} more attempts, so I gave up. What it did is kept."


def asks(job: Job, description: str) -> str:
    """A question's description with the job that asks it."""
    return f"For the background job {job.short_id} ({job.title}): {description}"


def progress(job: Job) -> str:
    """How far a running job is, as one line with a bar."""
    limit = max(1, job.limits.max_iterations)
    filled = min(_BAR, job.steps * _BAR // limit)
    return f"⏳ Job `{job.short_id}` **{job.title}**\n{'▓' * filled}{'░' * (_BAR - filled)} step {job.steps} of {limit}"


def progress_over(job: Job) -> str:
    """What stays of the progress line of a job that is over."""
    return f"Job `{job.short_id}` **{job.title}**: {words(job.state)} after {job.steps} step{_s(job.steps)}."


def line(job: Job) -> str:
    """A job in a list."""
    return f"- `{job.short_id}` **{job.title}**: {words(job.state)}"


def listing(jobs: Sequence[Job], total: int) -> str:
    """A person's jobs, and how many more there are."""
    lines = ["**Jobs**", "", *map(line, jobs)]
    if total > len(jobs):
        lines.append(f"- and {total - len(jobs)} more, which `/status ID` shows")
    return "\n".join(lines)


def summary(counts: Mapping[JobState, int]) -> str:
    """How many jobs there are, in one line."""
    total = sum(counts.values())
    shown = (JobState.PENDING, JobState.IN_PROGRESS, JobState.COMPLETED, JobState.FAILED, JobState.STUCK)
    parts = [f"{counts.get(state, 0)} {words(state)}" for state in shown]
    return f"jobs: {total} in all; {', '.join(parts)}"


def details(job: Job, now: datetime) -> str:
    """All that is told of one job."""
    lines = [
        f"**{job.title}**",
        f"- id: `{job.id}`",
        f"- state: {words(job.state)}",
        f"- created: {_clock(job.created_at)}",
        f"- started: {_clock(job.started_at) if job.started_at else 'not started'}",
    ]
    if job.finished_at is not None:
        lines.append(f"- ended: {_clock(job.finished_at)}")
    elif job.started_at is not None:
        lines.append(f"- runs for: {within(now - job.started_at)}")
    budget = f" of {job.limits.max_tokens}" if job.limits.max_tokens else ""
    lines.append(f"- steps: {job.steps} of {job.limits.max_iterations}; tokens: {job.tokens}{budget}")
    if job.attempts:
        lines.append(f"- started again: {job.attempts} time{_s(job.attempts)}")
    if job.state is JobState.STUCK and job.transitions:
        lines.append(f"- stuck because {job.transitions[-1].reason}")
    if job.error:
        lines.append(f"- ended with: {job.error}")
    if job.result:
        lines += ["", job.result]
    return "\n".join(lines)


def words(state: JobState) -> str:
    """A state in words."""
    return state.value.replace("_", " ")


def _clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
