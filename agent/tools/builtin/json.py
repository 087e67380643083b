"""Reading JSON exactly: for results too long for the model to search by eye."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import ClassVar, assert_never

from pydantic import Field
from pydantic import JsonValue as AnyJson

from agent.model.tool_call import JsonValue, ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments

Stash = Callable[[ToolContext, str], Awaitable[str | None]]
"""The full output of an earlier call of the same conversation, by its id; None if there is none."""


class JsonOperation(StrEnum):
    """What `json` does."""

    PARSE = "parse"
    QUERY = "query"
    STRINGIFY = "stringify"
    VALIDATE = "validate"


class JsonArguments(Arguments):
    """Arguments of `json`."""

    operation: JsonOperation
    data: AnyJson = Field(default=None, description="JSON text or value")
    source_tool_call_id: str | None = Field(default=None, description="instead of data: the full result of that call")
    path: str | None = Field(default=None, description="query: such as items[0].name")


class JsonTool:
    """Parses, searches, writes and checks JSON."""

    spec: ClassVar = ToolSpec("json", "Parse, query, write or check JSON.", JsonArguments, Effect.READ)

    def __init__(self, stash: Stash) -> None:
        self._stash = stash

    def scope(self, arguments: JsonArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: JsonArguments, context: ToolContext) -> ToolOutput:
        data: JsonValue = arguments.data
        if arguments.source_tool_call_id is not None:
            data = await self._stash(context, arguments.source_tool_call_id)
            if data is None:
                return _error(f"there is no result of a call {arguments.source_tool_call_id!r} in this conversation.")
        elif "data" not in arguments.model_fields_set:
            return _error("'data' or 'source_tool_call_id' is missing.")
        try:
            return _answer(arguments.operation, data, arguments.path or "")
        except RecursionError:
            return _error("the data is nested too deeply.")


def query(value: JsonValue, path: str) -> JsonValue:
    """The part of `value` at a path such as `$.items[0].name` or `/items/0/name`. Raises LookupError with a hint."""
    for step in _steps(path):
        match value:
            case list() if re.fullmatch(r"-?[0-9]{1,9}", step):
                if not -len(value) <= int(step) < len(value):
                    raise LookupError(f"index {step} is out of range: the list has {len(value)} items.")
                value = value[int(step)]
            case dict() if step in value:
                value = value[step]
            case dict():
                raise LookupError(f"there is no {step!r}; the keys are: {', '.join(map(str, list(value)[:30]))}.")
            case _:
                raise LookupError(f"{step!r} asks for a part of a {_kind(value)}.")
    return value


def _answer(operation: JsonOperation, data: JsonValue, path: str) -> ToolOutput:
    value, fault = _read(data)
    match operation:
        case JsonOperation.VALIDATE:
            return ToolOutput(_text({"valid": True} if fault is None else {"valid": False, "error": fault}))
        case JsonOperation.STRINGIFY:
            return ToolOutput(_text(data if fault else value))
        case JsonOperation.PARSE:
            return _error(fault) if fault else ToolOutput(_text(value))
        case JsonOperation.QUERY:
            if fault:
                return _error(fault)
            try:
                return ToolOutput(_text(query(value, path)))
            except LookupError as error:
                return _error(str(error.args[0]))
        case unreachable:
            assert_never(unreachable)


def _read(data: JsonValue) -> tuple[JsonValue, str | None]:
    if not isinstance(data, str):
        return data, None
    try:
        value: JsonValue = json.loads(data)
    except ValueError as error:
        return None, f"this is no JSON: {error}."
    return value, None


def _steps(path: str) -> list[str]:
    if path.startswith("/"):  # a JSON pointer, RFC 6901
        return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
    quoted = r"""\[\s*(?:"([^"]*)"|'([^']*)')\s*\]"""
    found = re.findall(rf"{quoted}|\[\s*(-?\d+)\s*\]|([^.\[\]]+)", path.removeprefix("$"))
    return ["".join(groups) for groups in found]


def _kind(value: JsonValue) -> str:
    return {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
