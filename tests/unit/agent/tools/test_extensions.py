from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent.credentials.names import CredentialName
from agent.extensions.services import ServiceBook
from agent.extensions.view import Extension, ExtensionKind
from agent.llm.base import ToolDefinition
from agent.mcp.errors import ConfigUnusable
from agent.mcp.outcome import AsksFor, Connected, NotConnected, Outcome
from agent.model.ids import OPERATOR, UserId
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval
from agent.tools.builtin.auth import awaited
from agent.tools.builtin.extensions import (
    InstallArguments,
    ListArguments,
    Overview,
    RemoveArguments,
    SearchArguments,
    ServerArguments,
    ToolActivate,
    ToolInstall,
    ToolList,
    ToolRemove,
    ToolSearch,
)
from agent.tools.registry import PROTECTED, Audience, LocalToolsFor
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope
from channels.message import Address
from tests.support.tool_context import make_context

ANN = make_context(PersonScope("telegram", "5"))
OWNER = make_context(OperatorScope())
GROUP = make_context(GroupScope("telegram", "-9", "1"), is_operator=True)
WIKI = Extension(ExtensionKind.MCP, "wiki", "a server at wiki.example.com", True, "connected", "3 tools")


class Stored:
    def __init__(self, *names: str, is_away: bool = False) -> None:
        self._names = names
        self._is_away = is_away

    async def names(self, user: UserId) -> tuple[str, ...]:
        if self._is_away:
            raise StoreUnavailable("the database is locked")
        return self._names if user == OPERATOR else ()


class Rare:
    def __init__(self, tools: Iterable[ToolDefinition]) -> None:
        self._tools = tuple(tools)
        self.asked: list[Audience] = []

    def rare(self, audience: Audience) -> tuple[ToolDefinition, ...]:
        self.asked.append(audience)
        return self._tools


class Servers:
    """Answers `outcome`, or raises it; remembers what was asked."""

    def __init__(self, outcome: Outcome | ConfigUnusable = Connected("1 tool"), *, has: str = "wiki") -> None:  # noqa: B008 - frozen
        self._outcome = outcome
        self._has = has
        self.asked: list[tuple[str, ...]] = []

    async def activate(self, name: str, address: Address) -> Outcome:
        self.asked.append(("activate", name))
        if isinstance(self._outcome, ConfigUnusable):
            raise self._outcome
        return self._outcome

    async def install(self, name: str, url: str) -> Connected | NotConnected:
        self.asked.append(("install", name, url))
        if isinstance(self._outcome, ConfigUnusable):
            raise self._outcome
        assert not isinstance(self._outcome, AsksFor)
        return self._outcome

    async def remove(self, name: str) -> bool:
        return name == self._has

    def credentials_of(self, name: str) -> tuple[str, ...]:
        return f"mcp/{name}", f"mcp/{name}/tokens"


def overview(tmp_path: Path, *stored: str, is_away: bool = False) -> Overview:
    return Overview(ServiceBook(tmp_path), Stored(*stored, is_away=is_away), (lambda: (WIKI,),))


def definition(name: str, description: str = "", size: int = 0) -> ToolDefinition:
    return ToolDefinition(name, description, {"type": "object", "properties": {"a": {"description": "d" * size}}})


def searching(tmp_path: Path, *tools: ToolDefinition) -> ToolSearch:
    return ToolSearch(Rare(tools), overview(tmp_path, "github"), LocalToolsFor.OPERATOR)


# -- tool_search -----------------------------------------------------------------------------------------------
async def test_search_gives_what_is_needed_to_call_a_tool_best_first(tmp_path: Path) -> None:
    search = searching(
        tmp_path, definition("wiki__read", "Reads a page."), definition("a__b", "About wiki pages"), definition("c__d")
    )

    answer = json.loads((await search.run(SearchArguments(query="Read the wiki"), OWNER)).text)

    assert [tool["name"] for tool in answer["tools"]] == ["wiki__read", "a__b"]
    assert answer["tools"][0]["description"] == "Reads a page."
    assert answer["tools"][0]["parameters"]["type"] == "object"
    assert [each["name"] for each in answer["extensions"]] == ["wiki"]


async def test_search_looks_where_the_person_may_look(tmp_path: Path) -> None:
    rare = Rare(())

    await ToolSearch(rare, overview(tmp_path), LocalToolsFor.OPERATOR).run(SearchArguments(query="x"), GROUP)

    assert rare.asked == [Audience(is_operator=True, is_shared=True, may_use_local=True)]


async def test_discovery_names_services_that_are_not_connected(tmp_path: Path) -> None:
    search = searching(tmp_path)

    found = json.loads((await search.run(SearchArguments(query="notion", discover=True), OWNER)).text)
    hidden = json.loads((await search.run(SearchArguments(query="notion"), OWNER)).text)

    assert [each["name"] for each in found["extensions"]] == ["notion"]
    assert hidden["extensions"] == []
    assert "discover" in hidden["hint"]


async def test_answer_of_a_search_stays_small(tmp_path: Path) -> None:
    search = searching(tmp_path, *(definition(f"wiki__{number}", size=15_000) for number in range(20)))

    text = (await search.run(SearchArguments(query="wiki"), OWNER)).text

    assert 1 <= len(json.loads(text)["tools"]) <= 8
    assert len(text) < 45_000


async def test_search_works_while_the_store_is_away(tmp_path: Path) -> None:
    search = ToolSearch(Rare([definition("a__b")]), overview(tmp_path, is_away=True), LocalToolsFor.OPERATOR)

    assert "a__b" in (await search.run(SearchArguments(query="b"), OWNER)).text


# -- tool_list -------------------------------------------------------------------------------------------------
async def test_list_shows_what_is_connected_and_on_request_the_rest(tmp_path: Path) -> None:
    tool = ToolList(overview(tmp_path, "github", "mcp/wiki"))

    shown = json.loads((await tool.run(ListArguments(), OWNER)).text)
    every = json.loads((await tool.run(ListArguments(kind=ExtensionKind.SERVICE, include_available=True), OWNER)).text)

    assert [(each["kind"], each["name"], each["state"]) for each in shown] == [
        ("mcp", "wiki", "connected"),
        ("service", "github", "connected"),
    ]
    assert len(every) > 10
    assert {each["kind"] for each in every} == {"service"}


async def test_others_and_shared_chats_are_not_told_what_the_operator_connected(tmp_path: Path) -> None:
    tool = ToolList(overview(tmp_path, "github"))

    assert (await tool.run(ListArguments(), ANN)).text == "Nothing is connected."
    assert (await tool.run(ListArguments(), GROUP)).text == "Nothing is connected."


async def test_faulty_services_are_named_to_the_operator(tmp_path: Path) -> None:
    (tmp_path / "services.json").write_text("{")
    tool = ToolList(overview(tmp_path))

    assert "no JSON" in (await tool.run(ListArguments(), OWNER)).text
    assert "no JSON" not in (await tool.run(ListArguments(), ANN)).text


# -- tool_activate, tool_install, tool_remove ------------------------------------------------------------------
async def test_server_that_needs_a_credential_is_asked_for_like_with_tool_auth() -> None:
    asks = AsksFor(CredentialName("mcp/wiki"), "Please send it.")

    output = await ToolActivate(Servers(asks)).run(ServerArguments(name="wiki"), OWNER)

    request = awaited("tool_activate", output)
    assert request is not None
    assert (request.name, request.instructions) == ("mcp/wiki", "Please send it.")


async def test_server_is_not_connected_from_a_shared_chat() -> None:
    servers = Servers()

    assert (await ToolActivate(servers).run(ServerArguments(name="wiki"), GROUP)).is_error
    assert servers.asked == []


@pytest.mark.parametrize(
    ("name", "url", "part"),
    [
        ("Wiki", "https://wiki.example.com/", "a-z"),
        ("github", "https://evil.example.com/", "name of a service"),
        ("wiki", "http://wiki.example.com/", "only https"),
        ("wiki", "https://localhost/", "this machine"),
        ("wiki", "https://user:pw@wiki.example.com/", "not sent"),
        ("wiki", "https://wiki.example.com/?api_key=abc", "holds a credential"),
    ],
)
async def test_what_cannot_be_installed_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, url: str, part: str
) -> None:
    servers = Servers()

    output = await ToolInstall(servers, ServiceBook(tmp_path)).run(InstallArguments(name=name, url=url), OWNER)

    assert output.is_error
    assert part in output.text
    assert servers.asked == []


async def test_installing_says_how_it_went(tmp_path: Path) -> None:
    arguments = InstallArguments(name="wiki", url="https://wiki.example.com/mcp")

    async def said(outcome: Outcome | ConfigUnusable) -> str:
        return (await ToolInstall(Servers(outcome), ServiceBook(tmp_path)).run(arguments, OWNER)).text

    assert await said(Connected("2 tools")) == "Added and connected: 2 tools."
    assert "tool_auth" in await said(NotConnected("it refuses."))
    assert "Nothing was added" in await said(ConfigUnusable("there is a server 'wiki' already."))


async def is_built(name: str) -> bool:
    return name == "add_up"


async def test_removing_says_which_credentials_stay() -> None:
    tool = ToolRemove(Servers(), Stored("mcp/wiki", "github"), is_built)

    assert "Still stored: mcp/wiki; secret_delete" in (await tool.run(RemoveArguments(name="wiki"), OWNER)).text
    assert (await tool.run(RemoveArguments(name="other"), OWNER)).is_error


async def test_a_built_tool_is_removed_with_no_word_of_servers() -> None:
    tool = ToolRemove(Servers(), Stored("mcp/wiki", "github"), is_built)

    assert (await tool.run(RemoveArguments(name="add_up"), OWNER)).text == "Removed, with its earlier version."


def test_tools_that_change_servers_are_the_operators_and_removing_always_asks() -> None:
    specs = {tool.spec.name: tool.spec for tool in (ToolActivate, ToolInstall, ToolRemove, ToolSearch, ToolList)}

    assert specs.keys() <= PROTECTED
    assert {name for name, spec in specs.items() if spec.operator_only} == {
        "tool_activate",
        "tool_install",
        "tool_remove",
    }
    assert {name: spec.approval for name, spec in specs.items()} == {
        "tool_activate": Approval.NEVER,
        "tool_install": Approval.UNLESS_ALWAYS,
        "tool_remove": Approval.ALWAYS,
        "tool_search": Approval.NEVER,
        "tool_list": Approval.NEVER,
    }
