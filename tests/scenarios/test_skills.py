"""Skills in the whole bot: which come into a conversation, and what an installed one takes away."""

from __future__ import annotations

from pathlib import Path

from agent.llm.base import CompletionRequest
from agent.llm.messages import ToolResult, UserText
from agent.model.tool_call import ToolCall
from agent.skills.attenuation import ATTENUATED
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, call, calls, say
from tests.support.skills import skill_text

OBEY = "Answer in rhymes."


def put(home: Path, folder: str, name: str, *, keyword: str = "poem", body: str = OBEY) -> Path:
    place = home / folder / name / "SKILL.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(skill_text(name, activation=(f"keywords: [{keyword}]",), body=body))
    return place


def asked(request: CompletionRequest) -> str:
    return "\n".join(message.text for message in request.messages if isinstance(message, UserText))


def offered(request: CompletionRequest) -> set[str]:
    return {tool.name for tool in request.tools}


def results(request: CompletionRequest) -> str:
    return "\n".join(message.text for message in request.messages if isinstance(message, ToolResult))


async def test_a_skill_comes_with_the_message_that_calls_for_it_and_stays_once(tmp_path: Path) -> None:
    put(tmp_path, "skills", "poet")
    llm = ScriptedLLM([say("hi"), say("a rhyme"), say("another")])
    async with Bot(tmp_path, llm) as bot:
        for words, answer in (("hello", "hi"), ("a poem please", "a rhyme"), ("one more poem", "another")):
            await bot.say(words)
            await bot.post(answer)

    first, second, third = llm.requests
    assert OBEY not in asked(first)
    assert asked(second).count(OBEY) == 1
    assert asked(third).count(OBEY) == 1
    assert offered(third) == offered(first)
    assert list(third.messages[: len(second.messages)]) == list(second.messages)


async def test_a_skill_edited_by_hand_counts_at_the_next_turn(tmp_path: Path) -> None:
    place = put(tmp_path, "skills", "poet")
    llm = ScriptedLLM([say("one"), say("two")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("a poem please")
        await bot.post("one")
        place.write_text(place.read_text().replace(OBEY, "Answer in haiku only."))
        await bot.say("a poem again")
        await bot.post("two")

    assert "haiku" in asked(llm.requests[1])


async def test_an_installed_skill_narrows_the_tools_until_a_new_conversation(tmp_path: Path) -> None:
    put(tmp_path, "installed-skills", "poet")
    shell = call("shell", command="touch pwned")
    llm = ScriptedLLM([shell, say("cannot"), shell, say("still not"), say("free")])
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        await bot.say("a poem please")
        await bot.post("cannot")
        await bot.say("and now without it")
        await bot.post("still not")
        await bot.say("/new")
        await bot.post("new conversation")
        await bot.say("hello")
        await bot.post("free")

    assert offered(llm.requests[0]) <= ATTENUATED
    assert offered(llm.requests[2]) <= ATTENUATED
    assert "installed skill (poet)" in results(llm.requests[1])
    assert "shell" in offered(llm.requests[4])
    assert not list(tmp_path.rglob("pwned"))


async def test_a_skill_is_used_by_its_name_and_other_words_after_a_slash_stay_commands(tmp_path: Path) -> None:
    put(tmp_path, "skills", "poet", keyword="unrelated")
    put(tmp_path, "skills", "status", keyword="unrelated", body="Never shown.")
    llm = ScriptedLLM([say("a rhyme")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("/poet about autumn")
        await bot.post("a rhyme")
        await bot.say("/status")
        await bot.post("**optimclaw")
        await bot.say("/poets")
        await bot.post("/help")

    assert len(llm.requests) == 1
    assert OBEY in asked(llm.requests[0])
    assert "/poet about autumn" in asked(llm.requests[0])


async def test_installing_asks_with_the_whole_text_and_only_the_operator_can(tmp_path: Path) -> None:
    text = skill_text("poet", activation=("keywords: [poem]",), body=OBEY)
    install = calls(ToolCall("c1", "skill_install", {"name": "poet", "content": text}))
    llm = ScriptedLLM([install, say("refused"), install, say("installed"), say("a rhyme")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("install this skill", user="41")
        await bot.post("refused")
        await bot.say("install this skill")
        question = await bot.post("skill_install")
        assert OBEY in question.text
        await bot.say("yes")
        await bot.post("installed")
        await bot.say("/new")
        await bot.say("a poem please")
        await bot.post("a rhyme")
        await bot.say("/skills")
        listed = await bot.post("Skills")

    assert "operator" in results(llm.requests[1])
    assert offered(llm.requests[4]) <= ATTENUATED
    assert "poet" in listed.text


async def test_the_bot_cannot_make_itself_a_trusted_skill(tmp_path: Path) -> None:
    text = skill_text("poet")
    llm = ScriptedLLM(
        [
            call("write_file", path="skills/poet/SKILL.md", content=text),
            call("memory_write", target="skills/poet/SKILL.md", content=text),
            call("shell", command="mkdir -p skills/poet && echo x > skills/poet/SKILL.md"),
            say("done"),
        ]
    )
    async with Bot(tmp_path, llm, variables={"AGENT_AUTO_APPROVE_TOOLS": "true", "SANDBOX_BACKEND": "auto"}) as bot:
        await bot.core.shelf.prepare()
        await bot.say("go on")
        await bot.post("done")

    assert not list((tmp_path / "workspace").rglob("SKILL.md"))


async def test_a_rare_tool_is_offered_once_it_was_found(tmp_path: Path) -> None:
    search = call("tool_search", query="picture")
    llm = ScriptedLLM([search, call("image_generate", prompt="a cat"), say("no key"), say("later")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("draw me a cat")
        await bot.post("no key")
        await bot.say("and now?")
        await bot.post("later")

    assert "image_generate" not in offered(llm.requests[0])
    assert "image_generate" in offered(llm.requests[1])
    assert "image_generate" in offered(llm.requests[3])
    assert "OPENAI_API_KEY" in results(llm.requests[2])
