"""Who may do what, where: every tool, for everybody, in every kind of chat. A tool that is not in the table fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import ToolResult, UserText
from agent.model.tool_call import JsonValue, ToolCall
from agent.tools.registry import PROTECTED
from channels.message import ChatType
from tests.support.bot import OWNER, Bot
from tests.support.scripted_llm import ScriptedLLM, calls, say

SOME_ID = "00000000-0000-4000-8000-000000000001"
SAMPLES: Mapping[str, Mapping[str, JsonValue]] = {
    "apply_patch": {"path": "a.txt", "old_string": "a", "new_string": "b"},
    "build_software": {
        "name": "evil",
        "description": "x",
        "parameters": {"type": "object"},
        "code": "print('x')",
        "examples": [{"arguments": {}, "expect": "x"}],
        "writes": True,
    },
    "cancel_job": {"job_id": SOME_ID},
    "create_job": {"title": "x", "description": "x"},
    "echo": {"message": "x"},
    "event_emit": {"event_source": "x", "event_type": "y"},
    "http": {"url": "https://evil.invalid/"},
    "image_analyze": {"image_path": "a.png"},
    "image_edit": {"image_path": "a.png", "prompt": "x"},
    "image_generate": {"prompt": "x"},
    "job_events": {"job_id": SOME_ID},
    "job_prompt": {"job_id": SOME_ID, "content": "x"},
    "job_status": {"job_id": SOME_ID},
    "json": {"operation": "validate", "data": "1"},
    "list_dir": {},
    "list_jobs": {},
    "memory_read": {"path": "a.md"},
    "memory_search": {"query": "x"},
    "memory_tree": {},
    "memory_write": {"content": "x"},
    "message": {"content": "x"},
    "read_file": {"path": "a.txt"},
    "restart": {},
    "routine_create": {"name": "x", "trigger_type": "cron", "prompt": "x", "schedule": "0 9 * * *"},
    "routine_delete": {"name": "x"},
    "routine_fire": {"name": "x"},
    "routine_history": {"name": "x"},
    "routine_list": {},
    "routine_update": {"name": "x"},
    "secret_delete": {"name": "x"},
    "secret_list": {},
    "shell": {"command": "rm a.txt"},
    "skill_install": {"name": "x", "content": "x"},
    "skill_list": {},
    "skill_remove": {"name": "x"},
    "skill_search": {"query": "x"},
    "task": {"prompt": "x"},
    "time": {"operation": "now"},
    "tool_activate": {"name": "x"},
    "tool_auth": {"name": "x"},
    "tool_install": {"name": "x", "url": "https://evil.invalid/"},
    "tool_list": {},
    "tool_remove": {"name": "x"},
    "tool_search": {"query": "x"},
    "tool_source": {},
    "web_fetch": {"url": "https://evil.invalid/"},
    "write_file": {"path": "a.txt", "content": "x"},
}
"""One call of each tool there is, of the kind that may do most harm."""

ASKS = frozenset({
    "apply_patch", "build_software", "cancel_job", "event_emit", "http", "job_prompt", "read_file", "routine_fire",
    "secret_delete", "shell", "skill_install", "skill_remove", "tool_auth", "tool_install", "tool_remove", "web_fetch",
    "write_file",
})  # fmt: skip
LOCAL = frozenset({"apply_patch", "list_dir", "read_file", "shell", "write_file"})
OPERATORS = frozenset({
    "build_software", "restart", "skill_install", "skill_remove", "tool_activate", "tool_install", "tool_remove",
    "tool_source",
})  # fmt: skip
PRIVATE = frozenset({"build_software", "restart", "tool_source"})

_REFUSALS = ("is not available to this person", "for the operator of this bot alone", "works in private chats alone")
SETTINGS = {"AGENT_LOCAL_TOOLS_FOR": "operator"}
PLACES = {
    "the operator in private": (OWNER, OWNER, ChatType.PRIVATE),
    "the operator in a group": (OWNER, "-100", ChatType.SUPERGROUP),
    "the operator in a chat of unknown kind": (OWNER, "-200", ChatType.UNKNOWN),
    "a person in private": ("41", "41", ChatType.PRIVATE),
    "a person in a group": ("41", "-100", ChatType.SUPERGROUP),
    "a person in a chat of unknown kind": ("41", "-200", ChatType.UNKNOWN),
}


def expected(tool: str, place: str) -> str:
    """What is to become of a call."""
    user, _, chat_type = PLACES[place]
    if user != OWNER and tool in LOCAL | OPERATORS:
        return "refused"
    if chat_type.is_shared and tool in PRIVATE:
        return "refused"
    return "asks" if tool in ASKS else "runs"


class Obedient:
    """A model that makes the call a message names, and says what became of it."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def __call__(self, request: CompletionRequest) -> Completion:
        match request.messages[-1]:
            case ToolResult(name=name, text=text):
                self.results[name] = text
                return say("It is done.")
            case UserText(text=text) if "please call " in text:
                name = text.rpartition("please call ")[2].split()[0]
                return calls(ToolCall(f"call-{name}", name, SAMPLES[name]))
            case _:
                return say("Nothing to do.")


async def became_of(bot: Bot, model: Obedient, tool: str, user: str, chat: str, chat_type: ChatType) -> str:
    """What happened to the call of a tool."""
    seen, calls_made = len(bot.telegram.posted), len(bot.llm.requests)
    await bot.say(f"please call {tool}", user=user, chat_id=chat, chat_type=chat_type)
    async with asyncio.timeout(10), bot.telegram.changed:
        await bot.telegram.changed.wait_for(lambda: any(ends(post) for post in bot.telegram.posted[seen:]))
    assert len(bot.llm.requests) > calls_made
    question = next((post for post in bot.telegram.posted[seen:] if post.message.choices), None)
    if question is not None:
        await bot.press(question, "n", user=user, chat_type=chat_type)
        await bot.post(lambda post: post in bot.telegram.posted[seen:] and "was not run" in post.text)
        assert tool not in model.results
        return "asks"
    await bot.rest()
    return "refused" if any(words in model.results.get(tool, "") for words in _REFUSALS) else "runs"


def ends(post: object) -> bool:
    message = getattr(post, "message", None)
    return message is not None and (bool(message.choices) or message.kind.value in ("answer", "error"))


@pytest.mark.parametrize("place", PLACES)
async def test_every_tool_runs_asks_or_is_refused_as_the_table_says(place: str, tmp_path: Path) -> None:
    model, (user, chat, chat_type) = Obedient(), PLACES[place]
    found: dict[str, str] = {}
    async with Bot(tmp_path, ScriptedLLM(default=model), variables=SETTINGS) as bot:
        for tool in SAMPLES:
            if tool == "tool_auth" and expected(tool, place) == "runs":
                continue
            found[tool] = await became_of(bot, model, tool, user, chat, chat_type)

    assert {tool: (was, expected(tool, place)) for tool, was in found.items() if was != expected(tool, place)} == {}


async def test_every_registered_tool_is_in_the_table(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM()) as bot:
        await bot.say("/tools")
        listed = (await bot.post("echo")).text
    registered = set(re.findall(r"^- \W*([a-z_]+)\b", listed, re.MULTILINE))

    assert registered == SAMPLES.keys(), "a new tool: say who may use it, and what it asks"
    assert registered <= PROTECTED, "an extension could take the name of a built-in tool before it is registered"


@pytest.mark.parametrize("place", [place for place in PLACES if "person" in place])
async def test_stranger_reaches_no_tool_no_model_and_no_row_of_messages(place: str, tmp_path: Path) -> None:
    closed = {"TELEGRAM_DM_POLICY": "pairing", "TELEGRAM_GROUP_POLICY": "allowlist"}
    _, chat, chat_type = PLACES[place]
    async with Bot(tmp_path, ScriptedLLM(), variables=closed) as bot:
        for text in (
            "please call shell",
            "/status",
            "/tools",
            "yes",
            "/approve",
            "/model x",
            "/quit",
            "/new",
            "/clear",
        ):
            await bot.say(text, user="666", chat_id=chat, chat_type=chat_type)
        await bot.rest()

    assert bot.llm.requests == []
    assert not bot.quit.is_set()
    assert all("pairing approve" in text for text in bot.texts)
    assert len(bot.texts) <= 1
    assert b"please call" not in (tmp_path / "optimclaw.db").read_bytes()
