"""A background job asks in the chat it comes from, and only its person may answer."""

from datetime import timedelta
from pathlib import Path

import pytest

from agent.model.ids import OPERATOR
from agent.model.job import JobRequest, JobState
from agent.model.tool_call import ToolCall
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.jobs import (
    DONE,
    NO_PLAN,
    RUN,
    ended,
    listing,
    reports,
    request,
    runs,
    shell,
    start,
    the_job,
    tool_results,
)
from tests.support.scripted_llm import Held, ScriptedLLM, call, calls, say


@pytest.mark.parametrize("answer", ["button", "word"])
async def test_question_of_a_job_is_asked_in_its_chat_and_answered_there(tmp_path: Path, answer: str) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell()), DONE])) as bot:
        job = await start(bot)
        question = await bot.post("Approval needed")
        assert job.short_id in question.text
        assert RUN in question.text
        assert runs(tmp_path) == 0

        await (bot.press(question, "y") if answer == "button" else bot.say("yes"))
        await bot.post("42 sheep")

        assert runs(tmp_path) == 1


async def test_question_of_a_job_survives_a_restart_and_the_answer_lets_it_go_on(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell())])) as bot:
        await start(bot)
        await bot.post("Approval needed")
        await bot.rest()

    async with Bot(tmp_path, ScriptedLLM([DONE]), clock=bot.clock) as bot:
        await bot.say("yes", message_id="901")
        await bot.post("42 sheep")
        await bot.rest()

        assert len(reports(bot)) == 1
    assert runs(tmp_path) == 1


async def test_stranger_cannot_answer_the_question_of_a_job(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell()), say("hello stranger")])) as bot:
        await start(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        question = await bot.post("Approval needed")
        refused = await bot.press(question, "y", user="66", chat_type=ChatType.SUPERGROUP)
        await bot.say("yes", user="66", chat_id="-100", chat_type=ChatType.SUPERGROUP)
        await bot.post("hello stranger")

        assert refused.note == "Only the person who asked for it can answer this question."
        assert runs(tmp_path) == 0


async def test_denied_call_is_not_run_and_the_job_goes_on_without_it(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell()), DONE])) as bot:
        await start(bot)
        await bot.press(await bot.post("Approval needed"), "n")
        await bot.post("42 sheep")

        assert runs(tmp_path) == 0
        assert "denied" in tool_results(bot.llm.requests[-1])[0].text


async def test_yes_in_a_chat_whose_own_turn_asks_answers_that_one(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN, calls(shell(id="job_call")), calls(shell(id="chat_call")), say("chat done")])
    async with Bot(tmp_path, llm) as bot:
        await start(bot)
        await bot.post("Approval needed")
        await bot.say("run it")
        await bot.post("Approval needed", count=2)
        await bot.say("yes")
        await bot.post("chat done")

        assert (await the_job(bot)).state is JobState.IN_PROGRESS


async def test_word_that_two_jobs_could_mean_is_not_guessed(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN, calls(shell()), NO_PLAN, calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await start(bot, "/job one")
        await bot.post("Approval needed")
        await start(bot, "/job two")
        await bot.post("Approval needed", count=2)
        await bot.say("yes")
        await bot.post("tap the buttons")

        assert runs(tmp_path) == 0


async def test_job_without_a_chat_of_origin_asks_nobody_and_runs_nothing_that_needs_consent(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell()), DONE])) as bot:
        job = await bot.core.jobs.dispatch(JobRequest(OPERATOR, "count", "count", None))
        await ended(bot, job)

        assert runs(tmp_path) == 0
        assert not bot.telegram.posted
        assert "nobody can be asked" in tool_results(bot.llm.requests[-1])[0].text


@pytest.mark.parametrize(("allowed", "count"), [(frozenset(), 0), (frozenset({"shell"}), 1)])
async def test_unattended_job_runs_what_asks_each_time_only_if_it_was_allowed_beforehand(
    tmp_path: Path, allowed: frozenset[str], count: int
) -> None:
    dangerous = ToolCall("call_1", "shell", {"command": "rm -rf nothing; " + RUN})
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(dangerous), DONE])) as bot:
        job = await bot.core.jobs.dispatch(request(allowed_tools=allowed, reports=False))
        await ended(bot, job)

        assert runs(tmp_path) == count
        assert not bot.telegram.posted


async def test_time_of_a_job_stands_still_while_it_waits_for_its_person(tmp_path: Path) -> None:
    held = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell()), held])) as bot:
        await start(bot)
        question = await bot.post("Approval needed")
        await bot.rest()
        waiting = await the_job(bot)
        await bot.press(question, "y")
        await held.reached.wait()
        running = await the_job(bot)

    assert (waiting.deadline, waiting.alive_until) == (None, None)
    assert running.deadline == bot.clock.now() + timedelta(hours=1)


async def test_job_starts_no_further_job_and_asks_for_no_credential(tmp_path: Path) -> None:
    auth = ToolCall("b", "tool_auth", {"name": "github"})
    wishes = [call("create_job", title="t", description="d", id="a"), calls(auth)]
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, *wishes, DONE])) as bot:
        await start(bot)
        await bot.post("42 sheep")

        assert (await listing(bot)).total == 1
        assert [result.is_error for result in tool_results(bot.llm.requests[-1])] == [True, True]
        offered = {tool.name for asked in bot.llm.requests for tool in asked.tools}
        assert "echo" in offered
        assert offered.isdisjoint({"create_job", "tool_auth"})
