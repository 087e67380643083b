"""Things that start by themselves: at their times, by a person's words, by events; told where they were ordered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from agent.conversation.replies import WITHHELD
from agent.hooks.base import Event, Go, Hook, Outcome, Point, Reject
from agent.llm.base import Completion, CompletionRequest, FinishReason
from agent.llm.errors import TransientError
from agent.llm.messages import ToolResult
from agent.model.ids import OPERATOR, UserId
from agent.model.routine import Notify, Run, RunStatus
from agent.model.tool_call import JsonValue, ToolCall
from agent.routines.firing import Rules, fire_due, fire_system_event
from agent.store import conversations, routines
from channels.message import ChatType, ReplyKind
from tests.support.bot import OWNER, Bot
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import Held, ScriptedLLM, ScriptStep, call, calls, say

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NINE: dict[str, JsonValue] = {"trigger_type": "cron", "schedule": "0 9 * * *"}
HOURLY: dict[str, JsonValue] = {"trigger_type": "cron", "schedule": "0 * * * *"}
CAPACITY = {"AGENT_AUTO_APPROVE_TOOLS": "true"}


class Model:
    """Makes routines in chats, and answers their runs: the latter with `findings`, in order, then with the last."""

    def __init__(self, *findings: ScriptStep, arguments: dict[str, JsonValue] | None = None, tool: str = "") -> None:
        self.findings = list(findings) or [say("ROUTINE_OK")]
        self.arguments = arguments or dict(NINE)
        self.tool = tool or "routine_create"
        self.runs: list[CompletionRequest] = []
        self.results: list[str] = []

    def __call__(self, request: CompletionRequest) -> Completion:
        last = request.messages[-1]
        if isinstance(last, ToolResult) and not request.unattended:
            self.results.append(last.text)
            return say(f"Done: {last.text}")
        if not request.unattended:
            given = {"name": "morning", "prompt": "look after the servers"} if self.tool == "routine_create" else {}
            return calls(ToolCall("c1", self.tool, given | self.arguments))
        self.runs.append(request)
        step = self.findings[0] if len(self.findings) == 1 else self.findings.pop(0)
        if isinstance(step, BaseException):
            raise step
        assert isinstance(step, Completion)
        return step


def started(home: Path, model: Callable[[CompletionRequest], Completion], **more: object) -> Bot:
    variables = CAPACITY | dict(more.pop("variables", {}))  # type: ignore[call-overload]
    llm = ScriptedLLM(default=model)
    return Bot(home, llm, routines=True, variables=variables, **more)  # type: ignore[arg-type]


async def forward(bot: Bot, duration: timedelta) -> None:
    """Move the clock, and wait until all that follows from it is done."""
    await bot.rest()
    await bot.clock.wait_for_sleeper()
    bot.clock.advance(duration)
    await settled(bot)


async def settled(bot: Bot) -> None:
    """Return when nothing runs or waits, and the engine sleeps again."""
    assert bot.core.routines is not None
    bot.core.routines.engine.nudge()
    await bot.rest()


async def runs_of(bot: Bot, name: str = "morning", user: UserId = OPERATOR) -> list[Run]:
    """The runs of a routine, oldest first."""
    routine = await bot.store.read(lambda tx: routines.by_name(tx, user, name))
    assert routine is not None
    return list(reversed(await bot.store.read(lambda tx: routines.history(tx, routine.id, 100))))


def notices(bot: Bot) -> list[str]:
    return [message.text for message in bot.sent if message.kind is ReplyKind.FINDING]


async def make(bot: Bot, **more: object) -> None:
    """Let the person ask for the routine."""
    await bot.say("make it", **more)  # type: ignore[arg-type]
    await bot.rest()
    await settled(bot)


# -- at their times --------------------------------------------------------------------------------------------------
async def test_finding_comes_once_to_the_topic_where_the_routine_was_made(tmp_path: Path) -> None:
    model = Model(say("Server 3 is down."), say("ROUTINE_OK"))
    async with started(tmp_path, model) as bot:
        await make(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP, thread_id="7")
        await forward(bot, 21 * HOUR)
        post = await bot.post("Server 3 is down.")
        await forward(bot, 15 * MINUTE)

    assert (post.message.address.chat_id, post.message.address.thread_id) == ("-100", "7")
    assert post.text.startswith("🔔 **Routine 'morning'**")
    assert len(notices(bot)) == 1
    assert len(model.runs) == 1


async def test_the_reply_says_when_it_runs_and_where_its_results_go(tmp_path: Path) -> None:
    model = Model(arguments=NINE | {"timezone": "Europe/Berlin"})
    async with started(tmp_path, model) as bot:
        await make(bot)

    assert "Tuesday 2026-03-03 09:00 Europe/Berlin" in model.results[0]
    assert "this conversation" in model.results[0]


async def test_it_runs_at_the_same_local_time_each_day(tmp_path: Path) -> None:
    model = Model(say("Up."))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR + 40 * MINUTE)  # it is late by 40 minutes
        await forward(bot, 23 * HOUR + 20 * MINUTE)
        found = await runs_of(bot)

    assert [f"{run.due_at:%d %H:%M}" for run in found] == ["03 09:00", "04 09:00"]
    assert [run.status for run in found] == [RunStatus.ATTENTION] * 2
    assert len(notices(bot)) == 2


@pytest.mark.parametrize("answer", ["ROUTINE_OK", "**ROUTINE_OK**\n", "routine_ok.", "Well. ROUTINE_OK", "NO_REPLY"])
async def test_nothing_to_report_is_silent_in_every_spelling(tmp_path: Path, answer: str) -> None:
    async with started(tmp_path, Model(say(answer))) as bot:
        await make(bot)
        before = len(bot.sent)
        await forward(bot, 21 * HOUR)
        found = await runs_of(bot)

    assert [run.status for run in found] == [RunStatus.OK]
    assert found[0].summary == ""
    assert len(bot.sent) == before


async def test_a_single_time_runs_once_and_is_over(tmp_path: Path) -> None:
    model = Model(say("Call the bank."), arguments={"trigger_type": "cron", "at": "2026-03-02T15:00"})
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 3 * HOUR)
        await bot.post("Call the bank.")
        await forward(bot, 2 * DAY)
        await bot.say("/routines")
        listed = await bot.post("**Routines**")

    assert len(model.runs) == 1
    assert "over" in listed.text


async def test_a_time_in_the_past_makes_nothing(tmp_path: Path) -> None:
    model = Model(arguments={"trigger_type": "cron", "at": "2026-03-02T11:55"})
    async with started(tmp_path, model) as bot:
        await make(bot)
        left = await bot.store.read(routines.everybodys)

    assert "12:00" in model.results[0]
    assert left == []


async def test_times_within_the_cooldown_are_left_out(tmp_path: Path) -> None:
    model = Model(say("Up."), arguments={"trigger_type": "cron", "schedule": "*/2 * * * * *"})
    async with started(tmp_path, model) as bot:
        await make(bot)
        for _ in range(4):
            await forward(bot, MINUTE)
        first = len(model.runs)
        await forward(bot, 2 * MINUTE)

    assert (first, len(model.runs)) == (1, 2)
    assert "cooldown_secs" in model.results[0]


# -- restarts --------------------------------------------------------------------------------------------------------
async def test_a_crash_between_the_claim_and_the_run_loses_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with started(tmp_path, Model(), clock=clock) as bot:
        await make(bot)
    clock.advance(21 * HOUR)
    async with Bot(tmp_path, ScriptedLLM(), clock=clock) as bot:  # the due time is claimed, and nothing runs
        due = await bot.store.read(partial(routines.due, now=clock.now(), count=10))
        await bot.store.write(lambda tx: fire_due(tx, due, clock.now(), Rules(10, MINUTE)))
        found = await runs_of(bot)
    assert [run.status for run in found] == [RunStatus.PENDING]

    model = Model(say("Server 3 is down."))
    async with started(tmp_path, model, clock=clock) as bot:
        await bot.post("Server 3 is down.")
        await settled(bot)
        found = await runs_of(bot)

    assert [run.status for run in found] == [RunStatus.ATTENTION]
    assert len(model.runs) == 1


async def test_a_run_that_a_crash_cut_off_has_failed_and_is_told(tmp_path: Path) -> None:
    clock = FakeClock()
    async with started(tmp_path, Model(), clock=clock) as bot:
        await make(bot)
    clock.advance(21 * HOUR)
    held = Held(say("never said"))
    async with Bot(tmp_path, ScriptedLLM([held]), clock=clock, routines=True):
        await held.reached.wait()
    async with started(tmp_path, Model(), clock=clock) as bot:
        post = await bot.post("❌ **Routine 'morning'**")
        found = await runs_of(bot)

    assert "cut off" in post.text
    assert [run.status for run in found] == [RunStatus.FAILED]


async def test_after_half_a_day_down_nothing_comes_all_at_once(tmp_path: Path) -> None:
    """What is long past is missed, with a reason; what is just past is made up for, a few at
    a time."""
    clock = FakeClock()
    async with Bot(tmp_path, ScriptedLLM(default=Model()), clock=clock, variables=CAPACITY) as bot:
        for number in range(10):
            hour = 13 + number  # from 13:00 to 22:00; the bot is back at midnight
            schedule = {"trigger_type": "cron", "schedule": f"0 {hour} * * *", "name": f"r{number}"}
            bot.llm.default = Model(arguments=dict(schedule))
            await bot.say(f"make {number}")
            await bot.rest()
    clock.advance(12 * HOUR)
    model = Model(say("Up."))
    async with started(tmp_path, model, clock=clock) as bot:
        await settled(bot)
        for _ in range(4):
            await forward(bot, MINUTE)
        statuses = [[run.status for run in await runs_of(bot, f"r{number}")] for number in range(10)]
        reasons = [run.summary for run in await runs_of(bot, "r0")]

    assert statuses == [[RunStatus.MISSED]] * 9 + [[RunStatus.ATTENTION]]
    assert "not running" in reasons[0]
    assert len(notices(bot)) == 1


async def test_made_up_runs_are_spread_out(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Bot(tmp_path, ScriptedLLM(), clock=clock, variables=CAPACITY) as bot:
        for number in range(6):
            bot.llm.default = Model(arguments=HOURLY | {"name": f"r{number}"})
            await bot.say(f"make {number}")
            await bot.rest()
    clock.advance(90 * MINUTE)
    model = Model(say("Up."))
    seen: list[int] = []
    async with started(tmp_path, model, clock=clock) as bot:
        for _ in range(3):
            await settled(bot)
            seen.append(len(model.runs))
            bot.clock.advance(timedelta(seconds=15))

    assert seen == [2, 4, 6]


async def test_a_reminder_that_comes_too_late_is_told_as_missed(tmp_path: Path) -> None:
    clock = FakeClock()
    model = Model(arguments={"trigger_type": "cron", "at": "2026-03-02T15:00"})
    async with started(tmp_path, model, clock=clock) as bot:
        await make(bot)
    clock.advance(3 * DAY)
    async with started(tmp_path, model, clock=clock) as bot:
        post = await bot.post("not run")

    assert "'morning'" in post.text
    assert model.runs == []


async def test_two_engines_on_one_store_run_a_due_time_once(tmp_path: Path) -> None:
    """Invariant 9."""
    async with started(tmp_path, Model(say("Up."))) as bot:
        await make(bot)
        bot.clock.advance(21 * HOUR)
        due = await bot.store.read(partial(routines.due, now=bot.clock.now(), count=10))
        claim = partial(fire_due, seen=due, now=bot.clock.now(), rules=Rules(10, MINUTE))
        fired = await asyncio.gather(*(bot.store.write(claim) for _ in range(4)))
        begun = await asyncio.gather(*(bot.store.write(partial(_start_first, now=bot.clock.now())) for _ in range(4)))

    assert sum(len(each.runs) for each in fired) <= 1
    assert sum(begun) <= 1


def _start_first(tx: object, now: datetime) -> bool:
    waiting = routines.pending(tx, 1)  # type: ignore[arg-type]
    return bool(waiting) and routines.start(tx, waiting[0].id, now)  # type: ignore[arg-type]


# -- a person's words ------------------------------------------------------------------------------------------------
LISTENS: dict[str, JsonValue] = {"trigger_type": "event", "event_pattern": "deploy (failed|broke)", "cooldown_secs": 60}


async def test_a_message_that_a_routine_listens_for_is_answered_by_it_alone(tmp_path: Path) -> None:
    model = Model(say("Rolled back."), arguments=dict(LISTENS))
    async with started(tmp_path, model) as bot:
        await make(bot)
        before = len(bot.llm.requests)
        await bot.say("the Deploy BROKE again")
        await bot.post("Rolled back.")
        await settled(bot)

    assert len(bot.llm.requests) == before + 1
    assert "the Deploy BROKE again" in model.runs[0].messages[-1].text
    assert "message of the owner" in model.runs[0].messages[-1].text


async def test_other_words_and_other_people_do_not_set_it_off(tmp_path: Path) -> None:
    model = Model(say("Rolled back."), arguments=dict(LISTENS))
    async with started(tmp_path, model) as bot:
        await make(bot)
        bot.llm.default = say("chat")
        await bot.say("the deploy went well")
        await bot.say("deploy failed", user="42")
        await bot.say("/echo deploy failed")
        await bot.rest()
        found = await runs_of(bot)

    assert found == []
    assert bot.texts.count("chat") == 2


async def test_a_message_within_the_cooldown_is_answered_as_usual(tmp_path: Path) -> None:
    """B34: the cooldown counts from the row, not from what was known before."""
    model = Model(say("Rolled back."), arguments=dict(LISTENS))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await bot.say("deploy failed")
        await bot.post("Rolled back.")
        await settled(bot)
        bot.llm.default = say("as usual")
        await bot.say("deploy failed")
        await bot.post("as usual")
        found = await runs_of(bot)

    assert len(found) == 1


async def test_an_equal_message_within_the_window_does_not_set_it_off(tmp_path: Path) -> None:
    """B33."""
    model = Model(say("Rolled back."), arguments=LISTENS | {"cooldown_secs": 0, "dedup_secs": 3600})
    async with started(tmp_path, model) as bot:
        await make(bot)
        await bot.say("deploy failed on a")
        await bot.post("Rolled back.")
        await settled(bot)
        await bot.say("deploy failed on b")
        await bot.post("Rolled back.", count=2)
        await settled(bot)
        bot.llm.default = say("as usual")
        await bot.say("deploy failed on a")
        await bot.post("as usual")


async def test_a_message_that_is_delivered_twice_sets_it_off_once(tmp_path: Path) -> None:
    model = Model(say("Rolled back."), arguments=LISTENS | {"cooldown_secs": 0})
    async with started(tmp_path, model) as bot:
        await make(bot)
        for _ in range(2):
            await bot.say("deploy failed", message_id="m-twice")
        await bot.post("Rolled back.")
        await settled(bot)
        found = await runs_of(bot)

    assert len(found) == 1


async def test_a_message_that_is_taken_over_survives_a_crash(tmp_path: Path) -> None:
    """Invariant 10."""
    clock = FakeClock()
    async with Bot(
        tmp_path, ScriptedLLM(default=Model(arguments=dict(LISTENS))), clock=clock, variables=CAPACITY
    ) as bot:
        await bot.say("make it")
        await bot.rest()
        await bot.say("deploy failed")  # the engine does not run
    async with started(tmp_path, Model(say("Rolled back.")), clock=clock) as bot:
        await bot.post("Rolled back.")


async def test_a_routine_of_a_group_does_not_hear_what_its_owner_says_elsewhere(tmp_path: Path) -> None:
    """Invariant 1."""
    model = Model(say("Rolled back."), arguments=dict(LISTENS))
    async with started(tmp_path, model) as bot:
        await make(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        bot.llm.default = say("chat")
        await bot.say("deploy failed, between us")
        await bot.post("chat")
        quiet = await runs_of(bot)
        bot.llm.default = model
        await bot.say_in_group("deploy failed")
        await bot.post("Rolled back.")

    assert quiet == []
    assert bot.sent[-1].address.chat_id == "-100"


# -- events, by hand -------------------------------------------------------------------------------------------------
async def test_an_event_runs_the_routines_that_wait_for_it(tmp_path: Path) -> None:
    waits: dict[str, JsonValue] = {
        "trigger_type": "system_event",
        "event_source": "GitHub",
        "event_type": "issue.opened",
        "event_filters": {"repository": "me/site", "draft": False},
    }
    model = Model(say("An issue."), arguments=waits)
    async with started(tmp_path, model) as bot:
        await make(bot)
        payload: dict[str, JsonValue] = {"repository": "ME/site", "draft": False, "title": "It breaks"}
        bot.llm.default = Model(
            say("An issue."),
            tool="event_emit",
            arguments={"event_source": "github", "event_type": "Issue.Opened", "payload": payload},
        )
        await bot.say("tell it")
        await bot.post('"fired_routines": 1')
        await bot.post("An issue.")
        wrong = await bot.store.write(
            lambda tx: fire_system_event(
                tx, OPERATOR, "github", "issue.opened", {"repository": "other"}, NOON + DAY, Rules(10, MINUTE)
            )
        )
        other = await bot.store.write(
            lambda tx: fire_system_event(
                tx, UserId("telegram:9"), "github", "issue.opened", payload, NOON + DAY, Rules(10, MINUTE)
            )
        )

    assert list(wrong) == list(other) == []


async def test_commands_list_run_switch_and_delete(tmp_path: Path) -> None:
    model = Model(say("Up."))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await bot.say("/routines")
        listed = await bot.post("**Routines**")
        await bot.say("/routines run Morning")
        await bot.post("🔔")
        await bot.say("/routines disable morning")
        await bot.post("disabled")
        await bot.say("/routines run morning")
        await bot.post("is disabled")
        await bot.say("/routines enable morning")
        await bot.post("Done. **morning**", count=2)
        await bot.say("/routines delete morning")
        await bot.post("is deleted")
        await bot.say("/routines")
        await bot.post("no routines here")

    assert "next Tuesday 2026-03-03 09:00 UTC" in listed.text


async def test_another_person_neither_sees_nor_runs_it(tmp_path: Path) -> None:
    async with started(tmp_path, Model()) as bot:
        await make(bot)
        for words in ("/routines", "/routines run morning", "/routines delete morning"):
            await bot.say(words, user="42")
        await bot.rest()
        found = await runs_of(bot)

    assert found == []
    assert not any("09:00" in text for text in bot.texts[1:])
    assert sum("not found" in text for text in bot.texts) == 2


async def test_a_group_does_not_see_what_was_made_in_private(tmp_path: Path) -> None:
    """Invariant 1."""
    async with started(tmp_path, Model()) as bot:
        await make(bot)
        await bot.say_in_group("/routines")
        await bot.post("no routines here")
        await bot.say_in_group("/routines delete morning")
        post = await bot.post("not found")

    assert "There are none" in post.text


# -- what a run may see and do ---------------------------------------------------------------------------------------
def write(home: Path, path: str, text: str) -> None:
    file = home / "workspace" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def test_a_run_is_told_its_documents_its_state_and_nothing_of_the_chat(tmp_path: Path) -> None:
    write(tmp_path, "projects/plan.md", "the plan of spring")
    write(tmp_path, "routines/morning/state.md", "yesterday 7 were up")
    model = Model(say("Up."), arguments=NINE | {"context_paths": ["projects/plan.md", "missing.md"]})
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)

    told = model.runs[0].messages[-1].text
    assert len(model.runs[0].messages) == 1
    assert "look after the servers" in told
    assert "the plan of spring" in told
    assert "yesterday 7 were up" in told
    assert "routines/morning/state.md" in told
    assert "make it" not in told


async def test_a_routine_of_a_group_sees_the_files_of_the_group_alone(tmp_path: Path) -> None:
    """Invariant 1."""
    write(tmp_path, "MEMORY.md", "the safe opens with 1234")
    write(tmp_path, "groups/telegram/-100/MEMORY.md", "the group likes tea")
    model = Model(call("memory_read", path="MEMORY.md"), say("Up."), arguments=NINE | {"context_paths": ["MEMORY.md"]})
    async with started(tmp_path, model) as bot:
        await make(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        await forward(bot, 21 * HOUR)
        await bot.post("Up.")

    assert "likes tea" in str(model.runs[0])
    assert "likes tea" in model.runs[1].messages[-1].text
    assert "1234" not in str(model.runs)


async def test_a_run_keeps_its_state_for_the_next_one(tmp_path: Path) -> None:
    keeps = call("memory_write", target="routines/morning/state.md", content="7 were up", append=False)
    model = Model(keeps, say("ROUTINE_OK"))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        await forward(bot, DAY)

    assert "7 were up" in model.runs[2].messages[0].text


async def test_a_call_that_needs_consent_is_not_run_whatever_is_allowed_in_chats(tmp_path: Path) -> None:
    """Invariant 4."""
    model = Model(
        call("shell", command="echo x > proof.txt"),
        call("http", method="POST", url="https://example.com/", body="x"),
        say("Could not."),
    )
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        await bot.post("Could not.")

    results = [message.text for message in model.runs[2].messages if isinstance(message, ToolResult)]
    assert len(results) == 2
    assert all("was not run" in text for text in results)
    assert not list(tmp_path.rglob("proof.txt"))


async def test_a_run_cannot_make_routines_or_write_elsewhere(tmp_path: Path) -> None:
    made = ToolCall("c1", "routine_create", {"name": "x", "prompt": "y", **NINE})
    model = Model(calls(made), call("message", content="hi"), say("No."))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        await bot.post("No.")
        left = await bot.store.read(routines.everybodys)

    assert [routine.name for routine in left] == ["morning"]
    assert "hi" not in bot.texts


async def test_the_last_round_has_no_tools_and_long_results_are_cut(tmp_path: Path) -> None:
    write(tmp_path, "long.md", "word " * 10_000)
    reads = call("memory_read", path="long.md")
    model = Model(reads, reads, say("Read."))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        await bot.post("Read.")

    assert [bool(request.tools) for request in model.runs] == [True, True, False]
    result = next(message for message in model.runs[1].messages if isinstance(message, ToolResult))
    assert len(result.text) < 10_000
    assert "cut" in result.text


# -- failures --------------------------------------------------------------------------------------------------------
DOWN = TransientError("429 from gpt-9, request req_123")


async def test_five_failures_in_a_row_switch_it_off_with_one_notice_more(tmp_path: Path) -> None:
    """B35."""
    async with started(tmp_path, Model(DOWN), variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        for _ in range(6):
            await forward(bot, DAY)
        found = await runs_of(bot)
        await bot.say("/routines")
        listed = await bot.post("**Routines**")

    assert [run.status for run in found] == [RunStatus.FAILED] * 5
    assert len(notices(bot)) == 5
    assert ["switched off" in text for text in notices(bot)] == [False] * 4 + [True]
    assert "disabled" in listed.text


async def test_what_went_wrong_is_not_told_in_a_group(tmp_path: Path) -> None:
    async with started(tmp_path, Model(DOWN), variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await make(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        await forward(bot, 21 * HOUR)
        post = await bot.post("❌")

    assert "history" in post.text
    assert not any(word in post.text for word in ("429", "gpt", "req_", "model"))


async def test_with_the_budget_used_up_no_model_is_asked_and_it_is_told_once_a_day(tmp_path: Path) -> None:
    """Invariant 6."""
    model = Model(say("Up."), arguments=dict(HOURLY))
    async with started(tmp_path, model, variables={"MAX_ACTIONS_PER_HOUR": "3"}) as bot:
        await make(bot)  # two calls of three; what nobody waits for may use 80 per cent
        for _ in range(3):
            bot.clock.advance(timedelta(seconds=1))
        await bot.say("/routines run morning")
        post = await bot.post("not run")
        await settled(bot)
        await bot.say("/routines run morning")
        await settled(bot)
        found = await runs_of(bot)

    assert model.runs == []
    assert "limit" in post.text
    assert [run.status for run in found] == [RunStatus.MISSED] * 2
    assert len(notices(bot)) == 1


async def test_an_answer_without_a_word_is_asked_for_again(tmp_path: Path) -> None:
    model = Model(say(""), say("<think>hm</think>"), say("Up."))
    async with started(tmp_path, model) as bot:
        await make(bot)
        await bot.clock.wait_for_sleeper()
        bot.clock.advance(21 * HOUR)
        for seconds in (timedelta(seconds=1), timedelta(seconds=2)):
            await bot.clock.wait_for_due(bot.clock.now() + seconds)
            bot.clock.advance(seconds)
        await bot.post("Up.")

    assert len(model.runs) == 3


async def test_what_somebody_ordered_ends_with_their_access(tmp_path: Path) -> None:
    clock = FakeClock()
    async with started(tmp_path, Model(say("Up.")), clock=clock) as bot:
        await make(bot, user="42")
        await make(bot)
    model = Model(say("Up."))
    async with started(tmp_path, model, clock=clock, variables={"TELEGRAM_DM_POLICY": "pairing"}) as bot:
        await forward(bot, 21 * HOUR)
        await bot.post("Up.")
        found = await runs_of(bot, user=UserId("telegram:42"))
        theirs = await bot.store.read(lambda tx: routines.of_user(tx, UserId("telegram:42")))

    assert len(model.runs) == 1
    assert [message.address.chat_id for message in bot.sent] == [OWNER]
    assert [run.status for run in found] == [RunStatus.MISSED]
    assert [routine.enabled for routine in theirs] == [False]


# -- a chat that moves -----------------------------------------------------------------------------------------------
async def test_a_group_that_gets_a_new_id_takes_its_routines_along(tmp_path: Path) -> None:
    async with started(tmp_path, Model(say("Up."))) as bot:
        await make(bot, chat_id="-100", chat_type=ChatType.SUPERGROUP)
        move = partial(conversations.move_chat, channel="telegram", old_chat="-100", new_chat="-1001")
        for _ in range(2):
            await bot.store.write(move)
        await forward(bot, 21 * HOUR)
        post = await bot.post("Up.")

    assert post.message.address.chat_id == "-1001"


# -- where results go ------------------------------------------------------------------------------------------------
async def test_the_operator_can_send_results_elsewhere_and_others_cannot(tmp_path: Path) -> None:
    arguments: dict[str, JsonValue] = {**NINE, "notify_channel": "slack", "notify_user": "U7"}
    model = Model(say("Up."), arguments=arguments)
    async with started(tmp_path, model) as bot:
        await make(bot)
        await make(bot, user="42")
        await forward(bot, 21 * HOUR)
        await bot.post("Up.", on=bot.slack)

    assert "Only the operator" in model.results[1]
    assert notices(bot) == []


async def test_a_background_job_does_the_run_and_the_routine_tells_its_result(tmp_path: Path) -> None:
    model = Model(arguments=NINE | {"action_type": "full_job"})
    async with started(tmp_path, model) as bot:
        await make(bot)
        bot.llm.default = say("I have completed the job: all tasks complete. The report is long.")
        await forward(bot, 21 * HOUR)
        post = await bot.post("🔔 **Routine 'morning'**")
        await settled(bot)
        found = await runs_of(bot)

    assert "The report is long." in post.text
    assert post.message.address.chat_id == OWNER
    assert found[0].job is not None
    assert found[0].status is RunStatus.ATTENTION


async def test_a_background_job_that_a_crash_cut_off_goes_on_and_so_does_its_run(tmp_path: Path) -> None:
    clock = FakeClock()
    model = Model(arguments=NINE | {"action_type": "full_job"})
    async with started(tmp_path, model, clock=clock) as bot:
        await make(bot)
        held = await begin_held(bot)
    assert held.reached.is_set()
    async with started(tmp_path, lambda _: say("I have completed the job. It is long."), clock=clock) as bot:
        await bot.post("It is long.")
        await settled(bot)
        found = await runs_of(bot)

    assert [run.status for run in found] == [RunStatus.ATTENTION]


async def test_a_background_job_that_is_cancelled_is_a_failure(tmp_path: Path) -> None:
    model = Model(arguments=NINE | {"action_type": "full_job"})
    async with started(tmp_path, model) as bot:
        await make(bot)
        await begin_held(bot)
        found = await runs_of(bot)
        await bot.say(f"/cancel {found[0].job}")
        post = await bot.post("❌ **Routine 'morning'**")

    assert "cancelled" in post.text


async def begin_held(bot: Bot) -> Held:
    """Let the next run ask a model that does not answer."""
    held = Held(say("Up."))
    bot.llm.default = held
    bot.clock.advance(21 * HOUR)
    assert bot.core.routines is not None
    bot.core.routines.engine.nudge()
    await held.reached.wait()
    return held


# -- hooks ---------------------------------------------------------------------------------------------------------
def refusing(point: Point, word: str) -> Hook:
    async def refuse(event: Event) -> Outcome:
        return Reject("no") if word in getattr(event, "content", "") else Go()

    return Hook("refusing", frozenset({point}), refuse)


async def test_a_hook_can_withhold_a_notice(tmp_path: Path) -> None:
    async with started(tmp_path, Model(say("The safe opens with 1234."))) as bot:
        await make(bot)
        bot.core.hooks.register(refusing(Point.BEFORE_OUTBOUND, "safe"))
        await forward(bot, 21 * HOUR)
        found = await runs_of(bot)

    assert notices(bot) == [WITHHELD]
    assert [run.status for run in found] == [RunStatus.ATTENTION]


async def test_words_that_a_hook_refuses_reach_no_model(tmp_path: Path) -> None:
    model = Model(say("Rolled back."), arguments=dict(LISTENS))
    async with started(tmp_path, model) as bot:
        await make(bot)
        bot.core.hooks.register(refusing(Point.BEFORE_INBOUND, "1234"))
        await bot.say("deploy failed 1234")
        post = await bot.post("❌")

    assert "refused by a hook" in post.text
    assert model.runs == []


async def test_an_answer_that_was_cut_off_is_a_failure(tmp_path: Path) -> None:
    cut = Completion(text="The servers are", finish=FinishReason.LENGTH)
    async with started(tmp_path, Model(cut)) as bot:
        await make(bot)
        await forward(bot, 21 * HOUR)
        post = await bot.post("❌")

    assert "cut off" in post.text


async def test_success_is_told_to_those_who_want_to_hear_of_it(tmp_path: Path) -> None:
    async with started(tmp_path, Model(say("ROUTINE_OK"))) as bot:
        await make(bot)
        routine = (await bot.store.read(routines.everybodys))[0]
        plan = replace(routine.plan, notify=Notify(on_success=True))
        await bot.store.write(lambda tx: routines.change(tx, replace(routine, plan=plan)))
        await forward(bot, 21 * HOUR)

    assert notices(bot) == ["✅ **Routine 'morning'**: done, nothing to report"]


async def test_a_routine_that_is_deleted_while_it_runs_says_nothing(tmp_path: Path) -> None:
    async with started(tmp_path, Model()) as bot:
        await make(bot)
        held = await begin_held(bot)
        await bot.say("/routines delete morning")
        await bot.post("is deleted")
        held.release.set()
        await settled(bot)

    assert notices(bot) == []


async def test_without_routines_the_command_says_so(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables={"ROUTINES_ENABLED": "false"}) as bot:
        await bot.say("/routines")
        await bot.post("ROUTINES_ENABLED")

    assert bot.core.routines is None
