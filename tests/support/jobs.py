"""Short ways to ask for background jobs in scenarios, and to look at them."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.llm.base import CompletionRequest
from agent.llm.messages import ToolResult, UserText
from agent.model.ids import OPERATOR, JobId, UserId
from agent.model.job import Job, JobListing, JobOrigin, JobRequest, JobState, JobViewer
from agent.model.tool_call import ToolCall
from channels.message import Address, ChatType
from tests.support.bot import Bot
from tests.support.memory_channel import Posted
from tests.support.scripted_llm import say

NO_PLAN = say("I need no plan.")
DONE = say("I have completed the job: 42 sheep.")
RUN = "echo ran >> proof.txt"
JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
ME = JobViewer(OPERATOR)


def runs(home: Path) -> int:
    """How often the command of `shell` has run."""
    return sum(len(path.read_text().splitlines()) for path in home.rglob("proof.txt"))


def shell(*, id: str = "call_1") -> ToolCall:
    """A call that leaves a trace and asks first."""
    return ToolCall(id, "shell", {"command": RUN})


async def start(bot: Bot, text: str = "/job Count the sheep", **more: Any) -> Job:
    """Ask for a job in a chat; the job as it stands after the reply."""
    known = len(bot.telegram.posted)
    await bot.say(text, **more)
    reply = await bot.post(lambda post: post in bot.telegram.posted[known:] and bool(JOB_ID.search(post.text)))
    found = JOB_ID.search(reply.text)
    assert found is not None
    job = await bot.core.jobs.find(JobViewer(None), found[0])
    assert isinstance(job, Job)
    return job


async def the_job(bot: Bot) -> Job:
    """The only job there is."""
    (job,) = (await listing(bot)).jobs
    return job


async def listing(bot: Bot) -> JobListing:
    """All jobs, the newest first."""
    found = await bot.core.jobs.list(JobViewer(None), "all")
    assert isinstance(found, JobListing)
    return found


def reports(bot: Bot, word: str = "42 sheep") -> list[Posted]:
    """The posts on Telegram that hold a word."""
    return [post for post in bot.telegram.posted if word in post.text]


def words(request: CompletionRequest) -> str:
    """What a model call was told in the person's name."""
    return "\n".join(message.text for message in request.messages if isinstance(message, UserText))


def tool_results(request: CompletionRequest) -> list[ToolResult]:
    """The results of calls that a model call saw."""
    return [message for message in request.messages if isinstance(message, ToolResult)]


def request(text: str = "Count the sheep", user: UserId = OPERATOR, **more: object) -> JobRequest:
    """A wish that comes from the operator's private chat."""
    origin = JobOrigin(Address(channel="telegram", chat_id="1"), ChatType.PRIVATE, "1")
    return JobRequest(user, text, text, origin, **more)  # type: ignore[arg-type]


async def the_state(bot: Bot, fits: Callable[[Job], bool]) -> Job:
    """A job as soon as one fits."""
    async with asyncio.timeout(5):
        while True:
            for job in (await listing(bot)).jobs:
                if fits(job):
                    return job
            await asyncio.sleep(0.001)


def is_stuck(attempt: int, job: Job) -> bool:
    """Whether a job is stuck after so many further attempts."""
    return job.state is JobState.STUCK and job.attempts == attempt


async def ended(bot: Bot, job: JobId) -> Job:
    """The job once it is over."""
    return await the_state(bot, lambda each: each.id == job and each.state.is_over)
