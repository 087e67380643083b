"""The checklist is gone through now and then; its owner hears of it when something needs them, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agent.llm.base import Completion, CompletionRequest, FinishReason
from agent.llm.errors import AuthenticationFailed
from channels.errors import Rejected
from channels.message import ChatType, ReplyKind
from tests.support.bot import OWNER, Bot
from tests.support.builders import NOON
from tests.support.scripted_llm import ScriptedLLM, say

DAY = timedelta(hours=24)
DOWN = AuthenticationFailed("401")


def checklist(home: Path, text: str = "- [ ] is the rent paid?", *folder: str) -> None:
    path = home.joinpath("workspace", *folder, "HEARTBEAT.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@asynccontextmanager
async def beating(home: Path, *answers: object, **variables: str) -> AsyncIterator[Bot]:
    """A bot with a checklist whose heartbeat the test drives."""
    checklist(home)
    async with Bot(home, ScriptedLLM(list(answers)), variables=variables) as bot:  # type: ignore[arg-type]
        yield bot


@asynccontextmanager
async def on_schedule(bot: Bot) -> AsyncIterator[None]:
    """The heartbeat's service, as the program runs it."""
    async with asyncio.TaskGroup() as group:
        service = group.create_task(bot.core.heartbeat.run())
        yield
        service.cancel()


async def test_finding_reaches_the_owners_private_chat(tmp_path: Path) -> None:
    async with beating(tmp_path, say("The rent is due today.")) as bot:
        await bot.core.heartbeat.beat()
        post = await bot.post("The rent is due today.")

    assert post.message.kind is ReplyKind.FINDING
    assert post.message.address.chat_id == OWNER
    assert post.text.startswith("🔔 **Heartbeat Alert**")
    request = bot.llm.requests[0]
    assert request.tools == ()
    assert request.temperature == 0.3
    assert "is the rent paid?" in request.messages[-1].text


async def test_same_finding_is_told_once_in_a_day(tmp_path: Path) -> None:
    async with beating(tmp_path, *[say("The rent is due.")] * 4) as bot:
        await bot.core.heartbeat.beat()
        bot.clock.advance(DAY - timedelta(minutes=1))
        await bot.core.heartbeat.beat()
        await bot.rest()
        assert len(bot.texts) == 1

        bot.clock.advance(timedelta(minutes=1))
        await bot.core.heartbeat.beat()
        await bot.post("The rent is due.", count=2)


async def test_told_finding_is_remembered_after_a_restart(tmp_path: Path) -> None:
    async with beating(tmp_path, say("The rent is due.")) as bot:
        await bot.core.heartbeat.beat()
        await bot.post("The rent is due.")
    async with beating(tmp_path, say("The rent is due.")) as bot:
        await bot.core.heartbeat.beat()
        await bot.rest()

    assert bot.texts == []


async def test_finding_that_could_not_be_told_is_told_the_next_time(tmp_path: Path) -> None:
    async with beating(tmp_path, *[say("The rent is due.")] * 2) as bot:
        bot.telegram.no_private_chat = Rejected("telegram", "no such user")
        await bot.core.heartbeat.beat()
        await bot.rest()
        assert bot.texts == []

        bot.telegram.no_private_chat = None
        await bot.core.heartbeat.beat()
        await bot.post("The rent is due.")


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "**heartbeat_ok**", "<think>rent?</think>HEARTBEAT_OK"])
async def test_all_clear_is_silent(tmp_path: Path, answer: str) -> None:
    async with beating(tmp_path, say(answer)) as bot:
        await bot.core.heartbeat.beat()
        await bot.rest()

    assert bot.texts == []


async def test_seeded_checklist_is_empty_and_asks_no_model(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.core.heartbeat.beat()
        await bot.say("/heartbeat")
        await bot.post("Nothing was checked")

    assert bot.llm.requests == []


async def test_finding_never_goes_to_a_group_although_the_owner_wrote_there_last(tmp_path: Path) -> None:
    """Invariant 1."""
    async with beating(tmp_path, say("hi"), say("hi again"), say("The rent is due.")) as bot:
        await bot.say("hello")
        await bot.post("hi")
        await bot.say_in_group("hello all")
        await bot.post("hi again")
        await bot.core.heartbeat.beat()
        post = await bot.post("The rent is due.")

    assert post.message.address.chat_id == OWNER


async def test_secret_in_a_finding_is_hidden(tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab3dEf6hIj" * 4
    async with beating(tmp_path, say(f"Your key {key} expires.")) as bot:
        await bot.core.heartbeat.beat()
        post = await bot.post("expires")

    assert key not in post.text


# -- failures --------------------------------------------------------------------------------------------------
async def test_three_failures_are_told_once(tmp_path: Path) -> None:
    """The heartbeat stopped for good, silently, once."""
    cut = Completion("The rent", FinishReason.LENGTH)
    async with beating(tmp_path, DOWN, say(""), cut, DOWN, DOWN) as bot:
        for _ in range(2):
            await bot.core.heartbeat.beat()
        await bot.rest()
        assert bot.texts == []

        for _ in range(3):
            await bot.core.heartbeat.beat()
        await bot.post("failed 3 times")
        await bot.rest()

    assert len(bot.texts) == 1
    assert "401" not in bot.texts[0]


async def test_answer_between_failures_starts_the_count_anew(tmp_path: Path) -> None:
    async with beating(tmp_path, DOWN, DOWN, say("HEARTBEAT_OK"), DOWN, DOWN) as bot:
        for _ in range(5):
            await bot.core.heartbeat.beat()
        await bot.rest()

    assert bot.texts == []


async def test_failing_heartbeat_goes_on_less_often_and_recovers(tmp_path: Path) -> None:
    answers = (*[DOWN] * 6, say("The rent is due."), say("HEARTBEAT_OK"))
    async with beating(tmp_path, *answers, HEARTBEAT_INTERVAL_SECS="1800") as bot, on_schedule(bot):
        for hours in (0.5, 1, 1.5, 2, 4, 8, 12):
            await pass_to(bot, NOON + timedelta(hours=hours))
        await bot.post("The rent is due.")
        await pass_to(bot, NOON + timedelta(hours=12.5))
        await bot.clock.wait_for_due(NOON + timedelta(hours=13))

    assert bot.llm.left == 0


async def pass_to(bot: Bot, due: datetime) -> None:
    """Wait until the heartbeat sleeps until `due`, then let that time come."""
    async with asyncio.timeout(5):
        await bot.clock.wait_for_due(due)
    bot.clock.advance(due - bot.clock.now())


async def test_unreadable_checklist_is_a_failure_that_is_told(tmp_path: Path) -> None:
    async with beating(tmp_path) as bot:
        (tmp_path / "workspace" / "HEARTBEAT.md").write_bytes(b"\xff\xfe\xff")
        await bot.say("/heartbeat")
        await bot.post("The check failed")
        for _ in range(3):
            await bot.core.heartbeat.beat()
        await bot.post("failed 3 times")


async def test_used_up_budget_skips_the_check_and_counts_as_no_failure(tmp_path: Path) -> None:
    async with beating(tmp_path, MAX_ACTIONS_PER_HOUR="0") as bot:
        for _ in range(5):
            await bot.core.heartbeat.beat()
        await bot.say("/heartbeat")
        post = await bot.post("Nothing was checked")
        await bot.rest()

    assert "limit of 0 model calls" in post.text
    assert len(bot.texts) == 1
    assert bot.llm.requests == []


# -- the schedule ----------------------------------------------------------------------------------------------
async def test_quiet_hours_ask_no_model(tmp_path: Path) -> None:
    quiet = {"HEARTBEAT_QUIET_START": "12", "HEARTBEAT_QUIET_END": "14", "HEARTBEAT_INTERVAL_SECS": "3600"}
    async with beating(tmp_path, say("HEARTBEAT_OK"), **quiet) as bot, on_schedule(bot):
        await pass_to(bot, NOON + timedelta(hours=1))
        await bot.clock.wait_for_due(NOON + timedelta(hours=2))
        assert bot.llm.requests == []

        await pass_to(bot, NOON + timedelta(hours=2))
        await bot.clock.wait_for_due(NOON + timedelta(hours=3))

    assert len(bot.llm.requests) == 1


async def test_one_due_time_is_served_once_however_many_processes_tick(tmp_path: Path) -> None:
    """Invariant 10."""
    async with beating(tmp_path, say("HEARTBEAT_OK")) as bot, on_schedule(bot), on_schedule(bot):
        await bot.clock.wait_for_due(NOON + timedelta(minutes=30), count=2)
        bot.clock.advance(timedelta(minutes=30))
        await bot.clock.wait_for_due(NOON + timedelta(minutes=60), count=2)

    assert len(bot.llm.requests) == 1


# -- /heartbeat ------------------------------------------------------------------------------------------------
async def test_command_answers_in_the_same_private_chat_whatever_was_told_before(tmp_path: Path) -> None:
    async with beating(tmp_path, *[say("The rent is due.")] * 2, say("HEARTBEAT_OK")) as bot:
        await bot.core.heartbeat.beat()
        await bot.post("The rent is due.")
        await bot.say("/heartbeat")
        await bot.post("The rent is due.", count=2)
        await bot.say("/heartbeat")
        await bot.post("All clear")


@pytest.mark.parametrize("chat_type", [chat_type for chat_type in ChatType if chat_type.is_shared])
async def test_command_in_a_shared_chat_tells_nothing_and_asks_no_model(tmp_path: Path, chat_type: ChatType) -> None:
    """Invariant 1."""
    async with beating(tmp_path) as bot:
        await bot.say("/heartbeat", chat_id="-5", chat_type=chat_type)
        post = await bot.post("private chat")

    assert "rent" not in post.text
    assert bot.llm.requests == []


async def test_command_of_another_person_checks_their_own_list(tmp_path: Path) -> None:
    """Invariant 1."""
    checklist(tmp_path, "- [ ] water the plants", "users", "telegram", "7")
    async with beating(tmp_path, say("The plants are dry.")) as bot:
        await bot.say("/heartbeat", user="7")
        post = await bot.post("The plants are dry.")
        await bot.say("/heartbeat", user="8")
        await bot.post("Nothing was checked")

    assert post.message.address.chat_id == "7"
    told = bot.llm.requests[0]
    assert "plants" in told.messages[-1].text
    assert "rent" not in told.system + told.messages[-1].text


async def test_command_of_another_person_does_not_tell_what_the_operator_spends(tmp_path: Path) -> None:
    checklist(tmp_path, "- [ ] water the plants", "users", "telegram", "7")
    async with Bot(tmp_path, ScriptedLLM(), variables={"MAX_COST_PER_DAY_CENTS": "0"}) as bot:
        await bot.say("/heartbeat", user="7")
        reply = await bot.post("Nothing was checked")

    assert "used up" in reply.text
    assert "$" not in reply.text


# -- other people's checklists ----------------------------------------------------------------------------------
def due_for(word: str) -> Callable[[CompletionRequest], Completion]:
    """A model that finds something on the list that holds a word."""
    return lambda request: say(f"It is about {word}.") if word in request.messages[-1].text else say("HEARTBEAT_OK")


async def known(bot: Bot, *people: str) -> None:
    """These people have talked to the bot."""
    for person in people:
        await bot.say("/ping", user=person, chat_id=person)
        await bot.post(lambda post, person=person: post.message.address.chat_id == person)  # type: ignore[misc]


async def test_each_person_hears_of_their_own_checklist_in_their_own_chat(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    checklist(tmp_path, "- [ ] ann's tulips", "users", "telegram", "41")
    checklist(tmp_path, "- [ ] bob's boat", "users", "telegram", "42")
    llm = ScriptedLLM([], default=lambda request: due_for("tulips")(request))
    async with Bot(tmp_path, llm) as bot:
        await known(bot, "41", "42", "43")
        await bot.core.heartbeat.beat()
        post = await bot.post("tulips")
        await bot.rest()

    assert post.message.address.chat_id == "41"
    assert [text for text in bot.texts if "tulips" in text or "boat" in text] == [post.text]
    asked = [request.messages[-1].text for request in llm.requests]
    assert len(asked) == 2
    assert not any("tulips" in text and "boat" in text for text in asked)


async def test_same_finding_of_two_people_is_told_to_both_once(tmp_path: Path) -> None:
    for person in ("41", "42"):
        checklist(tmp_path, "- [ ] the party", "users", "telegram", person)
    async with Bot(tmp_path, ScriptedLLM([], default=lambda request: due_for("party")(request))) as bot:
        await known(bot, "41", "42")
        for _ in range(3):
            await bot.core.heartbeat.beat()
        await bot.post("party", count=2)
        await bot.rest()

    told = [post.message.address.chat_id for post in bot.telegram.posted if "party" in post.text]
    assert sorted(told) == ["41", "42"]


async def test_person_who_may_not_talk_any_more_has_no_heartbeat(tmp_path: Path) -> None:
    checklist(tmp_path, "- [ ] the party", "users", "telegram", "41")
    async with Bot(tmp_path, ScriptedLLM([])) as bot:
        await known(bot, "41")
    async with Bot(tmp_path, ScriptedLLM([]), variables={"TELEGRAM_DM_POLICY": "pairing"}) as bot:
        await bot.core.heartbeat.beat()

    assert bot.llm.requests == []


async def test_failing_checklist_of_a_person_is_told_once_and_asked_less_often_also_after_a_restart(
    tmp_path: Path,
) -> None:
    checklist(tmp_path, "- [ ] the party", "users", "telegram", "41")
    requests = 0
    for beats in (2, 2, 6):
        async with Bot(tmp_path, ScriptedLLM([DOWN] * 10)) as bot:
            await known(bot, "41")
            for _ in range(beats):
                await bot.core.heartbeat.beat()
            await bot.rest()
            requests += len(bot.llm.requests)
            told = [text for text in bot.texts if "failed 3 times" in text]
        assert len(told) == (1 if beats == 2 and requests > 2 else 0)

    assert requests < 10
