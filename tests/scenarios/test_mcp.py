"""Tools of MCP servers in chats: offered to the right people, asked about first, and signed in to from the chat."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from tests.support.bot import Bot
from tests.support.fake_mcp_http import FakeMcpHttp
from tests.support.mcp_bench import hostile
from tests.support.scripted_llm import ScriptedLLM, calls, say

VARIABLES = {"SECRETS_MASTER_KEY": "a master key of more than 32 characters"}
WRITE = {"name": "write", "description": "Writes.", "inputSchema": {"type": "object", "properties": {"text": {}}}}
# A name that cannot be looked up, so that nobody is asked about it.
NOWHERE = "https://nowhere.invalid/mcp"
ANSWER = {"content": [{"type": "text", "text": "written"}]}


def configure(home: Path, **servers: object) -> None:
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (home / "mcp.json").chmod(0o600)


async def connected(bot: Bot, server: str = "notes") -> None:
    async with asyncio.timeout(10):
        while not any(each.is_on for each in bot.core.servers.extensions() if each.name == server):
            await asyncio.sleep(0.01)


def offered(llm: ScriptedLLM) -> set[str]:
    return {tool.name for tool in llm.requests[-1].tools}


def results(llm: ScriptedLLM) -> str:
    return "".join(message.text for message in llm.requests[-1].messages if isinstance(message, ToolResult))


def writing(text: str) -> ToolCall:
    return ToolCall(f"call_{text}", "notes__write", {"text": text})


async def test_tool_that_may_write_asks_first_and_always_holds(tmp_path: Path) -> None:
    configure(tmp_path, notes=hostile(tmp_path, [WRITE], ANSWER))
    llm = ScriptedLLM([calls(writing("one")), say("first done"), calls(writing("two")), say("second done")])
    async with Bot(tmp_path, llm) as bot:
        await connected(bot)
        await bot.say("write one")
        question = await bot.post("notes__write")
        assert "one" in question.text
        assert len(llm.requests) == 1
        await bot.say("always")
        await bot.post("first done")
        await bot.say("write two")
        await bot.post("second done")
        await bot.rest()

    assert sum("notes__write" in text for text in bot.texts) == 1
    assert "written" in results(llm)


async def test_operators_server_is_offered_in_the_operators_private_chats_alone(tmp_path: Path) -> None:
    ours = hostile(tmp_path, [WRITE], ANSWER)
    configure(tmp_path, notes=ours, shared={**ours, "for": "everyone"})
    llm = ScriptedLLM([say("one"), say("two"), say("three")])
    async with Bot(tmp_path, llm) as bot:
        await connected(bot)
        await connected(bot, "shared")
        await bot.say("hello")
        await bot.post("one")
        private = offered(llm)
        await bot.say_in_group("hello")
        await bot.post("two")
        group = offered(llm)
        await bot.say("hello", user="7")
        await bot.post("three")
        stranger = offered(llm)

    assert {"notes__write", "shared__write"} <= private
    assert {"notes__write", "shared__write"} & group == {"shared__write"}
    assert {"notes__write", "shared__write"} & stranger == {"shared__write"}
    assert "tool_install" not in stranger


async def test_call_by_name_from_somebody_else_is_refused(tmp_path: Path) -> None:
    configure(tmp_path, notes=hostile(tmp_path, [WRITE], ANSWER))
    llm = ScriptedLLM([calls(writing("one")), say("refused")])
    async with Bot(tmp_path, llm) as bot:
        await connected(bot)
        await bot.say("write one", user="7")
        await bot.post("refused")

    assert "for the operator of this bot alone" in results(llm)


async def test_sign_in_goes_from_the_link_to_the_pasted_address_without_the_model(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        configure(tmp_path, far={"url": fake.url})
        llm = ScriptedLLM([calls(ToolCall("call_1", "tool_auth", {"name": "far"}))])
        async with Bot(tmp_path, llm, variables=VARIABLES | {"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
            await bot.say("connect far")
            post = await bot.post("open this link")
            link = next(line for line in post.text.splitlines() if line.startswith("http"))
            address = fake.open_link(link)
            await bot.say(address)
            await bot.post("I finish the sign-in to far")
            await bot.post("far is connected: 1 tool")
            await bot.rest()

    code = address.partition("code=")[2].partition("&")[0]
    assert code not in repr(llm.requests)
    assert not any(code in text for text in bot.texts)
    assert len(llm.requests) == 1


async def test_tools_found_by_searching_are_described_so_that_they_can_be_called(tmp_path: Path) -> None:
    many = [WRITE | {"name": f"write_{number}", "description": "d" * 300} for number in range(30)]
    configure(tmp_path, notes=hostile(tmp_path, many, ANSWER))
    search = ToolCall("call_1", "tool_search", {"query": "write_7"})
    llm = ScriptedLLM([calls(search), say("found")])
    async with Bot(tmp_path, llm) as bot:
        await connected(bot)
        await bot.say("find it")
        await bot.post("found")

    assert not any(name.startswith("notes__") for name in {tool.name for tool in llm.requests[0].tools})
    assert '"name": "notes__write_7"' in results(llm)
    assert '"parameters"' in results(llm)


async def test_server_is_added_and_removed_from_a_chat_without_a_restart(tmp_path: Path) -> None:
    install = ToolCall("call_1", "tool_install", {"name": "near", "url": NOWHERE})
    remove = ToolCall("call_2", "tool_remove", {"name": "near"})
    llm = ScriptedLLM([calls(install), say("tried"), calls(remove), say("gone")])
    async with Bot(tmp_path, llm, variables=VARIABLES | {"AGENT_AUTO_APPROVE_TOOLS": "true"}) as bot:
        assert not (tmp_path / "mcp.json").exists()
        await bot.say("add it")
        await bot.post("tried")
        assert "Added" in results(llm)
        added = json.loads((tmp_path / "mcp.json").read_text())["mcpServers"]
        said = results(llm)
        await bot.say("remove it")
        await bot.post("tool_remove")  # asks, whatever is approved by itself
        await bot.say("yes")
        await bot.post("gone")

    assert added == {"near": {"url": NOWHERE, "enabled": True, "for": "operator", "installed": True}}
    assert "Added, but not connected" in said
    assert json.loads((tmp_path / "mcp.json").read_text())["mcpServers"] == {}
