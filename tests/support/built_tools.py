"""Scripts to build tools from, and short ways to make them."""

from __future__ import annotations

from agent.dynamic.blueprint import Blueprint, Example, draft
from agent.model.tool_call import JsonValue, ToolCall

ADD_UP = """import json
import sys

numbers = json.load(sys.stdin)["numbers"]
if not numbers:
    print("there is nothing to add up")
    sys.exit(2)
print(f"the sum is {sum(numbers)}")
"""
NUMBERS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
    "required": ["numbers"],
}
FREE: dict[str, JsonValue] = {"type": "object", "properties": {}}


def make_blueprint(code: str = ADD_UP, **more: object) -> Blueprint:
    """The tool that adds numbers up, or the same with other parts."""
    parts: dict[str, object] = {
        "name": "add_up",
        "description": "Adds numbers up.",
        "parameters": NUMBERS,
        "examples": (Example({"numbers": [1, 2, 3]}, "the sum is 6"),),
        "writes": False,
        "contains_secret": lambda text: "hunter2" in text,
        **more,
    }
    return draft(code=code, **parts)  # type: ignore[arg-type]  # a dict of parts has no types of its own


def build_call(code: str = ADD_UP, /, **more: JsonValue) -> ToolCall:
    """A model's wish to build it."""
    arguments: dict[str, JsonValue] = {
        "name": "add_up",
        "description": "Adds numbers up.",
        "parameters": NUMBERS,
        "code": code,
        "examples": [{"arguments": {"numbers": [1, 2, 3]}, "expect": "the sum is 6"}],
        **more,
    }
    return ToolCall("build_1", "build_software", arguments)
