"""Argument schemas of other people's tools: what of them is shown to the model, and how arguments are held against it.

Only keywords are kept that a value meets more easily when others are left out. So everything that can take long
(patterns, references in circles, conditions) is dropped without making a right call wrong: the server has the last
word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from agent.mcp.words import clean_text, is_plain
from agent.model.tool_call import JsonValue

DEEPEST_SCHEMA = 16
DEEPEST_ARGUMENTS = 8
MOST_NODES = 1_000
LARGEST_SCHEMA = 16_384
LARGEST_ARGUMENTS = 100_000
LONGEST_NOTE = 300
MOST_COMPARISONS = 200_000
"""Parts of a schema times values of the arguments. Beyond it nothing is compared here: it would take seconds."""
_LONGEST_NAME = 128
_MOST_CHOICES = 256

_KINDS = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_SCALARS = (str, int, float, bool, type(None))

Check = Callable[[Mapping[str, JsonValue]], str | None]


class SchemaUnusable(Exception):
    """A schema that costs its tool. The text says why."""


def usable_schema(raw: object) -> dict[str, JsonValue]:
    """The part of a tool's schema that is shown and held against arguments. Raises SchemaUnusable."""
    if not isinstance(raw, Mapping):
        raise SchemaUnusable("its schema is no object")
    reader = _Reader(raw)
    schema = reader.read(raw, (), 0)
    schema["type"] = "object"
    schema.setdefault("properties", {})
    try:
        size = len(json.dumps(schema))
    except (ValueError, RecursionError):
        raise SchemaUnusable("its schema cannot be written") from None
    if size > LARGEST_SCHEMA:
        raise SchemaUnusable(f"its schema is larger than {LARGEST_SCHEMA} bytes")
    return schema


def argument_check(schema: Mapping[str, JsonValue]) -> Check:
    """What says why arguments do not fit a schema that `usable_schema` gave, or None. Compiled at the first call."""
    compiled: list[Any] = []

    def check(arguments: Mapping[str, JsonValue]) -> str | None:
        if _is_deeper(arguments, DEEPEST_ARGUMENTS):
            return f"invalid arguments: they are nested more than {DEEPEST_ARGUMENTS} deep."
        if len(json.dumps(arguments, ensure_ascii=False)) > LARGEST_ARGUMENTS:
            return f"invalid arguments: they are longer than {LARGEST_ARGUMENTS} characters."
        if _size(schema) * _size(arguments) > MOST_COMPARISONS:
            return None
        if not compiled:
            compiled.append(_validator(schema))
        fault = next(compiled[0].iter_errors(arguments), None)
        if fault is None:
            return None
        place = ".".join(map(str, fault.absolute_path))
        wanted = fault.validator_value if isinstance(fault.validator_value, _SCALARS) else "see the schema"
        return f"invalid arguments: {place or 'the whole'!r} does not meet {fault.validator}: {wanted}."

    return check


def _validator(schema: Mapping[str, JsonValue]) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    return Draft202012Validator(schema, registry=Registry())  # one that retrieves nothing


class _Reader:
    """Reads one schema, references put in place. Counts what it reads: references can multiply."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def read(self, node: object, open_references: tuple[str, ...], depth: int) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise SchemaUnusable(f"its schema has more than {MOST_NODES} parts")
        if depth > DEEPEST_SCHEMA:
            raise SchemaUnusable(f"its schema is nested more than {DEEPEST_SCHEMA} deep")
        if not isinstance(node, Mapping):
            return {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self._referred(node, reference, open_references, depth)
        kept = _plain_keywords(node)
        self._add_properties(kept, node, open_references, depth)
        if isinstance(node.get("items"), Mapping):
            kept["items"] = self.read(node["items"], open_references, depth + 1)
        for keyword in ("anyOf", "oneOf", "allOf"):
            options = node.get(keyword)
            if isinstance(options, list) and options:
                # "Exactly one" may become wrong when parts are left out; "one of them" may not.
                name = "anyOf" if keyword == "oneOf" and "anyOf" not in kept else keyword
                if name != "oneOf":
                    kept[name] = [self.read(option, open_references, depth + 1) for option in options]
        return kept

    def _add_properties(
        self, kept: dict[str, Any], node: Mapping[str, Any], open_references: tuple[str, ...], depth: int
    ) -> None:
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            for name in properties:
                if not isinstance(name, str) or not name or not is_plain(name, _LONGEST_NAME):
                    raise SchemaUnusable("an argument has an unusable name")
            kept["properties"] = {
                name: self.read(value, open_references, depth + 1) for name, value in properties.items()
            }
        extra = node.get("additionalProperties")
        if extra is False and not node.get("patternProperties"):
            kept["additionalProperties"] = False
        elif isinstance(extra, Mapping) and not node.get("patternProperties"):
            kept["additionalProperties"] = self.read(extra, open_references, depth + 1)

    def _referred(
        self, node: Mapping[str, Any], reference: str, open_references: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        if reference in open_references:
            return {"type": "object"} if self._is_object(reference) else {}  # a circle is shown once
        target = self._target(reference)
        beside = {name: value for name, value in node.items() if name != "$ref"}
        merged = {**target, **beside} if isinstance(target, Mapping) else beside
        return self.read(merged, (*open_references, reference), depth + 1)

    def _is_object(self, reference: str) -> bool:
        target = self._target(reference)
        return isinstance(target, Mapping) and target.get("type") == "object"

    def _target(self, reference: str) -> object:
        """What a reference into the schema itself names. Others lead elsewhere and are not followed."""
        if not reference.startswith("#"):
            raise SchemaUnusable("its schema refers to another document")
        node: object = self._root
        for part in unquote(reference[1:]).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or name not in node:
                raise SchemaUnusable("its schema refers to something that is not there")
            node = node[name]
        return node


def _plain_keywords(node: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that hold no schema."""
    kept: dict[str, Any] = {}
    kinds = node.get("type")
    if isinstance(kinds, str) and kinds in _KINDS:
        kept["type"] = kinds
    elif isinstance(kinds, list) and kinds and all(isinstance(kind, str) and kind in _KINDS for kind in kinds):
        kept["type"] = sorted(set(kinds))
    if isinstance(description := node.get("description"), str) and (note := clean_text(description, LONGEST_NOTE)):
        kept["description"] = note
    choices = node.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MOST_CHOICES and all(map(_is_choice, choices)):
        kept["enum"] = choices
    for keyword in ("const", "default"):
        if keyword in node and _is_choice(node[keyword]):
            kept[keyword] = node[keyword]
    required = node.get("required")
    if isinstance(required, list) and all(isinstance(name, str) and is_plain(name, _LONGEST_NAME) for name in required):
        kept["required"] = required[:_MOST_CHOICES]
    for keyword in _COUNTS:
        if isinstance(value := node.get(keyword), int) and not isinstance(value, bool) and 0 <= value < 2**31:
            kept[keyword] = value
    for keyword in _BOUNDS:
        if isinstance(value := node.get(keyword), int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            kept[keyword] = value
    return kept


def _is_choice(value: object) -> bool:
    if isinstance(value, str):
        return is_plain(value, LONGEST_NOTE)
    return isinstance(value, _SCALARS) and not (isinstance(value, float) and value != value)


def _is_deeper(value: object, depth: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    if depth == 0:
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return any(_is_deeper(item, depth - 1) for item in inner)


def _size(value: object) -> int:
    if not isinstance(value, Mapping | list | tuple):
        return 1
    return 1 + sum(map(_size, value.values() if isinstance(value, Mapping) else value))
