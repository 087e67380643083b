from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.dynamic.blueprint import Blueprint
from agent.dynamic.errors import BuildRefused, ToolsUnavailable
from agent.dynamic.folder import Built
from agent.dynamic.library import Source
from agent.store.errors import StoreUnavailable
from agent.tools.base import Approval
from agent.tools.builtin.build_software import BuildArguments, BuildSoftware, SourceArguments, ToolSource
from agent.tools.schema import coerce, json_schema
from tests.support.builders import NOON
from tests.support.built_tools import ADD_UP, build_call, make_blueprint
from tests.support.tool_context import make_context


class Library:
    """Keeps one tool, or refuses."""

    def __init__(self, fault: Exception | None = None, *, previous: bool = False, proposal: str | None = None) -> None:
        self._fault = fault
        self._previous = previous
        self._proposal = proposal
        self.built: list[Built] = []

    def refusal(self, name: str) -> str | None:
        return "the name is taken." if name == "taken" else None

    async def build(self, blueprint: Blueprint) -> Built:
        if self._fault is not None:
            raise self._fault
        self.built.append(Built(blueprint, 1, NOON))
        return self.built[-1]

    def all(self) -> Sequence[Built]:
        return self.built

    async def source(self, name: str) -> Source | None:
        if name != "add_up":
            return None
        previous = Built(make_blueprint(ADD_UP + "# old\n"), 1, NOON) if self._previous else None
        return Source(Built(make_blueprint(), 2, NOON), previous, self._proposal)


class Trial:
    """Examples whose outcome a test says."""

    def __init__(self, fault: str | None = None) -> None:
        self._fault = fault

    async def failing_example(self, blueprint: Blueprint) -> str | None:
        return self._fault


def tool(library: Library, fault: str | None = None) -> BuildSoftware:
    return BuildSoftware(
        library, Trial(fault), lambda text: "hunter2" in text, lambda text: text.replace("hunter2", "[REDACTED]")
    )


def arguments(**more: object) -> BuildArguments:
    return BuildArguments.model_validate({**build_call().arguments, **more})


def test_building_asks_every_time_and_is_the_operators_in_private() -> None:
    spec = tool(Library()).spec

    assert spec.approval is Approval.ALWAYS
    assert spec.operator_only
    assert spec.private_only
    assert spec.keeps_arguments


@pytest.mark.parametrize(
    ("more", "said"),
    [({"name": "taken"}, "the name is taken."), ({"code": "("}, "no Python"), ({"code": "x = 'hunter2'"}, "password")],
)
def test_what_would_be_refused_asks_nobody(more: dict[str, object], said: str) -> None:
    check = tool(Library()).spec.check

    assert check is not None
    assert check(arguments()) is None
    fault = check(arguments(**more))
    assert fault is not None
    assert said in fault
    assert fault.endswith("Nothing was registered.")


async def test_failing_example_registers_nothing_and_hides_what_looks_like_a_secret() -> None:
    library = Library()

    output = await tool(library, "example 1: it broke.\nhunter2").run(arguments(), make_context())

    assert output.is_error
    assert output.text == "Nothing was registered. example 1: it broke.\n[REDACTED]"
    assert library.built == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (BuildRefused("the name is taken."), "the name is taken. Nothing was registered."),
        (ToolsUnavailable("No space left on device"), "No space left on device. Nothing was changed."),
        (StoreUnavailable("down"), "the database could not be used. Nothing was registered."),
    ],
)
async def test_what_keeps_a_tool_from_being_kept_is_told(fault: Exception, said: str) -> None:
    output = await tool(Library(fault)).run(arguments(), make_context())

    assert output.is_error
    assert said in output.text


def test_nested_arguments_that_come_as_text_are_read() -> None:
    raw = {
        **build_call().arguments,
        "parameters": '{"type": "object"}',
        "examples": '[{"arguments": {}, "expect": "x"}]',
    }

    read = BuildArguments.model_validate(coerce(raw, json_schema(BuildArguments)))

    assert read.parameters == {"type": "object"}
    assert read.examples[0].expect == "x"


async def test_source_shows_code_previous_version_and_proposal() -> None:
    source = ToolSource(Library(previous=True, proposal="print('cured')\n"))

    now = await source.run(SourceArguments(name="add_up"), make_context())
    before = await source.run(SourceArguments(name="add_up", previous=True), make_context())

    assert ADD_UP in now.text
    assert "To accept it, build the tool with this code:\nprint('cured')" in now.text
    assert "# old" in before.text
    assert "cured" not in before.text


async def test_source_of_what_is_not_there_is_an_error() -> None:
    source = ToolSource(Library())

    assert (await source.run(SourceArguments(name="shell"), make_context())).is_error
    assert (await source.run(SourceArguments(name="add_up", previous=True), make_context())).is_error
    assert (await source.run(SourceArguments(), make_context())).text == "No tool was built here."
