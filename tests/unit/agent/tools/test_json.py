from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.tool_call import ToolOutput
from agent.tools.base import ToolContext
from agent.tools.builtin.json import JsonArguments, JsonTool, query
from tests.support.tool_context import make_context

DATA = '{"name": "a", "features": [{"on": true}, "memory"], "a.b": 1}'


async def stash(context: ToolContext, call_id: str) -> str | None:
    return {"call_9": DATA}.get(call_id)


async def ask(**arguments: object) -> ToolOutput:
    return await JsonTool(stash).run(JsonArguments.model_validate(arguments), make_context())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", "a"),
        ("$.features[0].on", True),
        ("features[-1]", "memory"),
        ("features.1", "memory"),
        ("/features/0/on", True),
        ("['a.b']", 1),
        ("", json.loads(DATA)),
        ("$", json.loads(DATA)),
    ],
)
async def test_a_path_finds_its_part(path: str, expected: object) -> None:
    output = await ask(operation="query", data=DATA, path=path)

    assert not output.is_error
    assert json.loads(output.text) == expected


@pytest.mark.parametrize("path", ["nope", "features[7]", "name.x", "features.on"])
async def test_a_path_that_leads_nowhere_says_what_there_is(path: str) -> None:
    output = await ask(operation="query", data=DATA, path=path)

    assert output.is_error
    assert len(output.text) > 15


async def test_the_full_result_of_an_earlier_call_is_a_source() -> None:
    output = await ask(operation="query", source_tool_call_id="call_9", path="name")

    assert output.text == '"a"'
    assert (await ask(operation="parse", source_tool_call_id="call_1")).is_error
    assert (await ask(operation="parse")).is_error


async def test_text_is_checked_and_parsed_and_values_are_written() -> None:
    assert json.loads((await ask(operation="validate", data="{")).text)["valid"] is False
    assert json.loads((await ask(operation="validate", data="[1]")).text) == {"valid": True}
    assert (await ask(operation="parse", data="{")).is_error
    assert json.loads((await ask(operation="stringify", data={"ä": [1]})).text) == {"ä": [1]}


async def test_data_nested_too_deeply_is_an_error() -> None:
    assert (await ask(operation="parse", data="[" * 100_000)).is_error


@given(st.recursive(st.none() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)), st.text())
def test_a_query_of_anything_fails_as_a_failed_look_up_or_not_at_all(value: object, path: str) -> None:
    with suppress(LookupError):
        query(value, path)
