"""Going back, forward, elsewhere, and making room: what the model is told afterwards."""

import re
from pathlib import Path

import pytest

from agent.conversation.compaction import MARK
from agent.llm.base import Completion, CompletionRequest, Usage
from agent.llm.errors import ContextTooLong, TransientError
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.llm.tokens import TokenEstimator
from channels.message import ChatType
from tests.support.bot import Bot
from tests.support.scripted_llm import Held, ScriptedLLM, ScriptStep, call, say

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def told(request: CompletionRequest) -> str:
    return "\n".join(message.text for message in request.messages)


async def exchange(bot: Bot, text: str, answer: str) -> None:
    bot.llm.add(say(answer))
    await bot.say(text)
    await bot.post(answer)


async def test_undo_gives_the_prompt_before_the_undone_turn_byte_for_byte(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "first", "one")
        await exchange(bot, "second", "two")
        await bot.say("/undo")
        assert "before turn 2" in (await bot.post("Undone")).text
        await exchange(bot, "third", "three")

    before, after = bot.llm.requests[1], bot.llm.requests[2]
    assert after.messages[:-1] == before.messages[:-1]
    assert after.system == before.system


async def test_redo_brings_everything_back(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "first", "one")
        bot.llm.add(call("echo", message="hi"), say("two"))
        await bot.say("second")
        await bot.post("two")
        await bot.say("/undo")
        await bot.post("Undone")
        await bot.say("/redo")
        await bot.post("Redone")
        await exchange(bot, "third", "three")

    kinds = [type(message) for message in bot.llm.requests[-1].messages]
    assert kinds == [UserText, AssistantTurn, UserText, AssistantTurn, ToolResult, AssistantTurn, UserText]


async def test_undo_survives_a_restart_and_removes_a_whole_exchange(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "before", "one")
        bot.llm.add(call("echo", message="plum", id="a"), call("echo", message="plum", id="b"), say("two"))
        await bot.say("echo it")
        await bot.post("two")
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say("/undo")
        await bot.post("Undone")
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "after", "three")

    assert "plum" not in told(bot.llm.requests[0])
    assert len(bot.llm.requests[0].messages) == 3


async def test_undo_names_effects_that_stay(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([call("memory_write", content="x", target="memory"), say("noted")])) as bot:
        await bot.say("remember x")
        await bot.post("noted")
        await bot.say("/undo")

        assert "memory_write" in (await bot.post("Undone")).text


async def test_a_new_turn_ends_the_way_forward(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "first", "one")
        await bot.say("/undo")
        await bot.post("Undone")
        await exchange(bot, "second", "two")
        await bot.say("/redo")

        assert await bot.post("nothing to redo")


async def test_twenty_turns_can_be_undone_and_no_more(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        for number in range(22):
            await exchange(bot, f"message {number}", f"answer {number}.")
        for _ in range(20):
            await bot.say("/undo")
        await bot.rest()
        await bot.say("/undo")
        await bot.post("nothing to undo")
        await exchange(bot, "go on", "fine")

    assert [m.text.rsplit("\n", 1)[-1] for m in bot.llm.requests[-1].messages] == [
        "message 0",
        "answer 0.",
        "message 1",
        "answer 1.",
        "go on",
    ]


async def test_resume_goes_back_to_a_listed_checkpoint(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        for word in ("one", "two", "three"):
            await exchange(bot, f"say {word}", word)
        await bot.say("/resume")
        listing = await bot.post("Checkpoints")
        checkpoint = re.search(rf"`({UUID})` before turn 2", listing.text)
        assert checkpoint
        await bot.say(f"/resume {checkpoint[1]}")
        await bot.post("Resumed before turn 2")
        await exchange(bot, "now", "four")

    assert "two" not in told(bot.llm.requests[-1])
    assert "one" in told(bot.llm.requests[-1])


@pytest.mark.parametrize("command", ["/undo", "/redo", f"/resume {'0' * 32}"])
async def test_history_commands_are_refused_while_a_turn_runs(tmp_path: Path, command: str) -> None:
    held = Held(say("late"))
    async with Bot(tmp_path, ScriptedLLM([held])) as bot:
        await bot.say("think")
        await held.reached.wait()
        await bot.say(command)
        await bot.post("Stop it first")
        held.release.set()
        await bot.post("late")


async def test_clear_stops_what_runs_and_forgets_all_turns(tmp_path: Path) -> None:
    held = Held(say("late"))
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "old topic", "one")
        bot.llm.add(held)
        await bot.say("think")
        await held.reached.wait()
        await bot.say("/clear")
        await bot.post("Cleared")
        await exchange(bot, "new topic", "two")
        await bot.say("/undo")
        await bot.post("Undone")

    assert len(bot.llm.requests[-1].messages) == 1


async def test_thread_switches_back_and_shows_its_open_question(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([call("shell", command="touch x")])) as bot:
        await bot.say("/new")
        first = re.search(UUID, (await bot.post("new conversation")).text)
        assert first
        await bot.say("please")
        await bot.post("Approval needed")
        await bot.say("/new")
        await bot.post("new conversation", count=2)
        await exchange(bot, "elsewhere", "other")
        await bot.say(f"/thread {first[0]}")
        await bot.post("Switched")
        again = await bot.post("Approval needed", count=2)
        bot.llm.add(say("done"))
        await bot.press(again, "y")
        await bot.post("done")


async def test_another_persons_thread_is_not_found(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        accepted = await bot.say("/new", user="2")
        await bot.say(f"/thread {accepted.thread_id}", user="3")

        assert await bot.post("thread not found")


async def test_private_thread_is_not_opened_in_a_group(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "my secret plan", "one")
        accepted = await bot.say("/new")
        await bot.say_in_group(f"/thread {accepted.thread_id}")
        await bot.post("thread not found")
        await bot.say_in_group("/resume")
        listing = await bot.post("Conversations")

    assert "secret plan" not in listing.text


# -- making room ----------------------------------------------------------------------------------------------------
SMALL = {"AGENT_CONTEXT_LIMIT_TOKENS": "2000"}
LONG = " ".join(f"word{n}" for n in range(150))


async def fill(bot: Bot, turns: int) -> None:
    for number in range(turns):
        await exchange(bot, f"fact{number} {LONG}", f"answer {number}.")


async def test_compact_puts_a_summary_in_front_and_keeps_the_newest_turns(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await fill(bot, 8)
        bot.llm.add(say("SUMMARY of three facts"))
        await bot.say("/compact")
        report = await bot.post("Shortened")
        assert re.search(r"3 turns left out, \d+ → \d+ tokens", report.text)
        await exchange(bot, "go on", "fine")

    last = bot.llm.requests[-1]
    assert last.messages[0].text.startswith(MARK)
    assert "SUMMARY of three facts" in last.messages[0].text
    assert "fact2 " not in told(last)
    assert "fact3 " in told(last)
    assert not bot.llm.requests[-2].tools


async def test_undo_after_compact_brings_the_full_history_back(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await fill(bot, 7)
        bot.llm.add(say("SUMMARY"))
        await bot.say("/compact")
        await bot.post("Shortened")
        await bot.say("/undo")
        await bot.post("Undone")
        await exchange(bot, "go on", "fine")

    assert "fact0 " in told(bot.llm.requests[-1])
    assert "fact6 " not in told(bot.llm.requests[-1])


@pytest.mark.parametrize("summary", [say(""), call("echo", message="x"), TransientError("500")], ids=str)
async def test_failed_summary_changes_nothing(tmp_path: Path, summary: ScriptStep) -> None:
    async with Bot(tmp_path, ScriptedLLM(), variables={"LLM_MAX_RETRIES": "0"}) as bot:
        await fill(bot, 7)
        bot.llm.add(summary)
        await bot.say("/compact")
        await bot.post("Nothing was changed")
        await exchange(bot, "go on", "fine")

    assert all(f"fact{number} " in told(bot.llm.requests[-1]) for number in range(7))


async def test_full_context_is_shortened_before_the_turn_and_the_past_is_kept(tmp_path: Path) -> None:
    bot = Bot(
        tmp_path, ScriptedLLM(default=lambda request: say("SUMMARY" if not request.tools else "ok")), variables=SMALL
    )
    async with bot:
        for number in range(30):
            await bot.say(f"fact{number} {LONG}")
            await bot.rest()

    chats = [request for request in bot.llm.requests if request.tools]
    assert len(told(chats[-1])) < 2_000 * 6
    assert "fact29 " in told(chats[-1])
    assert chats[-1].messages[0].text.startswith(MARK)


@pytest.mark.parametrize("prompt_tokens", [16_200, 17_500], ids=["would be moved", "would be summarized"])
async def test_prompt_that_fills_the_context_by_itself_costs_no_summaries(tmp_path: Path, prompt_tokens: int) -> None:
    """What is too big is not the history: shortening it would cost a call each turn and win nothing."""

    def answer(request: CompletionRequest) -> Completion:
        return say("ok", usage=Usage(prompt_tokens + TokenEstimator().estimate(request.messages), 5))

    llm = ScriptedLLM(default=answer)
    async with Bot(tmp_path, llm, variables={"AGENT_CONTEXT_LIMIT_TOKENS": "20000"}) as bot:
        for number in range(12):
            await bot.say(f"fact{number}")
            await bot.rest()

    assert len(llm.requests) == 12
    assert not told(llm.requests[-1]).startswith(MARK)


async def test_compacted_history_survives_a_restart(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await fill(bot, 7)
        bot.llm.add(say("SUMMARY"))
        await bot.say("/compact")
        await bot.post("Shortened")
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "go on", "fine")

    assert "SUMMARY" in bot.llm.requests[0].messages[0].text
    assert "fact0 " not in told(bot.llm.requests[0])


async def test_request_that_does_not_fit_is_made_once_more_without_the_history(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "first", "one")
        bot.llm.add(ContextTooLong("too long"), say("two"))
        await bot.say("second")
        await bot.post("two")
        await exchange(bot, "third", "three")

    cut, next_turn = bot.llm.requests[2], bot.llm.requests[3]
    assert "first" not in told(cut)
    assert "left out" in told(cut)
    assert "first" in told(next_turn)


async def test_second_context_error_is_told_and_does_not_loop(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await exchange(bot, "first", "one")
        bot.llm.add(ContextTooLong("too long"), ContextTooLong("too long"))
        await bot.say("second")
        await bot.post("longer than the model can take")

    assert len(bot.llm.requests) == 3


async def test_what_does_not_fit_without_a_history_is_not_blamed_on_the_conversation(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([ContextTooLong("too long")])) as bot:
        await bot.say("first")
        reply = await bot.post("longer than the model can take")

    assert "MEMORY.md" in reply.text
    assert "/new" not in reply.text
    assert len(bot.llm.requests) == 1


# -- what one model is told of the prefix -----------------------------------------------------------------------------
async def test_fifty_turns_with_tools_and_approvals_are_append_only(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        for number in range(50):
            if number % 10 == 3:
                bot.llm.add(call("echo", message=f"m{number}", id=f"e{number}"), say(f"answer {number}."))
            elif number % 10 == 7:
                bot.llm.add(call("shell", command=f"touch f{number}", id=f"s{number}"))
                if number % 20 == 7:
                    bot.llm.add(say(f"answer {number}."))
            else:
                bot.llm.add(say(f"answer {number}."))
            await bot.say(f"message {number}")
            if number % 10 == 7:
                await bot.post(f"touch f{number}")
                await bot.say("yes" if number % 20 == 7 else "no")
                if number % 20 != 7:
                    await bot.post("was not run", count=number // 20 + 1)
                    continue
            if number % 10 == 5:
                await bot.say("/status")
            await bot.post(f"answer {number}.")

    for before, after in zip(bot.llm.requests, bot.llm.requests[1:], strict=False):
        assert after.system == before.system
        assert after.tools == before.tools
        assert after.messages[: len(before.messages)] == before.messages


async def test_model_chosen_for_later_keeps_this_thread_and_with_now_changes_it(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM(models=("scripted-1", "other"))) as bot:
        await bot.say("/model other")
        await bot.post("begun from now on")
        await exchange(bot, "first", "one")
        await bot.say("/status")
        assert "staged for new conversations: model other" in (await bot.post("optimclaw")).text
        await bot.say("/new")
        await bot.post("new conversation")
        await exchange(bot, "second", "two")
        await bot.say("/model --now scripted-1")
        await bot.post("From now on scripted-1 answers here")
        await exchange(bot, "third", "three")

    assert [request.model for request in bot.llm.requests] == [None, "other", "scripted-1"]


async def test_once_asks_another_model_for_one_message(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        bot.llm.add(say("one"))
        await bot.say("/once big-model what is this?")
        await bot.post("one")
        await exchange(bot, "second", "two")

    assert [request.model for request in bot.llm.requests] == ["big-model", None]
    assert bot.llm.requests[0].messages[0].text.endswith("\nwhat is this?")


async def test_group_and_private_history_stay_apart(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        bot.llm.add(say("in group"))
        await bot.say_in_group("the plum plan")
        await bot.post("in group")
        await exchange(bot, "hello", "in private")
        bot.llm.add(say("elsewhere"))
        await bot.say("hello", chat_id="-7", chat_type=ChatType.GROUP)
        await bot.post("elsewhere")

    assert all("plum" not in told(request) for request in bot.llm.requests[1:])


async def test_secret_that_the_model_wrote_is_stored_nowhere_and_not_told_again(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    llm = ScriptedLLM([call("echo", text=f"I use {key}.", message=key), say(f"It is {key}."), say("fine")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("which key?")
        await bot.post("It is [REDACTED].")
        await bot.say("thanks")
        await bot.post("fine")
        await bot.rest()

    assert key not in repr(llm.requests[-1].messages)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()] == []
