"""Background jobs go on after a crash, do as they are told meanwhile, and are looked after when they come to a halt."""

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

from agent.llm.errors import TransientError
from agent.model import ids
from agent.model.job import JobState
from agent.model.tool_call import ToolCall, ToolOutput
from agent.store import jobs
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments
from bot.job_cli import cancel_job
from bot.plugins import Plugins
from tests.support.bot import Bot
from tests.support.jobs import (
    DONE,
    ME,
    NO_PLAN,
    RUN,
    is_stuck,
    reports,
    runs,
    shell,
    start,
    the_job,
    the_state,
    tool_results,
    words,
)
from tests.support.scripted_llm import Held, ScriptedLLM, call, calls, say


class Nothing(Arguments):
    """No arguments."""


class Flaky:
    """An extension's tool with a defect."""

    spec: ClassVar = ToolSpec("flaky", "Breaks.", Nothing, Effect.READ)

    def scope(self, arguments: Nothing) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: Nothing, context: ToolContext) -> ToolOutput:
        raise RuntimeError("a defect")


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

        assert (await the_job(bot)).id == ids.job_id("command", "telegram:1:77")


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
    held = Held(say("Still counting."))
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, held])) as bot:
        job = await start(bot)
        await held.reached.wait()
        await bot.store.write(partial(jobs.note, job=job.id, deadline=bot.clock.now()))
        held.release.set()
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


async def test_hanging_call_of_a_job_that_another_process_cancelled_is_cut_off_by_repair(tmp_path: Path) -> None:
    hangs = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, hangs])) as bot:
        job = await start(bot)
        await hangs.reached.wait()
        heard: list[JobState] = []
        bot.core.jobs.on_change(lambda changed: heard.append(changed.state))
        assert await asyncio.to_thread(cancel_job, bot.settings, job.short_id) == 0
        await bot.core.repair.check()
        await bot.core.repair.check()
        await bot.rest()

        assert heard == [JobState.CANCELLED]
        assert (await the_job(bot)).state is JobState.CANCELLED
        assert not hangs.release.is_set()


async def test_job_that_the_program_was_away_from_is_not_taken_for_one_that_hangs(tmp_path: Path) -> None:
    hangs = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([NO_PLAN, hangs])) as bot:
        await start(bot)
        await hangs.reached.wait()
        await bot.crash()
    bot.clock.advance(timedelta(minutes=30))

    held = Held(DONE)
    async with Bot(tmp_path, ScriptedLLM([held]), clock=bot.clock) as bot:
        await held.reached.wait()
        await bot.core.repair.check()
        held.release.set()
        await bot.post("42 sheep")

        assert (await the_job(bot)).attempts == 0
        assert not reports(bot, "is stuck")
