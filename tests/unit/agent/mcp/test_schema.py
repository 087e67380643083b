from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.schema import SchemaUnusable, argument_check, usable_schema

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
words = st.sampled_from([
    *("type", "properties", "items", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "enum", "pattern", "required"),
    *("additionalProperties", "patternProperties", "minimum", "maxLength", "object", "string", "array", "#"),
    "#/$defs/a",
])  # fmt: skip
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)


def checked(schema: object, **arguments: object) -> str | None:
    return argument_check(usable_schema(schema))(arguments)


@given(anything, st.dictionaries(words | st.text(max_size=8), anything, max_size=4))
def test_any_schema_is_read_or_refused_and_any_arguments_are_judged(
    schema: object, arguments: dict[str, object]
) -> None:
    try:
        usable = usable_schema(schema)
    except SchemaUnusable:
        return

    verdict = argument_check(usable)(arguments)

    assert verdict is None or verdict.startswith("invalid arguments: ")
    assert usable["type"] == "object"


def test_schema_is_kept_where_it_is_harmless() -> None:
    schema = {
        "type": "object",
        "properties": {
            "word": {"type": "string", "description": "A word.", "enum": ["a", "b"]},
            "count": {"type": "integer", "minimum": 1, "default": 3},
            "list": {"type": "array", "items": {"type": ["string", "null"]}},
        },
        "required": ["word"],
        "additionalProperties": False,
    }

    assert json.loads(json.dumps(usable_schema(schema))) == {
        **schema,
        "properties": {**schema["properties"], "list": {"type": "array", "items": {"type": ["null", "string"]}}},  # type: ignore[dict-item]  # a literal of mixed types
    }
    assert checked(schema, word="a", count=2, list=["x", None]) is None
    assert checked(schema, word="c") == "invalid arguments: 'word' does not meet enum: see the schema."
    assert checked(schema, count=0, word="a") == "invalid arguments: 'count' does not meet minimum: 1."
    assert checked(schema, word="a", more=1) == (
        "invalid arguments: 'the whole' does not meet additionalProperties: False."
    )


def test_references_are_put_in_place_and_circles_end() -> None:
    schema = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/node"}},
                "required": ["name"],
            }
        },
        "properties": {"first": {"$ref": "#/$defs/node"}},
    }

    assert "$ref" not in json.dumps(usable_schema(schema))
    assert checked(schema, first={"name": "a", "next": {"name": "b"}}) is None
    assert checked(schema, first={}) is not None


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "object",
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a\u202eb": {}}},
        {"properties": {"<|system|>": {}}},
        {"properties": {"": {}}},
        {"properties": {"x" * 129: {}}},
        {"properties": {f"a{number}": {"type": "string"} for number in range(1001)}},
        {"properties": {f"a{number}": {"description": "d" * 300} for number in range(60)}},
    ],
)
def test_unusable_schema_is_refused(schema: object) -> None:
    with pytest.raises(SchemaUnusable):
        usable_schema(schema)


def test_conditions_that_cannot_be_kept_never_make_a_right_call_wrong() -> None:
    schema = {
        "properties": {
            "a": {"oneOf": [{"type": "string", "pattern": "^x"}, {"type": "string", "pattern": "^y"}]},
            "b": {"not": {"type": "string", "pattern": "(a+)+$"}},
        },
        "patternProperties": {"^z": {}},
        "additionalProperties": False,
        "if": {"required": ["a"]},
        "then": False,
    }

    assert checked(schema, a="x", b="aaaa!", z1=1) is None


def test_arguments_that_are_too_deep_or_too_long_are_refused() -> None:
    deep: object = 1
    for _ in range(9):
        deep = [deep]

    assert "nested more than 8 deep" in (checked({}, a=deep) or "")
    assert "longer than" in (checked({}, a="x" * 100_001) or "")


def test_comparison_that_would_take_seconds_is_left_to_the_server() -> None:
    options = [{"type": "object", "required": [f"r{number}"]} for number in range(300)]

    assert checked({"properties": {"rows": {"items": {"anyOf": options}}}}, rows=[1] * 10_000) is None
