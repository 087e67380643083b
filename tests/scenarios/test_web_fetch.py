"""Reading the web asks before it carries anything out of a conversation, and stays off this machine."""

from pathlib import Path

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall
from agent.net.page import Page
from agent.tools.base import Effect, PathScope, ToolSpec
from agent.tools.builtin.web_fetch import WebFetch
from bot.plugins import Plugins
from tests.support.bot import Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say

PAGE = "https://pages.example/menu"


class Reader:
    """The web tool under another name, with a page that is always there."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._tool = WebFetch(self._get, lambda text: False)
        spec: ToolSpec = WebFetch.spec
        self.spec = ToolSpec(
            "reader",
            spec.description,
            spec.arguments,
            Effect.READ,
            assess=spec.assess,
            told_address=spec.told_address,
            check=spec.check,
        )
        self.run = self._tool.run

    def scope(self, arguments: object) -> PathScope:
        return PathScope.nothing()

    async def _get(self, url: str) -> Page:
        self.asked.append(url)
        return Page(url, 200, "text/html", "utf-8", b'<p>Soup</p> <a href="https://other.example/wine">wine</a>')


def fetch(url: str, name: str = "reader") -> ToolCall:
    return ToolCall("call_1", name, {"url": url})


def told(llm: ScriptedLLM) -> str:
    return next(message.text for message in llm.requests[-1].messages if isinstance(message, ToolResult))


async def test_this_machine_is_never_read_and_nobody_is_asked_about_it(tmp_path: Path) -> None:
    llm = ScriptedLLM([calls(fetch("https://127.0.0.1:8443/admin", "web_fetch")), say("I cannot")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("look at https://127.0.0.1:8443/admin")
        await bot.post("I cannot")

        assert len(bot.texts) == 1
    assert "this machine and its network are not read" in told(llm)


async def test_address_that_the_person_wrote_is_read_without_a_question(tmp_path: Path) -> None:
    reader = Reader()
    llm = ScriptedLLM([calls(fetch(PAGE)), say("there is soup")])
    async with Bot(tmp_path, llm, plugins=Plugins(tools=(reader,))) as bot:
        await bot.say(f"what is on {PAGE}?")
        await bot.post("there is soup")

        assert len(bot.texts) == 1
    assert reader.asked == [PAGE]


async def test_link_of_a_page_that_was_read_can_be_followed(tmp_path: Path) -> None:
    reader = Reader()
    llm = ScriptedLLM([calls(fetch(PAGE)), calls(fetch("https://other.example/wine")), say("red")])
    async with Bot(tmp_path, llm, plugins=Plugins(tools=(reader,))) as bot:
        await bot.say(f"what is on {PAGE}?")
        await bot.post("red")

        assert len(bot.texts) == 1
    assert reader.asked == [PAGE, "https://other.example/wine"]


async def test_address_that_the_model_put_together_asks_first(tmp_path: Path) -> None:
    """A page may talk the model into carrying away what it knows, in an address."""
    reader = Reader()
    llm = ScriptedLLM([calls(fetch(f"{PAGE}?what-the-person-said=my+secret+plan")), say("done")])
    async with Bot(tmp_path, llm, plugins=Plugins(tools=(reader,))) as bot:
        await bot.say(f"my secret plan; and what is on {PAGE}?")
        question = await bot.post("reader")
        assert "my+secret+plan" in question.text
        assert reader.asked == []
        await bot.say("no")
        await bot.rest()

    assert reader.asked == []


async def test_address_with_a_credential_asks_in_spite_of_always(tmp_path: Path) -> None:
    reader = Reader()
    keyed = fetch(f"{PAGE}?api_key=abc")
    llm = ScriptedLLM([calls(fetch(f"{PAGE}/1")), say("one"), calls(fetch(f"{PAGE}/2")), say("two"), calls(keyed)])
    async with Bot(tmp_path, llm, plugins=Plugins(tools=(reader,))) as bot:
        await bot.say("first")
        await bot.post("reader")
        await bot.say("always")
        await bot.post("one")
        await bot.say("second")
        await bot.post("two")
        await bot.say(f"third: {PAGE}?api_key=abc")
        await bot.post("reader", count=2)
