"""Background jobs run beside the chat, ask and report where they came from, and survive what happens to the bot."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest

from agent.llm.base import Completion, CompletionRequest, Usage
from agent.llm.errors import TransientError
from agent.llm.messages import ToolResult, UserText
from agent.model.ids import OPERATOR, JobId, UserId
from agent.model.job import Job, JobLimits, JobListing, JobOrigin, JobRequest, JobState, JobViewer
from agent.model.tool_call import ToolCall, ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments
from bot.job_cli import cancel_job
from bot.plugins import Plugins
from channels.message import Address, ChatType
from tests.support.bot import Bot
from tests.support.builders import make_message
from tests.support.memory_channel import Posted
from tests.support.scripted_llm import Held, ScriptedLLM, call, calls, say

NO_PLAN = say("I need no plan.")
DONE = say("I have completed the job: 42 sheep.")
RUN = "echo ran >> proof.txt"
JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
ME = JobViewer(OPERATOR)


def runs(home: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in home.rglob("proof.txt"))


def shell(*, id: str = "call_1") -> ToolCall:
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
    (job,) = (await listing(bot)).jobs
    return job


async def listing(bot: Bot) -> JobListing:
    found = await bot.core.jobs.list(JobViewer(None), "all")
    assert isinstance(found, JobListing)
    return found


def reports(bot: Bot, word: str = "42 sheep") -> list[Posted]:
    return [post for post in bot.telegram.posted if word in post.text]


def words(request: CompletionRequest) -> str:
    return "\n".join(message.text for message in request.messages if isinstance(message, UserText))


def tool_results(request: CompletionRequest) -> list[ToolResult]:
    return [message for message in request.messages if isinstance(message, ToolResult)]


# -- the life of a job ---------------------------------------------------------------------------------------------
async def test_job_runs_beside_the_chat_and_reports_once_where_it_was_asked_for(tmp_path: Path) -> None:
    held = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held, say("hello!")])) as bot:
        await start(bot)
        await held.reached.wait()
        await bot.say("hi")
        await bot.post("hello!")

        held.release.set()
        await bot.post("42 sheep")
        await bot.rest()

        assert len(reports(bot)) == 1
        assert (await the_job(bot)).state is JobState.COMPLETED
        assert (await the_job(bot)).result == DONE.text


async def test_chat_does_not_see_the_conversation_of_the_job(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE, say("hello!")])) as bot:
        await start(bot)
        await bot.post("42 sheep")
        await bot.say("hi")
        await bot.post("hello!")

        assert "sheep" not in words(bot.llm.requests[-1])


async def test_conversation_of_a_job_can_neither_be_switched_to_nor_is_it_listed(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE])) as bot:
        job = await start(bot)
        await bot.post("42 sheep")

        await bot.say(f"/thread {job.thread}")
        await bot.post("thread not found")
        await bot.say("/resume")
        assert str(job.thread) not in (await bot.post("Conversations")).text


async def test_words_that_do_not_end_the_job_let_it_go_on_and_tools_alone_never_end_it(tmp_path: Path) -> None:
    steps = [NO_PLAN, say("The job is not complete yet."), call("echo", message="the job is complete"), DONE]
    async with Bot(tmp_path, ScriptedLLM(steps)) as bot:
        await start(bot)
        await bot.post("42 sheep")

        assert bot.llm.left == 0


async def test_plan_is_carried_out_in_order_through_the_same_checks_as_any_call(tmp_path: Path) -> None:
    plan = say(
        '{"goal": "count", "actions": [{"tool_name": "echo", "parameters": {"message": "one"}},'
        ' {"tool_name": "no_such_tool", "parameters": {}}, {"tool_name": "echo", "parameters": {"message": "two"}}]}'
    )
    async with Bot(tmp_path, ScriptedLLM([plan, DONE])) as bot:
        await start(bot)
        await bot.post("42 sheep")

        results = tool_results(bot.llm.requests[-1])
        assert [result.name for result in results] == ["echo", "no_such_tool", "echo"]
        assert [result.is_error for result in results] == [False, True, False]
        assert bot.llm.requests[0].max_tokens == 2048


async def test_job_that_uses_up_its_steps_fails_and_says_so_once(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN], default=say("Still counting."))) as bot:
        await bot.core.jobs.dispatch(request(limits=JobLimits(max_iterations=4)))
        await bot.post("maximum iterations")
        await bot.rest()

        assert (await the_job(bot)).state is JobState.FAILED
        assert len(bot.llm.requests) == 5
        assert len(reports(bot, "maximum iterations")) == 1


async def test_job_that_uses_up_its_tokens_fails(tmp_path: Path) -> None:
    dear = say("Still counting.", usage=Usage(600, 500))
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN], default=dear)) as bot:
        await bot.core.jobs.dispatch(request(limits=JobLimits(max_tokens=2000)))
        await bot.post("budget of 2000 tokens")

        job = await the_job(bot)
        assert job.state is JobState.FAILED
        assert job.tokens == 15 + 2 * 1100


async def test_two_jobs_run_at_once_and_the_third_waits_for_a_slot(tmp_path: Path) -> None:
    first, second = Held(say("All done. first")), Held(say("All done. second"))
    llm = ScriptedLLM([NO_PLAN, first, NO_PLAN, second, NO_PLAN, say("All done. third")])
    async with Bot(tmp_path, llm, variables={"AGENT_MAX_PARALLEL_JOBS": "2"}) as bot:
        await start(bot, "/job one")
        await first.reached.wait()
        await start(bot, "/job two")
        await second.reached.wait()
        third = await start(bot, "/job three")

        assert third.state is JobState.PENDING
        second.release.set()
        await bot.post("All done. third")
        assert not reports(bot, "All done. first")
        first.release.set()
        await bot.post("All done. first")


async def test_waiting_jobs_start_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    def answer(asked: CompletionRequest) -> Completion:
        return say("All done: " + re.findall(r"job (\d)", words(asked))[0])

    async with Bot(tmp_path, ScriptedLLM(default=answer), variables={"AGENT_MAX_PARALLEL_JOBS": "1"}) as bot:
        for number in range(4):
            await bot.core.jobs.dispatch(request(f"job {number}"))
        await bot.post("All done: 3")

        ended = [post.text[-1] for post in bot.telegram.posted]
        assert ended == ["0", "1", "2", "3"]


# -- where it reports ----------------------------------------------------------------------------------------------
async def test_result_arrives_in_the_topic_it_was_asked_for_in(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE])) as bot:
        await start(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP, thread_id="55")
        report = await bot.post("42 sheep")

        assert report.message.address == Address(channel="telegram", chat_id="-100", thread_id="55")


async def test_result_arrives_in_the_slack_thread_it_was_asked_for_in(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE])) as bot:
        place = Address(channel="slack", chat_id="C1")
        thread = Address(channel="slack", chat_id="C1", thread_id="17.5")
        asked = make_message("/job Count the sheep", user="U7", chat_id="C1", chat_type=ChatType.GROUP)
        await bot.deliver(asked.model_copy(update={"address": place, "reply_address": thread}))
        report = await bot.post("42 sheep", on=bot.slack)

        assert report.message.address == thread
        assert not reports(bot)


async def test_job_of_a_group_sees_the_files_of_the_group_only(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN, call("memory_read", path="MEMORY.md"), DONE])
    async with Bot(tmp_path, llm) as bot:
        (bot.settings.workspace / "MEMORY.md").write_text("the private canary")
        await start(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        await bot.post("42 sheep")

        assert not any("canary" in str(asked) for asked in bot.llm.requests)


# -- questions -----------------------------------------------------------------------------------------------------
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


# -- restarts ------------------------------------------------------------------------------------------------------
async def test_job_goes_on_from_its_journal_after_a_crash(tmp_path: Path) -> None:
    held = Held(DONE)
    llm = ScriptedLLM([NO_PLAN, call("echo", message="one", id="a"), held])
    async with Bot(tmp_path, llm) as bot:
        await start(bot)
        await held.reached.wait()
        await bot.crash()

    async with Bot(tmp_path, ScriptedLLM([DONE]), clock=bot.clock) as bot:
        await bot.post("42 sheep")
        await bot.rest()

        assert [result.name for result in tool_results(bot.llm.requests[0])] == ["echo"]
        assert len(reports(bot)) == 1


async def test_call_whose_outcome_a_crash_hid_is_not_run_again(tmp_path: Path) -> None:
    slow = ToolCall("call_1", "shell", {"command": f"{RUN} && sleep 20"})
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true"}
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(slow)]), variables=variables) as bot:
        await start(bot)
        async with asyncio.timeout(5):
            while not runs(tmp_path):
                await asyncio.sleep(0.01)
        await bot.crash()

    async with Bot(tmp_path, ScriptedLLM([DONE]), variables=variables, clock=bot.clock) as bot:
        await bot.post("42 sheep")

        assert "not known" in tool_results(bot.llm.requests[0])[0].text
    assert runs(tmp_path) == 1


async def test_waiting_job_of_an_earlier_process_starts_at_the_next_start(tmp_path: Path) -> None:
    held = Held(DONE)
    variables = {"AGENT_MAX_PARALLEL_JOBS": "1"}
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held]), variables=variables) as bot:
        await start(bot, "/job one")
        await held.reached.wait()
        await start(bot, "/job two")
        await bot.crash()

    llm = ScriptedLLM([say("All done: the first."), NO_PLAN, say("All done: the second.")])
    async with Bot(tmp_path, llm, variables=variables, clock=bot.clock) as bot:
        await bot.post("All done: the first.")
        await bot.post("All done: the second.")


async def test_same_command_delivered_twice_makes_one_job(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE])) as bot:
        await start(bot, message_id="77")
        await bot.say("/job Count the sheep", message_id="77")
        await bot.post("42 sheep")
        await bot.rest()

        assert (await listing(bot)).total == 1


# -- steering and stopping -----------------------------------------------------------------------------------------
async def test_everything_that_is_told_to_a_running_job_joins_it(tmp_path: Path) -> None:
    held = Held(say("Still counting."))
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held, DONE])) as bot:
        job = await start(bot)
        await held.reached.wait()
        for number, text in enumerate(("black ones only", "and skip the lambs")):
            await bot.core.jobs.send(ME, str(job.id), text, f"k{number}")
        held.release.set()
        await bot.post("42 sheep")

        told = words(bot.llm.requests[-1])
        assert "black ones only" in told
        assert "and skip the lambs" in told


async def test_what_is_told_to_a_waiting_job_is_part_of_its_wish(tmp_path: Path) -> None:
    held = Held(DONE)
    variables = {"AGENT_MAX_PARALLEL_JOBS": "1"}
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held, NO_PLAN, DONE]), variables=variables) as bot:
        await start(bot, "/job one")
        await held.reached.wait()
        second = await start(bot, "/job two")
        await bot.core.jobs.send(ME, second.short_id, "black ones only", "k")
        held.release.set()
        await bot.post("42 sheep", count=2)

        assert "black ones only" in words(bot.llm.requests[-1])


async def test_what_is_told_in_the_last_moment_keeps_the_job_going(tmp_path: Path) -> None:
    held = Held(say("All done: 41."))
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held, DONE])) as bot:
        job = await start(bot)
        await held.reached.wait()
        await bot.core.jobs.send(ME, str(job.id), "count again", "k")
        held.release.set()
        await bot.post("42 sheep")

        assert not reports(bot, "All done: 41.")
        assert "count again" in words(bot.llm.requests[-1])


async def test_cancelled_job_is_cut_off_and_reports_nothing_but_the_answer_to_the_command(tmp_path: Path) -> None:
    held = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held])) as bot:
        job = await start(bot)
        await held.reached.wait()
        await bot.say(f"/cancel {job.short_id}")
        await bot.post("is cancelled")
        await bot.rest()

        assert (await the_job(bot)).state is JobState.CANCELLED
        assert len(bot.telegram.posted) == 2
        await bot.say(f"/cancel {job.short_id}")
        await bot.post("is cancelled already")


async def test_cancelling_a_job_that_asks_closes_its_question(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, calls(shell())])) as bot:
        job = await start(bot)
        question = await bot.post("Approval needed")
        await bot.say(f"/cancel {job.id}")
        await bot.post(lambda post: "Cancelled. Nothing was run." in post.text)
        await bot.rest()
        late = await bot.press(question, "y")

        assert late.note == "That question was cancelled; nothing was run."
        assert runs(tmp_path) == 0


async def test_job_cancelled_from_another_process_stops_at_its_next_step(tmp_path: Path) -> None:
    held = Held(call("echo", message="one"))
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held])) as bot:
        job = await start(bot)
        await held.reached.wait()
        assert await asyncio.to_thread(cancel_job, bot.settings, job.short_id) == 0
        held.release.set()
        await bot.rest()

        assert (await the_job(bot)).state is JobState.CANCELLED
        assert bot.llm.left == 0
        assert not reports(bot, "done")


# -- other people --------------------------------------------------------------------------------------------------
async def test_stranger_sees_no_job_of_another_person(tmp_path: Path) -> None:
    held = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held])) as bot:
        job = await start(bot)
        await held.reached.wait()
        for command in (f"/status {job.id}", f"/cancel {job.id}", f"/help {job.id}"):
            await bot.say(command, user="66")
        await bot.post("Job not found", count=3)
        await bot.say("/jobs", user="66")
        await bot.post("There are no jobs")
        await bot.say("/status", user="66")
        await bot.post("jobs: 0 in all")

        assert (await the_job(bot)).state is JobState.IN_PROGRESS


async def test_shared_chat_is_shown_only_the_jobs_that_were_asked_for_there(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE, NO_PLAN, DONE])) as bot:
        private = await start(bot, "/job my private matter")
        await bot.post("42 sheep")
        await start(bot, "/job the group's matter", chat_id="-100", chat_type=ChatType.SUPERGROUP)
        await bot.post("42 sheep", count=2)
        await bot.say_in_group("/jobs")
        shown = await bot.post("**Jobs**")
        await bot.say_in_group(f"/status {private.id}")
        await bot.post("Job not found")

        assert "private matter" not in shown.text
        assert "the group's matter" in shown.text


# -- stuck jobs ----------------------------------------------------------------------------------------------------
async def test_model_that_is_away_leaves_the_job_stuck_and_repair_lets_it_go_on(tmp_path: Path) -> None:
    away = TransientError("503")
    llm = ScriptedLLM([NO_PLAN, call("echo", message="one"), away])
    async with Bot(tmp_path, llm, variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await start(bot)
        await bot.post("is stuck")
        await bot.rest()
        assert (await the_job(bot)).state is JobState.STUCK

        bot.llm.add(DONE)
        await bot.core.repair.check()
        await bot.post("42 sheep")

        assert (await the_job(bot)).attempts == 1
        assert [result.name for result in tool_results(bot.llm.requests[-1])] == ["echo"]


async def test_help_with_a_stuck_job_starts_it_again_at_once(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN, TransientError("503")])
    async with Bot(tmp_path, llm, variables={"LLM_MAX_RETRIES": "0"}) as bot:
        job = await start(bot)
        await bot.post("is stuck")
        await bot.rest()
        bot.llm.add(DONE)
        await bot.say(f"/help {job.short_id}")
        await bot.post("goes on, attempt 1")
        await bot.post("42 sheep")
        await bot.say(f"/help {job.short_id}")
        await bot.post("is not stuck, it is completed")


async def test_job_that_stays_stuck_fails_with_one_notice(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN], default=TransientError("503"))
    async with Bot(tmp_path, llm, variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await start(bot)
        for attempt in range(4):
            await the_state(bot, partial(is_stuck, attempt))
            await bot.rest()
            await bot.core.repair.check()
        await bot.post("I gave up")
        for _ in range(3):
            await bot.core.repair.check()
        await bot.rest()

        assert (await the_job(bot)).state is JobState.FAILED
        assert len(reports(bot, "I gave up")) == 1
        assert len(reports(bot, "is stuck:")) == 1


async def test_job_that_gives_no_sign_of_life_is_cut_off_and_tried_again(tmp_path: Path) -> None:
    hangs = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, hangs, DONE])) as bot:
        await start(bot)
        await hangs.reached.wait()
        bot.clock.advance(timedelta(hours=1))
        await bot.post("gave no sign of life")
        await bot.post("42 sheep")

        assert (await the_job(bot)).attempts == 1


async def test_job_whose_time_is_over_is_stuck_at_its_next_step(tmp_path: Path) -> None:
    def late(asked: CompletionRequest) -> Completion:
        bot.clock._now += timedelta(seconds=3601)
        return say("Still counting.")

    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, late])) as bot:
        await start(bot)
        await bot.post("its time was over")
        await bot.rest()

        assert (await the_job(bot)).state is JobState.STUCK


async def test_extension_tool_that_keeps_breaking_is_taken_away_and_the_operator_told(tmp_path: Path) -> None:
    breaks = calls(*(ToolCall(f"c{n}", "flaky", {}) for n in range(5)))
    async with Bot(tmp_path, ScriptedLLM([breaks, say("it is broken")]), plugins=Plugins(tools=(Flaky(),))) as bot:
        await bot.say("use it")
        await bot.post("it is broken")
        for _ in range(3):
            await bot.core.repair.check()
        await bot.rest()

        assert len(reports(bot, "I took it away")) == 1
        await bot.say("/tools")
        assert "flaky" not in (await bot.post("**Tools**")).text


# -- progress ------------------------------------------------------------------------------------------------------
async def test_progress_of_a_long_job_is_one_message_that_is_edited_and_says_the_end(tmp_path: Path) -> None:
    def slow(asked: CompletionRequest) -> Completion:
        bot.clock._now += timedelta(seconds=30)
        return call("echo", message=str(len(asked.messages)), id=f"c{len(asked.messages)}")

    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, slow, slow, slow])) as bot:
        job = await start(bot)
        await bot.post("step ")
        held = Held(DONE)
        bot.llm.add(held)
        held.release.set()
        await bot.post("42 sheep")
        await bot.rest()

        (shown,) = reports(bot, "completed after")
        assert len(bot.telegram.posted) == 3
        assert job.short_id in shown.text


# -- what cannot be done -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/job", "Say what is to be done"),
        ("/create   ", "Say what is to be done"),
        ("/cancel", "Say which job"),
        ("/cancel abcd", "Job not found"),
        ("/cancel zz", "is no job id"),
        ("/status no such", "is no job id"),
        ("/jobs", "There are no jobs"),
        ("/list nonsense", "Choose one of"),
        ("/help 12ab", "Job not found"),
    ],
)
async def test_commands_that_make_no_sense_are_told_how(tmp_path: Path, text: str, answer: str) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say(text)
        await bot.post(answer)


async def test_prefix_of_two_jobs_is_refused(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(default=DONE)) as bot:
        for last in "12":
            await bot.core.jobs.dispatch(request(id=JobId(UUID(f"abcd0000-0000-4000-8000-00000000000{last}"))))
        await bot.say("/status abcd")
        await bot.post("More than one of your jobs")
        await bot.say("/status abcd0000-0000-4000-8000-000000000002")
        await bot.post("id: `abcd0000-0000-4000-8000-000000000002`")


# -- tools ---------------------------------------------------------------------------------------------------------
async def test_model_starts_a_job_and_looks_at_it(tmp_path: Path) -> None:
    def look(asked: CompletionRequest) -> Completion:
        found = JOB_ID.search(tool_results(asked)[-1].text)
        assert found is not None
        return call("job_status", job_id=found[0][:8], id="b")

    wish = call("create_job", title="Sheep", description="Count the sheep", id="a")

    def route(asked: CompletionRequest) -> Completion:
        text = words(asked)
        if "Count the sheep" in text:
            return NO_PLAN if "Plan this job" in text else DONE
        found = tool_results(asked)
        return wish if not found else look(asked) if len(found) == 1 else say("It runs.")

    async with Bot(tmp_path, ScriptedLLM(default=route)) as bot:
        await bot.say("start something")
        await bot.post("It runs.")
        await bot.post("42 sheep")

        assert (await the_job(bot)).title == "Sheep"


class Nothing(Arguments):
    """No arguments."""


class Flaky:
    """An extension's tool with a defect."""

    spec: ClassVar = ToolSpec("flaky", "Breaks.", Nothing, Effect.READ)

    def scope(self, arguments: Nothing) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: Nothing, context: ToolContext) -> ToolOutput:
        raise RuntimeError("a defect")


# -- helpers -------------------------------------------------------------------------------------------------------
def request(text: str = "Count the sheep", user: UserId = OPERATOR, **more: object) -> JobRequest:
    origin = JobOrigin(Address(channel="telegram", chat_id="1"), ChatType.PRIVATE, "1")
    return JobRequest(user, text, text, origin, **more)  # type: ignore[arg-type]


async def the_state(bot: Bot, fits: Callable[[Job], bool]) -> Job:
    async with asyncio.timeout(5):
        while True:
            for job in (await listing(bot)).jobs:
                if fits(job):
                    return job
            await asyncio.sleep(0.001)


def is_stuck(attempt: int, job: Job) -> bool:
    return job.state is JobState.STUCK and job.attempts == attempt


async def ended(bot: Bot, job: JobId) -> Job:
    return await the_state(bot, lambda each: each.id == job and each.state.is_over)
