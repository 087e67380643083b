"""Risky tools ask first; only the right person's yes counts, once, for as long as it holds."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.builders import make_message
from tests.support.scripted_llm import Held, ScriptedLLM, call, calls, say

RUN = "echo ran >> proof.txt"


def runs(home: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in home.rglob("proof.txt"))


def shell(command: str = RUN, *, id: str = "call_1") -> ToolCall:
    return ToolCall(id, "shell", {"command": command})


def asking(*more: object) -> ScriptedLLM:
    return ScriptedLLM([calls(shell()), *more])  # type: ignore[list-item]


def results(llm: ScriptedLLM) -> Iterator[ToolResult]:
    return (message for message in llm.requests[-1].messages if isinstance(message, ToolResult))


async def test_question_shows_tool_and_exact_command_and_nothing_runs_before_the_yes(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("done"))) as bot:
        await bot.say("please")
        question = await bot.post("shell")
        assert RUN in question.text
        assert runs(tmp_path) == 0

        await bot.say("yes")
        await bot.post("done")

    assert runs(tmp_path) == 1


async def test_yes_is_no_user_message_of_the_model(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("done"))) as bot:
        await bot.say("please")
        await bot.post("shell")
        await bot.say(" Yes ")
        await bot.post("done")

    texts = [getattr(message, "text", "") for message in bot.llm.requests[-1].messages]
    assert not [text for text in texts if text.strip().lower().endswith("\nyes")]


async def test_no_runs_nothing_calls_no_model_and_the_next_turn_is_told(tmp_path: Path) -> None:
    llm = asking(say("sure"))
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("shell")
        await bot.say("no")
        await bot.post("was not run")
        assert len(llm.requests) == 1

        await bot.say("then tell me a joke")
        await bot.post("sure")

    assert runs(tmp_path) == 0
    assert "the user denied it" in next(results(llm)).text


async def test_always_holds_for_the_same_person_and_tool(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("one"), calls(shell()), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post("shell")
        await bot.say("always")
        await bot.post("one")
        await bot.say("second")
        await bot.post("two")

    assert runs(tmp_path) == 2


async def test_always_survives_a_restart_and_can_be_revoked(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([calls(shell()), say("one")])) as bot:
        await bot.say("first")
        await bot.post("shell")
        await bot.say("always")
        await bot.post("one")
    llm = ScriptedLLM([calls(shell()), say("two"), calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("second")
        await bot.post("two")
        await bot.say("/tools")
        assert "shell, in your private chats" in (await bot.post("Allowed from now on")).text
        await bot.say("/tools revoke shell")
        await bot.post("Taken back")
        await bot.say("third")
        await bot.post("Approval needed")

    assert runs(tmp_path) == 2


async def test_always_that_is_taken_back_during_a_turn_no_longer_holds_in_it(tmp_path: Path) -> None:
    held = Held(calls(shell()))
    llm = ScriptedLLM([calls(shell()), say("one"), held, say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post("shell")
        await bot.say("always")
        await bot.post("one")
        await bot.say("second")
        await held.reached.wait()
        await bot.say("/tools revoke shell")
        await bot.post("Taken back")
        held.release.set()
        await bot.post("Approval needed", count=2)

    assert runs(tmp_path) == 1


async def test_destructive_command_asks_in_spite_of_always_and_of_auto_approval(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("one"), calls(shell("rm -rf proof.txt"))])
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        await bot.say("first")
        await bot.post("one")
        await bot.say("second")
        question = await bot.post("rm -rf proof.txt")

    assert [data[-1] for data in question.buttons] == ["y", "n"]
    assert runs(tmp_path) == 1


async def test_always_said_in_private_does_not_hold_in_a_group(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("one"), calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post("shell")
        await bot.say("always")
        await bot.post("one")
        await bot.say_in_group("second")
        await bot.post("Approval needed", count=2)

    assert runs(tmp_path) == 1


async def test_always_said_in_a_group_holds_there_only(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("one"), calls(shell()), say("two"), calls(shell()), calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("first")
        await bot.post("shell")
        await bot.say_in_group("always")
        await bot.post("one")
        await bot.say_in_group("second")
        await bot.post("two")
        await bot.say("in private")
        await bot.post("Approval needed", count=2)
        await bot.say("elsewhere", chat_id="-200", chat_type=ChatType.GROUP)
        await bot.post("Approval needed", count=3)

    assert runs(tmp_path) == 2


async def test_another_members_words_and_buttons_release_nothing(tmp_path: Path) -> None:
    llm = asking(say("just talk"), say("just talk"), say("done"))
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("please", user="5")
        question = await bot.post("shell")
        accepted = await bot.press(question, "y", user="6", chat_type=ChatType.SUPERGROUP)
        assert accepted.note == "Only the person who asked for it can answer this question."
        for number, word in enumerate(("yes", "always"), start=1):
            await bot.say_in_group(word, user="6")
            await bot.post("just talk", count=number)
        assert runs(tmp_path) == 0

        await bot.say_in_group("yes", user="5")
        await bot.post("done")

    assert runs(tmp_path) == 1


async def test_question_in_a_group_says_who_may_answer_and_how_to_be_heard(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("please", user="5")
        in_group = await bot.post("Approval needed")
        await bot.say("please")
        in_private = await bot.post("Approval needed", count=2)

    assert "Only the person who asked for this can answer. Reply to this message with **yes**" in in_group.text
    assert "Only the person" not in in_private.text


async def test_two_quick_answers_run_it_once(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("done"), say("chat"))) as bot:
        await bot.say("please")
        question = await bot.post("shell")
        await asyncio.gather(bot.press(question, "y"), bot.press(question, "y"), bot.press(question, "n"))
        await bot.post("done")
        await bot.rest()

    assert runs(tmp_path) == 1


async def test_stale_button_cannot_release_a_newer_request(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), calls(shell())])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        old = await bot.post("Approval needed")
        await bot.say("no")
        await bot.post("was not run")
        await bot.say("second")
        await bot.post("Approval needed", count=2)
        accepted = await bot.tap(old.message.choices[0].data)
        await bot.rest()

    assert accepted.note == "That question is already answered."
    assert runs(tmp_path) == 0


async def test_answered_question_loses_its_buttons_and_shows_the_decision(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("done"))) as bot:
        await bot.say("please")
        question = await bot.post("shell")
        await bot.press(question, "y")
        await bot.post("done")
        await bot.rest()

    assert not question.buttons
    assert "Approved" in question.text


async def test_answer_from_another_channel_is_refused(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("ordinary talk")])
    variables = {"SLACK_OWNER_ID": "U1"}
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.say("please")
        question = await bot.post("shell")
        data = question.message.choices[0].data
        request = data.split(":")[1]
        text = f'{{"ExecApproval": {{"request_id": "{request}", "approved": true, "always": false}}}}'
        message = make_message(text, channel="slack", user="U1", chat_id="D1", structured=True, answers=request)
        accepted = await bot.deliver(message)
        await bot.rest()

    assert accepted.note == "Please answer where the question was asked."
    assert runs(tmp_path) == 0


@pytest.mark.parametrize("word", ["ok", "no", "yes", "a", "cancel"])
async def test_bare_word_with_nothing_pending_is_chat(tmp_path: Path, word: str) -> None:
    llm = ScriptedLLM([say("hm")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say(word)
        await bot.post("hm")

    assert llm.requests[0].messages[0].text.endswith(f"\n{word}")


async def test_message_while_waiting_shows_the_question_again_and_is_served_after_it(tmp_path: Path) -> None:
    llm = asking(say("done"), say("pizza"))
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("Approval needed")
        await bot.say("what about lunch?")
        again = await bot.post("Approval needed", count=2)
        assert runs(tmp_path) == 0

        await bot.press(again, "y")
        await bot.post("done")
        await bot.post("pizza")

    assert runs(tmp_path) == 1


async def test_stop_cancels_the_question_and_a_later_yes_is_chat(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("hm"))) as bot:
        await bot.say("please")
        await bot.post("shell")
        await bot.say("/stop")
        await bot.post("Stopped")
        await bot.say("yes")
        await bot.post("hm")

    assert runs(tmp_path) == 0


async def test_two_risky_calls_are_asked_one_after_the_other_and_told_together(tmp_path: Path) -> None:
    both = calls(shell("echo one >> proof.txt", id="a"), shell("echo two >> proof.txt", id="b"))
    llm = ScriptedLLM([both, say("both done")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("echo one")
        await bot.say("yes")
        await bot.post("echo two")
        await bot.say("yes")
        await bot.post("both done")

    assert [result.call_id for result in results(llm)] == ["a", "b"]
    assert runs(tmp_path) == 2


async def test_no_to_the_second_call_keeps_what_the_first_one_did(tmp_path: Path) -> None:
    both = calls(shell("echo one >> proof.txt", id="a"), shell("echo two >> proof.txt", id="b"))
    llm = ScriptedLLM([both, say("next")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("echo one")
        await bot.say("yes")
        await bot.post("echo two")
        await bot.say("no")
        await bot.post("was not run")
        await bot.say("go on")
        await bot.post("next")

    assert [result.is_error for result in results(llm)] == [False, True]
    assert runs(tmp_path) == 1


async def test_question_survives_a_crash_and_runs_once(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking()) as bot:
        await bot.say("please")
        question = await bot.post("shell")
        await bot.rest()
    async with Bot(tmp_path, ScriptedLLM([say("done")])) as bot:
        await bot.press(question, "y")
        await bot.post("done")
        await bot.rest()

    assert runs(tmp_path) == 1


async def test_answer_given_before_a_crash_is_acted_on_after_it(tmp_path: Path) -> None:
    bot = Bot(tmp_path, asking())
    async with bot:
        await bot.say("please")
        await bot.post("shell")
        await bot.rest()
        await bot.core.engine.drain(timedelta(0))  # from here on the answer is stored and nothing acts on it
        await bot.say("yes")
    async with Bot(tmp_path, ScriptedLLM([say("done")])) as bot:
        await bot.post("done")

    assert runs(tmp_path) == 1


async def test_unanswered_question_expires_says_so_and_runs_nothing(tmp_path: Path) -> None:
    async with Bot(tmp_path, asking(say("chat"))) as bot:
        await bot.say("please")
        await bot.post("shell")
        await bot.clock.wait_for_sleeper(timedelta(minutes=10))
        for _ in range(24 * 6 + 1):
            await bot.clock.wait_for_sleeper(timedelta(minutes=10))
            bot.clock.advance(timedelta(minutes=10))
        await bot.post("has expired")
        await bot.say("yes")
        await bot.post("chat")

    assert runs(tmp_path) == 0


async def test_tool_killed_in_the_middle_is_not_run_again(tmp_path: Path) -> None:
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true"}
    slow = calls(shell("echo ran >> proof.txt; sleep 30"))
    async with Bot(tmp_path, ScriptedLLM([slow]), variables=variables) as bot:
        await bot.say("please")
        async with asyncio.timeout(5):
            while runs(tmp_path) == 0:
                await asyncio.sleep(0.01)
    llm = ScriptedLLM([say("I do not know whether it worked")])
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.post("do not know")

    assert runs(tmp_path) == 1
    assert "not known" in next(results(llm)).text


async def test_model_call_killed_in_the_middle_is_made_again(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with Bot(tmp_path, ScriptedLLM([held])) as bot:
        await bot.say("hello")
        await held.reached.wait()
    async with Bot(tmp_path, ScriptedLLM([say("answered after all")])) as bot:
        await bot.post("answered after all")
        await bot.rest()

    assert bot.texts == ["answered after all"]


async def test_stranger_is_not_offered_local_tools_and_a_call_by_name_is_refused(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell()), say("sorry")])
    async with Bot(tmp_path, llm, variables={"AGENT_LOCAL_TOOLS_FOR": "operator"}) as bot:
        await bot.say("please", user="2")
        await bot.post("sorry")

    assert "shell" not in [tool.name for tool in llm.requests[0].tools]
    assert next(results(llm)).is_error
    assert runs(tmp_path) == 0


async def test_refused_command_asks_nobody(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(shell("sudo rm proof.txt")), say("cannot")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("cannot")

    assert next(results(llm)).is_error


async def test_unknown_tool_and_broken_arguments_come_back_as_errors(tmp_path: Path) -> None:
    broken = ToolCall("b", "echo", {}, malformed='{"message": "cut o')
    llm = ScriptedLLM([call("no_such_tool", id="a"), calls(broken), say("fine")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("please")
        await bot.post("fine")

    assert all(result.is_error for result in results(llm))
