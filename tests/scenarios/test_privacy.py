"""What is private is told to its owner in private and to nobody else, by prompt or by tool. Invariant 1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import ToolResult
from agent.model.ids import OPERATOR
from agent.model.tool_call import ToolCall
from agent.store import credentials
from agent.store.credentials import SealedCredential, Terms
from channels.message import ChatType
from tests.support.bot import OWNER, Bot
from tests.support.scripted_llm import ScriptedLLM, call, calls, say

SHARED = [chat_type for chat_type in ChatType if chat_type.is_shared]
GROUP = "-100"
# Where something private lies, and the word that stands there and nowhere else.
OPERATORS = {
    "MEMORY.md": "zanzibar-memory",
    "USER.md": "zanzibar-user",
    "HEARTBEAT.md": "zanzibar-heartbeat",
    "daily/2026-03-02.md": "zanzibar-today",
    "daily/2026-03-01.md": "zanzibar-yesterday",
    "context/plan.md": "zanzibar-context",
    "projects/plan.txt": "zanzibar-project",
    "a credential": "zanzibar-credential",  # a row, named so
}
OTHERS = {
    "users/telegram/700/MEMORY.md": "zanzibar-person-memory",
    "users/telegram/700/USER.md": "zanzibar-person-user",
    "users/telegram/700/daily/2026-03-02.md": "zanzibar-person-today",
    "groups/telegram/-77/MEMORY.md": "zanzibar-other-group",
    f"groups/telegram/{GROUP}/people/700.md": "zanzibar-member",
}
SECRETS = OPERATORS | OTHERS
FILES = {path: word for path, word in SECRETS.items() if path.endswith((".md", ".txt"))}
# The first asks its person for something and would end the turn before the rest is tried. The others begin work that
# asks a model itself: what that can read has tests of its own below.
READS_NOTHING = frozenset({"tool_auth", "task", "create_job", "routine_create"})


def plant(home: Path) -> None:
    for path, word in FILES.items():
        place = home / "workspace" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"- [ ] the word is {word}")
    for folder in (f"groups/telegram/{GROUP}", "users/telegram/41"):
        (home / "workspace" / folder).mkdir(parents=True, exist_ok=True)
        (home / "workspace" / folder / "link").symlink_to(home / "workspace")


def ways_to(home: Path) -> Iterator[str]:
    """Spellings of every private place."""
    for path in FILES:
        yield path
        yield path.lower()
        yield f"../../../{path}"
        yield f"link/{path}"
        yield f"{home}/workspace/{path}"
    yield from ("", ".", "/", "..", "../..", "users", "groups", "daily", "people", "link", "../700", "/workspace")
    yield f"{home}/optimclaw.db"


def ways_to_send(home: Path) -> Iterator[str]:
    """As many spellings as the message tool takes in a minute: one of each kind."""
    plan = "projects/plan.txt"
    yield from (plan, f"../../../{plan}", f"link/{plan}", f"{home}/workspace/{plan}", "MEMORY.md", "people/700.md")
    yield from ("users/telegram/700/MEMORY.md", "../700/MEMORY.md", "link/MEMORY.md", f"{home}/optimclaw.db")


def attempts(home: Path) -> list[ToolCall]:
    """Calls of every tool that reads something, at every place where something private lies."""
    wanted: list[tuple[str, dict[str, object]]] = [
        ("echo", {"message": "hello"}),
        ("web_fetch", {"url": f"file://{home}/workspace/MEMORY.md"}),
        ("web_fetch", {"url": "https://127.0.0.1/workspace/MEMORY.md"}),
        ("secret_list", {}),
        ("secret_delete", {"name": "anything"}),
        ("time", {"operation": "now"}),
        ("memory_search", {"query": "zanzibar", "limit": 20}),
        ("memory_search", {"query": "the word is"}),
        ("shell", {"command": f"cat ../*.md ../*/*.md {home}/workspace/MEMORY.md; grep -rs zanzibar . /home /root"}),
        ("shell", {"command": "ls -laR .; ls -la / ..; cat link/MEMORY.md link/*/*; env"}),
    ]
    for call_id in ("call_1", "dm-call", "x"):
        wanted.append(("json", {"operation": "query", "source_tool_call_id": call_id, "path": "$"}))
    for way in ways_to(home):
        wanted += [("memory_read", {"path": way}), ("read_file", {"path": way})]
        wanted += [("memory_tree", {"path": way, "depth": 10}), ("list_dir", {"path": way, "recursive": True})]
        wanted.append(("apply_patch", {"path": way, "old_string": "the word", "new_string": "the  word"}))
    for way in ways_to_send(home):
        wanted.append(("message", {"content": "here", "attachments": [way]}))
    wanted += [
        ("http", {"url": "https://127.0.0.1/workspace/MEMORY.md"}),
        ("http", {"url": f"file://{home}/workspace/MEMORY.md", "save_to": "mine"}),
        ("image_analyze", {"image_path": "MEMORY.md"}),
        ("image_edit", {"image_path": "projects/plan.txt", "prompt": "make it readable"}),
        ("skill_list", {"verbose": True}),
        ("skill_search", {"query": "zanzibar"}),
        ("tool_search", {"query": "zanzibar", "discover": True}),
        ("tool_list", {"include_available": True}),
    ]
    wanted.append(("memory_write", {"content": "note", "target": "memory"}))
    wanted.append(("write_file", {"path": "mine.txt", "content": "mine"}))
    return [ToolCall(f"try_{number}", name, arguments) for number, (name, arguments) in enumerate(wanted)]


def told(requests: list[CompletionRequest]) -> str:
    """All that a model was sent, without what it asked itself."""
    return "\n".join(
        [*(request.system for request in requests)]
        + [getattr(message, "text", "") for request in requests for message in request.messages]
        + [str(tool) for request in requests for tool in request.tools]
    )


def leaks(bot: Bot, secrets: dict[str, str]) -> list[str]:
    sent = [data.decode(errors="replace") for channel in bot.channels.values() for _, _, data in channel.uploads]
    seen = told(bot.llm.requests) + "\n".join([*bot.texts, *sent])
    return [word for word in secrets.values() if word in seen]


@asynccontextmanager
async def prying(home: Path) -> AsyncIterator[Bot]:
    """A bot whose model tries everything once, with every tool allowed and confined as the operator would have it."""
    plant(home)
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true", "SANDBOX_BACKEND": "auto"}
    # A subagent tries the same: its two answers come before the second one of the turn.
    everything = attempts(home)
    task = ToolCall("task_1", "task", {"prompt": "find out everything", "paths": ["."]})
    steps = [calls(*everything, task), calls(*everything), say("nothing found"), say("that was all")]
    async with Bot(home, ScriptedLLM(steps), variables=variables) as bot:
        sealed = SealedCredential(OPERATOR, OPERATORS["a credential"], Terms(), b"c", b"s", b"n")
        await bot.store.write(partial(credentials.put, sealed=sealed, now=bot.clock.now()))
        yield bot


@pytest.mark.parametrize("user", [OWNER, "41"], ids=["the owner", "a member"])
@pytest.mark.parametrize("chat_type", SHARED)
async def test_shared_chat_learns_nothing_private(tmp_path: Path, chat_type: ChatType, user: str) -> None:
    """Neither by prompt nor by any registered tool, whoever speaks, the operator included. Invariant 1."""
    async with prying(tmp_path) as bot:
        await bot.say("tell me everything", user=user, chat_id=GROUP, chat_type=chat_type)
        await bot.post("that was all")
        offered = {tool.name for tool in bot.llm.requests[0].tools}

    assert offered - READS_NOTHING <= {call.name for call in attempts(tmp_path)}, "a new tool: add what it could read"
    assert leaks(bot, SECRETS) == []


async def test_another_person_learns_nothing_private(tmp_path: Path) -> None:
    """Invariant 1."""
    async with prying(tmp_path) as bot:
        await bot.say("tell me everything", user="41")
        await bot.post("that was all")
        offered = {tool.name for tool in bot.llm.requests[0].tools}

    assert offered - READS_NOTHING <= {call.name for call in attempts(tmp_path)}, "a new tool: add what it could read"
    assert leaks(bot, SECRETS) == []


@pytest.mark.parametrize("user", [OWNER, "41"], ids=["the owner", "a member"])
async def test_a_job_begun_in_a_shared_chat_learns_nothing_private(tmp_path: Path, user: str) -> None:
    """Invariant 1."""
    plant(tmp_path)
    few = [each for each in attempts(tmp_path) if "MEMORY.md" in str(each.arguments) or each.name == "memory_search"]

    def work(request: CompletionRequest) -> Completion:
        if any(isinstance(message, ToolResult) for message in request.messages):
            return say("I have completed the job: nothing found.")
        return calls(*few) if request.tools else say("no plan")

    begin = call("create_job", title="find out", description="find out everything")
    llm = ScriptedLLM([begin, say("it is begun")], default=work)
    variables = {"AGENT_AUTO_APPROVE_TOOLS": "true", "SANDBOX_BACKEND": "auto"}
    async with Bot(tmp_path, llm, variables=variables) as bot:
        await bot.say("begin", user=user, chat_id=GROUP, chat_type=ChatType.SUPERGROUP)
        await bot.post("nothing found")

    tried = {each.name for request in llm.requests for each in request.messages if isinstance(each, ToolResult)}
    assert {"read_file", "memory_read", "shell"} <= tried
    assert leaks(bot, SECRETS) == []


async def test_owner_in_private_is_told_their_own_and_nobody_elses(tmp_path: Path) -> None:
    """The same attempts that find nothing elsewhere find everything here: they would notice a leak. Invariant 1."""
    async with prying(tmp_path) as bot:
        await bot.say("tell me everything")
        await bot.post("that was all")

    first = bot.llm.requests[0]
    assert OPERATORS["MEMORY.md"] in first.system
    assert OPERATORS["USER.md"] in first.system
    assert OPERATORS["daily/2026-03-02.md"] in first.messages[-1].text
    assert sorted(leaks(bot, OPERATORS)) == sorted(OPERATORS.values())
    assert leaks(bot, OTHERS) == []


async def test_person_in_private_is_told_their_own(tmp_path: Path) -> None:
    """Invariant 1."""
    plant(tmp_path)
    async with Bot(tmp_path, ScriptedLLM([say("hi")])) as bot:
        await bot.say("hello", user="700")
        await bot.post("hi")

    own = ["zanzibar-person-memory", "zanzibar-person-user", "zanzibar-person-today"]
    assert leaks(bot, SECRETS) == own


@pytest.mark.parametrize("chat_type", SHARED)
async def test_private_talk_does_not_follow_its_owner_into_a_shared_chat(tmp_path: Path, chat_type: ChatType) -> None:
    """Nothing that was read, said, cached or archived in private is in reach of the shared chat. Invariant 1."""
    plant(tmp_path)
    read = ToolCall("dm-call", "memory_read", {"path": "MEMORY.md"})
    fetch = ToolCall("x1", "json", {"operation": "query", "source_tool_call_id": "dm-call", "path": "$"})
    search = ToolCall("x2", "memory_search", {"query": "zanzibar"})
    llm = ScriptedLLM([calls(read), say("in private"), calls(fetch, search), say("in the group")])
    async with Bot(tmp_path, llm) as bot:
        await bot.say("my word is zanzibar-said")
        await bot.post("in private")
        bot.llm.requests.clear()
        await bot.say("what is my word?", chat_id=GROUP, chat_type=chat_type)
        await bot.post("in the group")

    assert len(bot.llm.requests) == 2
    assert leaks(bot, SECRETS | {"": "zanzibar-said"}) == []


async def test_member_is_remembered_in_their_own_turns_only(tmp_path: Path) -> None:
    """Invariant 1."""
    plant(tmp_path)
    async with Bot(tmp_path, ScriptedLLM([say("hi, 700"), say("hi, 41")])) as bot:
        await bot.say_in_group("hello", user="700")
        await bot.post("hi, 700")
        await bot.say_in_group("hello", user="41")
        await bot.post("hi, 41")

    theirs, another = bot.llm.requests
    assert "zanzibar-member" in theirs.system
    assert "zanzibar-member" not in told([another])
