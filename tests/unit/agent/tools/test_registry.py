from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.safety.layer import SafetyLayer
from agent.store.search import SEARCH_DDL, SearchIndex
from agent.tools.base import Approval, Effect, ToolContext, ToolSpec
from agent.tools.builtin import basic_tools, file_tools
from agent.tools.builtin.echo import Echo
from agent.tools.registry import PROTECTED, Audience, LocalToolsFor, ToolRegistry
from agent.workspace.workspace import FolderWorkspace
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore
from tests.unit.agent.tools.test_execute import Probe

FILE_TOOLS = {"read_file", "write_file", "list_dir", "apply_patch"}


async def no_stash(context: ToolContext, call_id: str) -> str | None:
    return None


@pytest.fixture
def registry(tmp_path: Path) -> ToolRegistry:
    clock = FakeClock()
    workspace = FolderWorkspace(tmp_path, clock)
    search = SearchIndex(MemoryStore(SEARCH_DDL))
    return ToolRegistry(
        (*basic_tools(workspace, search, no_stash, clock, SafetyLayer().contains_secret), *file_tools(tmp_path))
    )


def audience(is_operator: bool, local_tools_for: LocalToolsFor) -> Audience:
    return Audience.of(is_operator=is_operator, is_shared=False, local_tools_for=local_tools_for)


def test_local_tools_are_offered_to_the_operator_alone_unless_everybody_may(registry: ToolRegistry) -> None:
    def offered(is_operator: bool, local_tools_for: LocalToolsFor) -> set[str]:
        return {tool.name for tool in registry.offered_to(audience(is_operator, local_tools_for))}

    assert offered(True, LocalToolsFor.OPERATOR) >= FILE_TOOLS
    assert offered(False, LocalToolsFor.EVERYONE) >= FILE_TOOLS
    assert not offered(False, LocalToolsFor.OPERATOR) & FILE_TOOLS
    assert offered(False, LocalToolsFor.OPERATOR) >= {"echo", "time", "json", "memory_search", "memory_write"}


def test_definitions_are_sorted_and_the_same_objects_each_time(registry: ToolRegistry) -> None:
    first = registry.offered_to(audience(True, LocalToolsFor.OPERATOR))

    assert [tool.name for tool in first] == sorted(tool.name for tool in first)
    assert registry.offered_to(audience(True, LocalToolsFor.EVERYONE)) is first


def test_the_default_tools_cost_less_than_five_kilobytes_of_prompt(registry: ToolRegistry) -> None:
    offered = registry.offered_to(audience(True, LocalToolsFor.OPERATOR))

    assert sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in offered) < 4_500


def test_an_extension_cannot_take_a_built_in_name(registry: ToolRegistry) -> None:
    built_in = registry.get("echo")

    assert not registry.register(Echo())
    assert registry.get("echo") is built_in
    assert not registry.unregister("echo")
    assert not ToolRegistry([]).register(Echo())
    assert "shell" in PROTECTED


def test_an_extension_comes_and_goes(registry: ToolRegistry) -> None:
    def names() -> set[str]:
        offered = registry.offered_to(audience(False, LocalToolsFor.OPERATOR))
        return {tool.name for tool in offered}

    assert registry.register(Probe())
    assert "probe" in names()
    assert registry.unregister("probe")
    assert "probe" not in names()
    assert not registry.unregister("probe")


def test_two_built_in_tools_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="share the name"):
        ToolRegistry([Echo(), Echo()])


def test_approvals_and_effects_are_those_of_the_specification(registry: ToolRegistry) -> None:
    asks = {name for name in registry.names if _spec(registry, name).approval is not Approval.NEVER}
    writes = {name for name in registry.names if _spec(registry, name).effect is not Effect.READ}

    assert asks == {"read_file", "write_file", "apply_patch"}
    assert writes == {"write_file", "apply_patch", "memory_write"}
    assert {name for name in registry.names if _spec(registry, name).local} == FILE_TOOLS
    for name in writes:
        rate = _spec(registry, name).rate
        assert rate is not None
        assert (rate.per_minute, rate.per_hour) == (20, 200)


def _spec(registry: ToolRegistry, name: str) -> ToolSpec:
    tool = registry.get(name)
    assert tool is not None
    return tool.spec
