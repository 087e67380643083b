"""Jobs in containers in the whole bot: asked for in a chat, told there, stopped there, and over after a restart."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from agent.jobs.container import wording
from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import ToolResult, UserText
from agent.model.ids import OPERATOR
from agent.model.job import Job, JobListing, JobState, JobViewer
from tests.support.bot import Bot
from tests.support.containers import needs_podman
from tests.support.sandboxes import needs_bubblewrap
from tests.support.scripted_llm import Held, ScriptedLLM, call, say

pytestmark = needs_bubblewrap
ME = JobViewer(OPERATOR)
WALLS = {"SANDBOX_CONTAINER": "bubblewrap", "SANDBOX_BACKEND": "bubblewrap", "AGENT_AUTO_APPROVE_TOOLS": "true"}
DONE = say("I have completed the job: 42 sheep.")
ASK = {"title": "Count the sheep", "description": "All of them.", "mode": "container"}


def is_inside(request: CompletionRequest) -> bool:
    return "in a container of your own" in request.system


class Script:
    """Answers the chat and the container from scripts of their own, whoever asks first."""

    def __init__(self, chat: list[Completion], inside: list[Completion]) -> None:
        self.llm = ScriptedLLM(default=self._answer)
        self.chat, self.inside = chat, inside
        self.asked: list[CompletionRequest] = []

    def _answer(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        return (self.inside if is_inside(request) else self.chat).pop(0)


async def ended(bot: Bot) -> Job:
    """The one job, once it is over."""
    async with asyncio.timeout(60):
        while True:
            found = await bot.core.jobs.list(ME, "all")
            if isinstance(found, JobListing) and found.jobs and found.jobs[0].state.is_over:
                return found.jobs[0]
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("backend", ["bubblewrap", pytest.param("podman", marks=needs_podman)])
async def test_job_in_a_container_works_in_its_folder_and_is_told_in_its_chat_once(
    tmp_path: Path, backend: str
) -> None:
    inside = [call("shell", text="I count them.", command="echo 42 > sheep"), DONE]
    script = Script([call("create_job", **ASK, project_dir="projects/farm", wait=False), say("It runs.")], inside)
    async with Bot(tmp_path, script.llm, variables={**WALLS, "SANDBOX_CONTAINER": backend}) as bot:
        await bot.say("count in a container")
        job = await ended(bot)
        await bot.post("42 sheep")
        await bot.rest()

        assert job.state is JobState.COMPLETED
        assert (tmp_path / "workspace" / "projects" / "farm" / "sheep").read_text() == "42\n"
        assert len([text for text in bot.texts if "42 sheep" in text]) == 1
        assert len([text for text in bot.texts if f"[Job {job.short_id}] I count them." in text]) == 1
        events = await bot.core.jobs.events(job, 50)
        assert [event.kind for event in events if event.kind.startswith("tool")] == ["tool_use", "tool_result"]
        assert job.tokens == 15  # as it stood at its last step: its calls are counted as the job's
        assert not any("I count them" in str(request.messages) for request in script.asked if not is_inside(request))


async def test_waiting_for_it_gives_its_result_to_the_model_and_no_notice_to_the_chat(tmp_path: Path) -> None:
    script = Script([call("create_job", **ASK), say("There are 42.")], [DONE])
    async with Bot(tmp_path, script.llm, variables=WALLS) as bot:
        await bot.say("count in a container and wait")
        await ended(bot)
        await bot.clock.wait_for_sleeper(timedelta(seconds=2))
        bot.clock.advance(timedelta(seconds=2))
        await bot.post("There are 42.")
        await bot.rest()

        (result,) = [m for m in script.asked[-1].messages if isinstance(m, ToolResult)]
        assert "42 sheep" in result.text
        assert [text for text in bot.texts if "42 sheep" in text] == []


async def test_cancelled_job_leaves_no_container(tmp_path: Path) -> None:
    held = Held(DONE)
    llm = ScriptedLLM([call("create_job", **ASK, wait=False), say("It runs.")])
    async with Bot(tmp_path, llm, variables=WALLS) as bot:
        llm.add(held)
        await bot.say("count in a container")
        async with asyncio.timeout(60):
            await held.reached.wait()
        found = await bot.core.jobs.list(ME, "active")
        assert isinstance(found, JobListing)
        await bot.core.jobs.cancel(ME, str(found.jobs[0].id))
        job = await ended(bot)
        await bot.rest()
        assert job.state is JobState.CANCELLED
        assert workers(bot) == []


async def test_what_is_said_to_it_reaches_it(tmp_path: Path) -> None:
    held = Held(say("On it."))
    llm = ScriptedLLM([call("create_job", **ASK, wait=False), say("It runs."), held, DONE])
    async with Bot(tmp_path, llm, variables=WALLS) as bot:
        await bot.say("count in a container")
        async with asyncio.timeout(60):
            await held.reached.wait()
        found = await bot.core.jobs.list(ME, "active")
        assert isinstance(found, JobListing)
        await bot.core.jobs.send(ME, str(found.jobs[0].id), "only the black ones", "k")
        held.release.set()
        assert (await ended(bot)).state is JobState.COMPLETED
        words = [m.text for m in llm.requests[-1].messages if isinstance(m, UserText)]
        assert any("only the black ones" in text for text in words)


async def test_after_a_restart_the_job_has_failed_and_says_why(tmp_path: Path) -> None:
    held = Held(DONE)
    llm = ScriptedLLM([call("create_job", **ASK, wait=False), say("It runs."), held])
    async with Bot(tmp_path, llm, variables=WALLS) as bot:
        await bot.say("count in a container")
        async with asyncio.timeout(60):
            await held.reached.wait()
        await bot.crash()
        assert workers(bot) == []
    async with Bot(tmp_path, ScriptedLLM(), variables=WALLS) as bot:
        assert (await ended(bot)).error == wording.RESTARTED
        await bot.post("started anew")


async def test_a_person_who_may_not_use_the_shell_gets_none(tmp_path: Path) -> None:
    llm = ScriptedLLM([call("create_job", **ASK), say("I cannot.")])
    variables = {**WALLS, "AGENT_LOCAL_TOOLS_FOR": "operator"}
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.say("count in a container", user="5")
        await bot.post("I cannot.")
        (result,) = [m for m in llm.requests[-1].messages if isinstance(m, ToolResult)]
        assert "not available to this person" in result.text


async def test_credentials_and_folders_elsewhere_are_refused(tmp_path: Path) -> None:
    for more in ({"credentials": {"github": "GITHUB_TOKEN"}}, {"project_dir": "daily"}, {"project_dir": "../x/y"}):
        llm = ScriptedLLM([call("create_job", **ASK, **more), say("I cannot.")])
        async with Bot(tmp_path, llm, variables=WALLS) as bot:
            await bot.say("count in a container")
            await bot.post("I cannot.")
            result = [m for m in llm.requests[-1].messages if isinstance(m, ToolResult)][-1]
            assert "Nothing was started" in result.text


def workers(bot: Bot) -> list[str]:
    mark = bot.core.containers.hosts.mark
    return [path for path in map(_arguments, Path("/proc").glob("[0-9]*/cmdline")) if mark in path]


def _arguments(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
