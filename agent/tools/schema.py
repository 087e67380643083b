"""Between a tool's argument model and the model of the language kind: compact schemas, coercion, readable faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.model.tool_call import JsonValue


class Arguments(BaseModel):
    """Base of argument models: frozen, unknown names refused. Built at first use: most tools are seldom called."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


def json_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    """The schema that goes into each prompt, without what a language model does not need.

    Titles, null defaults, the model's docstring and the "or null" of optional fields are left out, and references are
    put in place. Property order is the field order.
    """
    schema: dict[str, Any] = model.model_json_schema()
    compact = _compact(schema, schema.get("$defs", {}))
    compact.pop("description", None)
    compact.setdefault("properties", {})
    return compact


def coerce(arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """`arguments` with top-level values moved to the types of `schema` where nothing is lost by it.

    Numbers and booleans in strings are left to the argument model, which reads them. A null for an optional argument
    is dropped.
    """
    properties = schema.get("properties")
    required = schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list) else []
    return {
        name: _coerced(value, known.get(name))
        for name, value in arguments.items()
        if value is not None or name in needed or name not in known
    }


def fault_text(error: ValidationError, schema: Mapping[str, JsonValue]) -> str:
    """What is wrong with the arguments, on one line, for the model to correct."""
    faults = [_fault(detail["type"], ".".join(map(str, detail["loc"])), detail["msg"]) for detail in error.errors()]
    properties = schema.get("properties")
    names = ", ".join(properties) if isinstance(properties, Mapping) and properties else "none"
    return f"invalid arguments: {'; '.join(faults[:5])}. Arguments: {names}."


def _compact(node: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        named = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _compact(
            {**{k: v for k, v in named.items() if k != "description"}, **_without(node, "$ref")}, definitions
        )
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return _compact({**options[0], **_without(node, "anyOf")}, definitions)
    kept = _without(node, "title", "$defs", "additionalProperties")
    if kept.get("default", ...) is None:
        del kept["default"]
    if "properties" in kept:
        kept["properties"] = {name: _compact(value, definitions) for name, value in kept["properties"].items()}
    if "anyOf" in kept:
        kept["anyOf"] = [_compact(option, definitions) for option in options]
    if isinstance(kept.get("items"), dict):
        kept["items"] = _compact(kept["items"], definitions)
    return kept


def _without(node: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in names}


def _coerced(value: JsonValue, schema: object) -> JsonValue:
    wanted = schema.get("type") if isinstance(schema, Mapping) else None
    match wanted, value:
        case "string", bool() | dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case "string", int() | float():
            return str(value)
        case "array" | "object", str():
            return _parsed(value, list if wanted == "array" else dict)
        case _:
            return value


def _parsed(value: str, wanted: type) -> JsonValue:
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, wanted) else value


def _fault(kind: str, place: str, message: str) -> str:
    match kind:
        case "missing":
            return f"{place!r} is missing"
        case "extra_forbidden":
            return f"{place!r} is unknown"
        case _:
            return f"{place!r}: {message}" if place else message
