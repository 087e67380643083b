"""Two processes at one database: who was overtaken commits nothing and says nothing. Invariants 3 and 5."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.llm.messages import AssistantTurn, ToolResult
from agent.model.session import TurnState
from agent.store import conversations, outbox, turns
from agent.store.base import Transaction
from channels.message import ConversationKey
from tests.support.bot import Bot
from tests.support.scripted_llm import Held, ScriptedLLM, call, say

AUTO = {"AGENT_AUTO_APPROVE_TOOLS": "true"}


def turns_of(tx: Transaction) -> list[tuple[TurnState, str | None]]:
    thread = conversations.current(tx, ConversationKey("operator", "telegram", "1"))
    assert thread is not None
    return [(record.state, record.response) for record in turns.records(tx, thread.id)]


async def test_overtaken_runner_says_nothing_and_commits_nothing(tmp_path: Path) -> None:
    """Invariant 3."""
    late = Held(say("from the first"))
    async with Bot(tmp_path, ScriptedLLM([late])) as first:
        await first.say("hello")
        await late.reached.wait()
        async with Bot(tmp_path, ScriptedLLM([say("from the second")])) as second:
            await second.post("from the second")
            late.release.set()
            await first.rest()
            await second.rest()

            assert first.texts == []
            assert second.texts == ["from the second"]
            assert await second.store.read(turns_of) == [(TurnState.COMPLETE, "from the second")]
            assert await second.store.read(outbox.unfinished) == []


async def test_overtaken_process_serves_the_next_message_with_the_true_history(tmp_path: Path) -> None:
    """Invariant 3."""
    late = Held(say("from the first"))
    llm = ScriptedLLM([say("one"), late, say("three")])
    async with Bot(tmp_path, llm) as first:
        await first.say("count")
        await first.post("one")
        await first.say("count on")
        await late.reached.wait()
        async with Bot(tmp_path, ScriptedLLM([say("two")])) as second:
            await second.post("two")
        late.release.set()
        await first.rest()
        await first.say("and on")
        await first.post("three")

    answers = [message.text for message in llm.requests[-1].messages if isinstance(message, AssistantTurn)]
    assert answers == ["one", "two"]


async def test_tool_that_an_overtaken_runner_has_begun_is_not_run_again(tmp_path: Path) -> None:
    """Invariants 3 and 5."""
    slow = call("shell", command="echo ran >> proof.txt; until [ -e go.txt ]; do sleep 0.05; done")
    after = ScriptedLLM([say("It may have run.")])
    async with Bot(tmp_path, ScriptedLLM([slow, say("never")]), variables=AUTO) as first:
        await first.say("please")
        async with asyncio.timeout(5):
            while not (found := await asyncio.to_thread(lambda: list(tmp_path.rglob("proof.txt")))):
                await asyncio.sleep(0.01)
        async with Bot(tmp_path, after, variables=AUTO) as second:
            await second.post("It may have run.")
            found[0].with_name("go.txt").touch()
            await first.rest()
            await second.rest()

            assert first.texts == []
            assert first.llm.left == 1
            assert second.texts == ["It may have run."]
    [told] = [message for message in after.requests[0].messages if isinstance(message, ToolResult)]
    assert told.is_error
    assert "not known" in told.text
    assert found[0].read_text() == "ran\n"


async def test_command_taken_by_two_processes_is_answered_once(tmp_path: Path) -> None:
    path = tmp_path / "workspace" / "HEARTBEAT.md"
    path.parent.mkdir()
    path.write_text("- [ ] rent")
    late = Held(say("late finding"))
    async with Bot(tmp_path, ScriptedLLM([late])) as first:
        await first.say("/heartbeat")
        await late.reached.wait()
        async with Bot(tmp_path, ScriptedLLM([say("early finding")])) as second:
            await second.post("early finding")
            late.release.set()
            await first.rest()

    assert first.texts == []
    assert len(second.texts) == 1
