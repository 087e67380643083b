from __future__ import annotations

from pathlib import Path

import pytest

from agent.dynamic.bench import Bench, Place
from agent.dynamic.errors import BuildRefused, ToolsUnavailable
from agent.dynamic.folder import MOST_TOOLS, State
from agent.dynamic.library import MOST_COMMON, ToolLibrary
from agent.dynamic.tool import Surroundings
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval, Effect
from agent.tools.builtin.echo import Echo
from agent.tools.registry import PROTECTED, ToolRegistry
from agent.tools.sandbox import RefusingSandbox
from tests.support.built_tools import ADD_UP, make_blueprint
from tests.support.fake_clock import FakeClock


class Shelf:
    """A library on a folder, with what it registers and forgets."""

    def __init__(self, root: Path, *, asks_hosts: bool = False) -> None:
        self.registry = ToolRegistry([Echo()])
        self.forgotten: list[str] = []
        self.is_down = False
        around = Surroundings(lambda scope: Place(root / "work"), asks_hosts)
        bench = Bench(RefusingSandbox("there is none here"), "/usr/bin/python3")
        self.library = ToolLibrary(root / "tools", self.registry, bench, around, self._forget, FakeClock())

    async def _forget(self, tool: str) -> None:
        if self.is_down:
            raise StoreUnavailable("down")
        self.forgotten.append(tool)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def test_a_built_tool_is_registered_at_once_and_after_a_restart(shelf: Shelf, tmp_path: Path) -> None:
    await shelf.library.build(make_blueprint())
    after = Shelf(tmp_path)
    await after.library.load()

    for each in (shelf, after):
        assert each.registry.names == ("add_up", "echo")
        assert each.registry.schema("add_up")["required"] == ["numbers"]


async def test_names_of_others_are_refused_and_nothing_is_kept(shelf: Shelf, tmp_path: Path) -> None:
    for name in ("echo", "shell", "build_software", "tool_source"):
        with pytest.raises(BuildRefused, match="belongs to another tool"):
            await shelf.library.build(make_blueprint(name=name))

    assert not (tmp_path / "tools").exists()
    assert {"build_software", "tool_source"} <= PROTECTED


async def test_a_tool_left_under_a_name_that_another_tool_has_now_is_passed_over(tmp_path: Path) -> None:
    await Shelf(tmp_path).library.build(make_blueprint(name="dice"))
    after = Shelf(tmp_path)

    class Dice(Echo):
        spec = Echo.spec.__class__("dice", "A plug-in's.", Echo.spec.arguments, Effect.READ)

    plugged = Dice()
    after.registry.register(plugged)
    await after.library.load()

    assert after.registry.get("dice") is plugged
    assert after.library.all() == ()


async def test_a_tool_that_was_changed_on_disk_stays_away_and_can_be_built_again(shelf: Shelf, tmp_path: Path) -> None:
    await shelf.library.build(make_blueprint())
    (tmp_path / "tools" / "add_up" / "tool-1.py").write_text("print('something else')")
    after = Shelf(tmp_path)
    await after.library.load()
    assert after.registry.get("add_up") is None

    built = await after.library.build(make_blueprint())

    assert built.version == 2
    assert after.registry.get("add_up") is not None


async def test_building_again_replaces_the_tool_and_forgets_what_was_allowed_before(shelf: Shelf) -> None:
    await shelf.library.build(make_blueprint())
    await shelf.library.build(make_blueprint(ADD_UP + "# more\n", writes=True))

    tool = shelf.registry.get("add_up")
    source = await shelf.library.source("add_up")

    assert tool is not None
    assert tool.spec.effect is Effect.WRITE
    assert shelf.forgotten == ["add_up", "add_up"]
    assert source is not None
    assert source.previous is not None
    assert (source.built.version, source.previous.version) == (2, 1)


async def test_a_tool_whose_earlier_consents_cannot_be_taken_back_is_not_replaced(shelf: Shelf) -> None:
    await shelf.library.build(make_blueprint())
    shelf.is_down = True

    with pytest.raises(StoreUnavailable):
        await shelf.library.build(make_blueprint(ADD_UP + "# more\n"))

    assert [each.version for each in shelf.library.all()] == [1]


async def test_the_disk_refusing_leaves_nothing_registered(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "tools").write_text("a file in its place")

    with pytest.raises(ToolsUnavailable, match="Nothing was changed"):
        await shelf.library.build(make_blueprint())
    await Shelf(tmp_path).library.load()

    assert shelf.registry.names == ("echo",)


async def test_a_tool_switched_off_stays_off_after_a_restart_until_it_is_built_again(
    shelf: Shelf, tmp_path: Path
) -> None:
    await shelf.library.build(make_blueprint())
    await shelf.library.switch_off("add_up")
    assert shelf.registry.get("add_up") is None
    after = Shelf(tmp_path)
    await after.library.load()
    assert after.registry.get("add_up") is None
    assert [each.state for each in after.library.all()] == [State.DISABLED]

    await after.library.build(make_blueprint())

    assert after.registry.get("add_up") is not None


async def test_a_removed_tool_is_gone_for_good(shelf: Shelf, tmp_path: Path) -> None:
    await shelf.library.build(make_blueprint())

    assert await shelf.library.remove("add_up")

    after = Shelf(tmp_path)
    await after.library.load()
    assert shelf.registry.names == after.registry.names == ("echo",)
    assert not await shelf.library.remove("add_up")


@pytest.mark.parametrize("name", ["echo", "../tools", "", "a/b", ".", "my-server"])
async def test_removing_touches_nothing_but_built_tools(shelf: Shelf, name: str) -> None:
    await shelf.library.build(make_blueprint())

    assert not await shelf.library.remove(name)
    assert shelf.registry.names == ("add_up", "echo")


async def test_many_tools_are_found_by_search_and_there_is_a_limit(shelf: Shelf) -> None:
    def rare() -> set[bool]:
        found = (shelf.registry.get(each.blueprint.name) for each in shelf.library.all())
        return {tool.spec.rare for tool in found if tool is not None}

    for number in range(MOST_COMMON):
        await shelf.library.build(make_blueprint(name=f"tool_{number}"))
    assert rare() == {False}
    for number in range(MOST_COMMON, MOST_TOOLS):
        await shelf.library.build(make_blueprint(name=f"tool_{number}"))
    assert rare() == {True}

    with pytest.raises(BuildRefused, match="which is the limit"):
        await shelf.library.build(make_blueprint(name="one_more"))
    assert (await shelf.library.build(make_blueprint(name="tool_0"))).version == 2


async def test_a_proposal_for_a_tool_that_changed_meanwhile_is_dropped(shelf: Shelf) -> None:
    old = await shelf.library.build(make_blueprint())
    new = await shelf.library.build(make_blueprint(ADD_UP + "# more\n"))

    assert not await shelf.library.propose(old, ADD_UP)
    assert await shelf.library.propose(new, ADD_UP)
    source = await shelf.library.source("add_up")
    assert source is not None
    assert source.proposal == ADD_UP


@pytest.mark.parametrize(
    ("writes", "asks_hosts", "effect"),
    [
        (False, False, Effect.READ),
        (True, False, Effect.WRITE),
        (False, True, Effect.OUTSIDE),
        (True, True, Effect.OUTSIDE),
    ],
)
async def test_effect_is_what_the_sandbox_enforces_and_every_tool_asks(
    tmp_path: Path, writes: bool, asks_hosts: bool, effect: Effect
) -> None:
    shelf = Shelf(tmp_path, asks_hosts=asks_hosts)
    await shelf.library.build(make_blueprint(writes=writes))

    tool = shelf.registry.get("add_up")

    assert tool is not None
    assert tool.spec.effect is effect
    assert tool.spec.approval is Approval.UNLESS_ALWAYS
    assert tool.spec.local
