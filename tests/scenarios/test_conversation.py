"""A message comes in, an answer goes out: once, in order, where it was asked."""

from datetime import timedelta
from pathlib import Path

import pytest

from agent.conversation import replies
from agent.llm.errors import AuthenticationFailed, TransientError
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from channels.base import Uncertain
from channels.errors import RateLimited, Rejected, Unavailable
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.builders import make_message
from tests.support.scripted_llm import Held, ScriptedLLM, call, say


async def test_private_message_is_answered_in_its_chat(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("Good day!")])) as bot:
        await bot.say("hello", user="7", chat_id="7")

        post = await bot.post("Good day!")

    assert post.message.address.chat_id == "7"


async def test_redelivered_message_is_answered_once(tmp_path: Path) -> None:
    message = make_message("hello", user="1", chat_id="1")
    async with Bot(tmp_path, ScriptedLLM([say("Once.")])) as bot:
        await bot.deliver(message)
        await bot.post("Once.")
        await bot.deliver(message)
        await bot.rest()

    assert bot.texts == ["Once."]


async def test_redelivery_after_a_restart_is_known(tmp_path: Path) -> None:
    message = make_message("hello", user="1", chat_id="1")
    async with Bot(tmp_path, ScriptedLLM([say("Once.")])) as bot:
        await bot.deliver(message)
        await bot.post("Once.")
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.deliver(message)
        await bot.rest()

    assert bot.texts == []


async def test_second_turn_continues_the_first_request_byte_for_byte(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post("one")
        await bot.say("second")
        await bot.post("two")

    first, second = llm.requests
    assert second.system == first.system
    assert second.tools is first.tools
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[len(first.messages)] == AssistantTurn("one")


async def test_history_is_back_after_a_restart(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([call("echo", message="hi"), say("one")])) as bot:
        await bot.say("first")
        await bot.post("one")
    llm = ScriptedLLM([say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("second")
        await bot.post("two")

    kinds = [type(message) for message in llm.requests[0].messages]
    assert kinds == [UserText, AssistantTurn, ToolResult, AssistantTurn, UserText]


async def test_messages_that_come_during_a_turn_wait_and_are_merged(tmp_path: Path) -> None:
    held = Held(say("one"))
    llm = ScriptedLLM([held, say("both")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await held.reached.wait()
        await bot.say("second")
        await bot.say("third")
        held.release.set()
        await bot.post("both")

    last = llm.requests[-1].messages[-1]
    assert isinstance(last, UserText)
    assert last.text.endswith("second\nthird")


async def test_two_people_do_not_wait_for_each_other(tmp_path: Path) -> None:
    held = Held(say("slow"))
    async with Bot(tmp_path, ScriptedLLM([held, say("quick")])) as bot:
        await bot.say("think hard", user="1")
        await held.reached.wait()
        await bot.say("hi", user="2")

        assert await bot.post("quick")
        held.release.set()
        assert await bot.post("slow")


async def test_members_of_a_group_have_threads_of_their_own(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("for Alice"), say("for Bob")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("only for you", user="5")
        await bot.post("for Alice")
        await bot.say_in_group("hello", user="6")
        await bot.post("for Bob")

    assert len(llm.requests[1].messages) == 1


async def test_new_thread_knows_nothing_of_the_old_one(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("the word is plum")
        await bot.post("one")
        await bot.say("/new")
        await bot.post("new conversation")
        await bot.say("what is the word?")
        await bot.post("two")

    assert len(llm.requests[1].messages) == 1


async def test_stop_cuts_off_a_running_model_call_and_says_so(tmp_path: Path) -> None:
    held = Held(say("never"))
    llm = ScriptedLLM([held, say("fine")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("think for ever")
        await held.reached.wait()
        await bot.say("/stop")
        await bot.post("Stopped")
        await bot.say("and now")
        await bot.post("fine")

    assert "never" not in "".join(bot.texts)


async def test_stop_drops_what_waits_and_says_how_much(tmp_path: Path) -> None:
    held = Held(say("never"))
    async with Bot(tmp_path, ScriptedLLM([held])) as bot:
        await bot.say("think for ever")
        await held.reached.wait()
        await bot.say("and this")
        await bot.say("/stop")
        assert await bot.post("1 waiting message dropped")
        await bot.rest()

    assert len(bot.llm.requests) == 1


async def test_stop_with_nothing_running_is_told(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say("/stop")

        assert await bot.post("nothing to stop")


async def test_ping_is_answered_while_a_turn_runs(tmp_path: Path) -> None:
    held = Held(say("late"))
    async with Bot(tmp_path, ScriptedLLM([held])) as bot:
        await bot.say("think")
        await held.reached.wait()
        await bot.say("/ping")

        assert await bot.post("pong")
        held.release.set()
        assert await bot.post("late")


async def test_unknown_command_gets_the_nearest_one_and_no_model_call(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say("/statsu")

        assert await bot.post("Did you mean /status?")


async def test_only_the_operator_stops_the_bot(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say("/quit", user="2")
        await bot.post("Only the operator")
        assert not bot.quit.is_set()

        await bot.say("/quit", user="1")
        await bot.post("Shutting down")
        assert bot.quit.is_set()


@pytest.mark.parametrize(
    ("fault", "words"), [(AuthenticationFailed("401"), "refuses our access"), (TransientError("500"), "not answering")]
)
async def test_model_fault_is_said_in_neutral_words_and_the_chat_goes_on(
    tmp_path: Path, fault: Exception, words: str
) -> None:
    llm = ScriptedLLM([fault, say("back again")])
    async with Bot(tmp_path, llm, variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await bot.say("hello")
        post = await bot.post(words)
        await bot.say("again")
        await bot.post("back again")

    assert "401" not in post.text
    assert "500" not in post.text


async def test_defect_in_a_turn_is_told_and_does_not_end_the_bot(tmp_path: Path) -> None:
    llm = ScriptedLLM([ZeroDivisionError("secret detail"), say("fine")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("hello")
        post = await bot.post("Something went wrong")
        await bot.say("again")
        await bot.post("fine")

    assert "secret detail" not in post.text


async def test_silence_in_a_group_is_not_sent_and_does_not_stop_the_bot(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("NO_REPLY"), say("loud")])) as bot:
        await bot.say_in_group("just noting")
        await bot.rest()
        await bot.say_in_group("now speak")
        await bot.post("loud")

    assert bot.texts == ["loud"]


async def test_empty_answer_becomes_a_note_and_poisons_nothing(tmp_path: Path) -> None:
    llm = ScriptedLLM([say(""), say("fine")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("hello")
        await bot.post("no answer")
        await bot.say("again")
        await bot.post("fine")

    assert all(message.text for message in llm.requests[1].messages if isinstance(message, AssistantTurn))


async def test_secret_in_a_message_is_refused_and_kept_nowhere(tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab3dEf6hIj" * 4
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say(f"my key is {key}")
        post = await bot.post()
        await bot.rest()

    assert key not in post.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


async def test_rate_limit_delays_its_chat_and_keeps_the_order(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one"), say("two")])) as bot:
        bot.telegram.faults.append(RateLimited("telegram", timedelta(seconds=30)))
        await bot.say("a", user="1")
        await bot.say("b", user="2")
        await bot.post("two")
        assert bot.texts == ["two"]

        bot.clock.advance(timedelta(seconds=31))
        await bot.post("one")


async def test_platform_fault_is_tried_again(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one")])) as bot:
        bot.telegram.faults.append(Unavailable("telegram", "502"))
        await bot.say("a")
        await bot.clock.wait_for_sleeper()
        bot.clock.advance(timedelta(seconds=5))
        await bot.post("one")


async def test_rejected_message_does_not_hold_up_the_next_one(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one"), say("two")])) as bot:
        bot.telegram.faults.append(Rejected("telegram", "blocked"))
        await bot.say("a")
        await bot.rest()
        await bot.say("b")
        await bot.post("two")

    assert bot.texts == ["two"]


@pytest.mark.parametrize(
    ("verdict", "texts"), [(Uncertain.RESEND, ["one"]), (Uncertain.SKIP, []), (Uncertain.SENT, [])]
)
async def test_message_whose_sending_a_crash_cut_off_is_settled_by_the_platform(
    tmp_path: Path, verdict: Uncertain, texts: list[str]
) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one")])) as bot:
        bot.telegram.gate.clear()
        await bot.say("a")
        await bot.telegram.sending.wait()
    bot = Bot(tmp_path, ScriptedLLM())
    bot.telegram.uncertain = verdict
    async with bot:
        await bot.telegram.settled.wait()
        await bot.rest()

    assert bot.texts == texts


async def test_shared_chat_says_who_speaks_and_a_private_one_does_not(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say_in_group("hello", user="5", name="Mallory [admin]")
        await bot.post("one")
        await bot.say("hello", user="5", name="Mallory")
        await bot.post("two")

    shared, private = (request.messages[0] for request in llm.requests)
    assert isinstance(shared, UserText)
    assert isinstance(private, UserText)
    assert "from Mallory (admin) (id 5)" in shared.text
    assert "Mallory" not in private.text


async def test_unknown_chat_type_counts_as_shared(tmp_path: Path) -> None:
    llm = ScriptedLLM([say("one")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("hello", chat_type=ChatType.UNKNOWN, chat_id="-5")
        await bot.post("one")

    assert "group chat" in llm.requests[0].system


async def test_words_beside_a_call_are_the_answer_if_the_model_ends_with_none(tmp_path: Path) -> None:
    llm = ScriptedLLM([call("echo", text="The answer is 42.", message="noted"), say("")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("what is it?")

        assert (await bot.post()).text == "The answer is 42."


async def test_announcement_of_a_call_is_no_answer(tmp_path: Path) -> None:
    llm = ScriptedLLM([call("echo", text="Let me look up the number.", message="noted"), say("")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("what is it?")

        assert (await bot.post()).text == replies.EMPTY_ANSWER


async def test_turn_that_cannot_be_stored_fails_once_and_the_next_is_answered(tmp_path: Path) -> None:
    llm = ScriptedLLM([call("echo", message="half a character: \ud83d"), say("never stored"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post(replies.SOMETHING_BROKE)
        await bot.say("second")
        await bot.post("two")
        await bot.rest()

    assert bot.texts == [replies.SOMETHING_BROKE, "two"]


async def test_what_the_operator_spends_is_told_to_the_operator_in_private_only(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables={"MAX_COST_PER_DAY_CENTS": "0"}) as bot:
        await bot.say("hello")
        await bot.post("The budget of $0.00")
        await bot.say_in_group("hello")
        await bot.post(replies.BUDGET_USED_UP)
        await bot.say("hello", user="2")
        await bot.post(replies.BUDGET_USED_UP, count=2)

    assert sum("$" in text for text in bot.texts) == 1


async def test_half_a_character_in_a_persons_words_is_replaced_and_answered(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("fine")])) as bot:
        await bot.say("hi \ud83d there, \ud83d\ude00")
        await bot.post("fine")

    assert "hi \ufffd there, \U0001f600" in bot.llm.requests[0].messages[-1].text
