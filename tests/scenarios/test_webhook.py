"""What a program that holds the webhook's secret can and cannot do: it is a guest, never the operator. Invariant 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from tests.support.scripted_llm import ScriptedLLM, call, calls, say
from tests.support.webhook_bench import calling

PRIVATE = {
    "MEMORY.md": "zanzibar-memory",
    "USER.md": "zanzibar-user",
    "daily/2026-03-02.md": "zanzibar-today",
    "users/telegram/700/MEMORY.md": "zanzibar-person",
    "groups/telegram/-77/MEMORY.md": "zanzibar-group",
}


def plant(home: Path) -> None:
    for path, word in PRIVATE.items():
        place = home / "workspace" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"- the word is {word}")


async def test_caller_reaches_no_private_file_and_no_shell(tmp_path: Path) -> None:
    plant(tmp_path)
    tries = [ToolCall("s", "shell", {"command": "cat MEMORY.md ../MEMORY.md"})]
    for number, path in enumerate(PRIVATE):
        for way in (path, f"../../../{path}", str(tmp_path / "workspace" / path)):
            tries += [
                ToolCall(f"m{number}{way}", "memory_read", {"path": way}),
                ToolCall(f"r{number}{way}", "read_file", {"path": way}),
            ]
    tries += [ToolCall("q", "memory_search", {"query": "zanzibar"}), ToolCall("t", "memory_tree", {})]
    async with calling(tmp_path, ScriptedLLM([calls(*tries), say("I found nothing.")])) as caller:
        answer = await caller.ask("what is the word?")

    first, second = caller.bot.llm.requests
    results = [message for message in second.messages if isinstance(message, ToolResult)]
    assert answer.said == "I found nothing."
    assert len(results) == len(tries)
    assert not {"shell", "read_file", "write_file"} & {tool.name for tool in first.tools}
    assert "zanzibar" not in first.system + "".join(message.text for message in (*first.messages, *results)).replace(
        '"zanzibar"', ""
    )


@pytest.mark.parametrize("command", ["/quit", "/restart", "/usage"])
async def test_caller_does_not_command_the_bot(tmp_path: Path, command: str) -> None:
    async with calling(tmp_path, ScriptedLLM()) as caller:
        answer = await caller.ask(command)

    assert answer.data["kind"] in ("notice", "error")
    assert not caller.bot.quit.is_set()
    assert caller.bot.restarts == []


async def test_caller_does_not_write_to_other_chats(tmp_path: Path) -> None:
    send = call("message", text="hello there", channel="telegram", to="1")
    async with calling(tmp_path, ScriptedLLM([send, say("I could not.")])) as caller:
        await caller.ask("tell the operator")
        await caller.bot.rest()

    assert caller.bot.texts == []


async def test_yes_of_the_caller_runs_what_the_caller_caused_and_brings_its_end(tmp_path: Path) -> None:
    def model(request: CompletionRequest) -> Completion:
        last = request.messages[-1]
        return say(f"It said: {last.text}") if isinstance(last, ToolResult) else call("shell", command="expr 6 '*' 7")

    variables = {"AGENT_LOCAL_TOOLS_FOR": "everyone"}
    async with calling(tmp_path, ScriptedLLM(default=model), variables=variables) as caller:
        question = await caller.ask("compute", thread_id="a")
        answer = await caller.ask("yes", thread_id="a", id="consent")
        again = await caller.ask("yes", thread_id="a", id="consent")

    assert question.data["kind"] == "approval"
    assert "expr 6 '*' 7" in question.said
    assert answer.data["kind"] == "answer"
    assert "42" in answer.said
    assert again.data["kind"] == "none"


async def test_caller_cannot_answer_the_operators_question(tmp_path: Path) -> None:
    async with calling(tmp_path, ScriptedLLM([call("shell", command="touch made")], default=say("Hm."))) as caller:
        await caller.bot.say("make it")
        await caller.bot.post("Approval needed")
        answer = await caller.ask("yes")
        await caller.bot.rest()

    assert answer.said == "Hm."  # a word of ordinary talk
    assert not list((tmp_path / "workspace").rglob("made"))
