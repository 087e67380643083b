"""Background jobs run beside the chat and report where they came from, to their person alone."""

import re
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from agent.llm.base import Completion, CompletionRequest, Usage
from agent.model.ids import JobId
from agent.model.job import JobLimits, JobState
from channels.message import Address, ChatType, ToolStep
from tests.support.bot import Bot
from tests.support.builders import make_message
from tests.support.jobs import DONE, JOB_ID, NO_PLAN, reports, request, start, the_job, tool_results, words
from tests.support.scripted_llm import Held, ScriptedLLM, call, say


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


async def test_job_of_a_model_without_tools_ends_with_its_first_answer(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("42 sheep, I guess.")], supports_tools=False)) as bot:
        await start(bot)
        await bot.post("42 sheep, I guess.")

        assert (await the_job(bot)).state is JobState.COMPLETED


async def test_job_that_falls_silent_ends_with_what_was_said_or_fails(tmp_path: Path) -> None:
    llm = ScriptedLLM([NO_PLAN, say("42 sheep so far."), say(" "), NO_PLAN, say(""), say(""), say("")])
    async with Bot(tmp_path, llm) as bot:
        await start(bot)
        await bot.post("42 sheep so far.")
        await start(bot, "/job count again")
        await bot.post("gave no answer")

        assert bot.llm.left == 0


async def test_wish_that_looks_like_a_command_is_a_wish(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, DONE])) as bot:
        await start(bot, "/job /clear")
        await bot.post("42 sheep")

        assert "Job: /clear" in words(bot.llm.requests[0])


async def test_secrets_in_the_result_are_masked_in_the_notice_and_in_the_row(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, say(f"All done: {key}")])) as bot:
        await start(bot)
        report = await bot.post("All done")

        assert key not in report.text
        assert key not in str(await the_job(bot))


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


async def test_progress_of_a_long_job_is_one_message_that_is_edited_and_says_the_end(tmp_path: Path) -> None:
    def slow(asked: CompletionRequest) -> Completion:
        bot.clock.advance(timedelta(seconds=30))
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


class AtOnce:
    """Makes the channel one that shows signs without delay."""

    async def show_step(self, step: ToolStep) -> None:
        return None


async def test_chat_is_shown_no_sign_of_writing_while_a_job_runs(tmp_path: Path) -> None:
    held = Held(DONE)
    bot = Bot(tmp_path, ScriptedLLM([NO_PLAN, call("echo", message="one"), held, say("hello!")]))
    bot.steps = {"memory": AtOnce()}
    async with bot:
        await start(bot)
        await held.reached.wait()
        silent = list(bot.telegram.drafts)
        await bot.say("hi")
        await bot.post("hello!")
        held.release.set()
        await bot.post("42 sheep")

    assert silent == []
