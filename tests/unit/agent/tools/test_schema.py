from __future__ import annotations

import json
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from agent.tools.schema import Arguments, coerce, fault_text, json_schema


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    size: int


class Sample(Arguments):
    """Not for the model."""

    name: str
    count: int = Field(default=3, ge=1, description="how many")
    colour: Colour = Colour.RED
    wanted: bool = False
    note: str | None = None
    tags: list[str] = Field(default_factory=list)
    part: Part | None = None


SCHEMA = json_schema(Sample)


def test_a_schema_holds_what_a_model_needs_and_nothing_more() -> None:
    text = json.dumps(SCHEMA)

    for noise in ("title", "$defs", "$ref", "anyOf", "null", "additionalProperties", "Not for the model"):
        assert noise not in text
    assert SCHEMA["required"] == ["name"]
    assert SCHEMA["type"] == "object"
    assert isinstance(SCHEMA["properties"], dict)
    assert SCHEMA["properties"]["colour"] == {"enum": ["red", "blue"], "type": "string", "default": "red"}
    assert SCHEMA["properties"]["part"]["properties"] == {"size": {"type": "integer"}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": 5, "count": "5"}, {"name": "5", "count": 5}),
        ({"name": "a", "wanted": "true"}, {"name": "a", "wanted": True}),
        ({"name": "a", "tags": '["x"]'}, {"name": "a", "tags": ["x"]}),
        ({"name": "a", "part": '{"size": "2"}'}, {"name": "a", "part": {"size": 2}}),
        ({"name": {"k": 1}}, {"name": '{"k": 1}'}),
        ({"name": True}, {"name": "true"}),
        ({"name": "a", "note": None, "count": None}, {"name": "a"}),
    ],
)
def test_values_are_moved_to_the_types_of_the_schema(given: dict[str, object], expected: dict[str, object]) -> None:
    arguments = Sample.model_validate(coerce(given, SCHEMA))

    assert arguments.model_dump(exclude_unset=True) == expected


def test_a_fault_names_what_is_wrong_and_what_there_is() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"count": 0, "speed": 1})

    text = fault_text(caught.value, SCHEMA)

    assert "'name' is missing" in text
    assert "'speed' is unknown" in text
    assert "'count': Input should be greater than or equal to 1" in text
    assert "Arguments: name, count, colour" in text
    assert "\n" not in text


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.sampled_from([*Sample.model_fields, "other"]), JSON))
def test_coercion_is_total_and_names_nothing_new(arguments: dict[str, object]) -> None:
    assert set(coerce(arguments, SCHEMA)) <= set(arguments)
