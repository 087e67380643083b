"""Memory is searched by words, and by meaning where that is switched on."""

from __future__ import annotations

from pathlib import Path

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from tests.support.bot import Bot
from tests.support.fake_llm_api import fake_llm_api
from tests.support.scripted_llm import ScriptedLLM, calls, say

ASK = ToolCall("call_1", "memory_search", {"query": "sore tooth"})


def told(llm: ScriptedLLM) -> str:
    """What the last call of the tool gave the model."""
    return [message.text for message in llm.requests[-1].messages if isinstance(message, ToolResult)][-1]


def with_note(home: Path) -> Path:
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "health.md").write_text("The dentist is on Tuesday.")
    return home


async def test_answer_of_the_tool_holds_what_means_the_same_in_other_words(tmp_path: Path) -> None:
    async with fake_llm_api() as api:
        api.meanings = (frozenset({"tooth", "dentist"}),)
        llm = ScriptedLLM([calls(ASK), say("not yet"), calls(ASK), say("on Tuesday")])
        server = {"MEMORY_EMBEDDING_PROVIDER": "openai", "MEMORY_EMBEDDING_BASE_URL": f"{api.url}/v1"}
        async with Bot(with_note(tmp_path), llm, variables=server) as bot:
            vectors = bot.core.vectors
            assert vectors is not None
            await bot.say("what about my tooth?")
            await bot.post("not yet")
            assert "dentist" not in told(llm)

            await vectors.backfill.fill()
            await bot.say("and now?")
            await bot.post("on Tuesday")
            await vectors.close()

    assert "The dentist is on Tuesday." in told(llm)
    assert '"found_by": "meaning"' in told(llm)


async def test_without_the_setting_nothing_is_sent_anywhere(tmp_path: Path) -> None:
    async with fake_llm_api() as api:
        llm = ScriptedLLM([calls(ToolCall("call_1", "memory_search", {"query": "dentist"})), say("on Tuesday")])
        server = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": f"{api.url}/v1"}
        async with Bot(with_note(tmp_path), llm, variables=server) as bot:
            assert bot.core.vectors is None
            await bot.say("when is the dentist?")
            await bot.post("on Tuesday")

    assert "The dentist is on Tuesday." in told(llm)
    assert "found_by" not in told(llm)
    assert api.requests == []
