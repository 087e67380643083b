"""Reading the web asks first, says where to, and stays off this machine."""

from pathlib import Path

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say


def fetch(url: str) -> ToolCall:
    return ToolCall("call_1", "web_fetch", {"url": url})


def told(llm: ScriptedLLM) -> str:
    return next(message.text for message in llm.requests[-1].messages if isinstance(message, ToolResult))


async def test_page_is_asked_for_with_its_address_and_this_machine_is_never_read(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(fetch("https://127.0.0.1:8443/admin")), say("I cannot")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("look at the admin page")
        question = await bot.post("web_fetch")
        assert "https://127.0.0.1:8443/admin" in question.text
        await bot.say("yes")
        await bot.post("I cannot")

    assert "this machine and its network are not read" in told(llm)


async def test_address_with_a_credential_asks_in_spite_of_always(tmp_path: Path) -> None:
    plain, keyed = fetch("https://127.0.0.1/"), fetch("https://127.0.0.1/?api_key=abc")
    llm = ScriptedLLM([calls(plain), say("one"), calls(plain), say("two"), calls(keyed)])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("first")
        await bot.post("web_fetch")
        await bot.say("always")
        await bot.post("one")
        await bot.say("second")
        await bot.post("two")
        await bot.say("third")
        await bot.post("web_fetch", count=2)
