"""What a built tool is made of, and whether it may be made so. Pure."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from agent.dynamic.errors import BuildRefused
from agent.mcp.schema import SchemaUnusable, argument_check, usable_schema
from agent.mcp.words import is_plain
from agent.model.tool_call import JsonValue

NAME = re.compile(r"[a-z][a-z0-9_]{2,40}")
LARGEST_CODE_BYTES = 64 * 1024
LONGEST_DESCRIPTION = 500
LONGEST_EXPECTATION = 2_000
MOST_EXAMPLES = 10

ContainsSecret = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Example:
    """A call that must work before the tool is registered: `expect` stands in its output."""

    arguments: Mapping[str, JsonValue]
    expect: str


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A tool as it was approved. `schema` is what the model sees of its arguments; `writes`: it may change files."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]
    code: str
    examples: tuple[Example, ...]
    writes: bool = False

    @property
    def digest(self) -> str:
        """Differs between two tools that differ in anything that a person approved."""
        examples = [[dict(each.arguments), each.expect] for each in self.examples]
        parts = [self.name, self.description, dict(self.schema), self.code, examples, self.writes]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def draft(
    name: str,
    description: str,
    parameters: Mapping[str, JsonValue],
    code: str,
    examples: tuple[Example, ...],
    *,
    writes: bool,
    contains_secret: ContainsSecret,
) -> Blueprint:
    """A tool that may be tried out. Raises BuildRefused with the first fault."""
    if not is_tool_name(name):
        raise BuildRefused("'name' must be 3 to 41 small letters, digits and single '_', a letter first.")
    if not description.strip() or not is_plain(description, LONGEST_DESCRIPTION):
        raise BuildRefused(
            f"'description' must be 1 to {LONGEST_DESCRIPTION} plain characters, without anything invisible and "
            "without words that pose as instructions."
        )
    try:
        schema = usable_schema(parameters)
    except SchemaUnusable as error:
        raise BuildRefused(f"'parameters' cannot be used: {error}.") from None
    blueprint = Blueprint(name, description, schema, code, examples, writes)
    if (fault := code_fault(code) or _examples_fault(blueprint)) is not None:
        raise BuildRefused(fault)
    if any(map(contains_secret, _texts(blueprint, parameters))):
        raise BuildRefused("it holds what looks like a key, token or password. A built tool must not carry any.")
    return blueprint


def is_tool_name(name: str) -> bool:
    """Whether a built tool may be called so. Two underlines are for the tools of servers."""
    return NAME.fullmatch(name) is not None and "__" not in name


def code_fault(code: str) -> str | None:
    """Why a script cannot be used; None if it can be tried."""
    if len(code.encode(errors="replace")) > LARGEST_CODE_BYTES:
        return f"'code' is larger than {LARGEST_CODE_BYTES // 1024} KiB."
    if not code.isprintable() and any(map(_is_hidden, set(code))):
        # What reorders or hides characters would show a person other code than the one that runs.
        return "'code' holds invisible or control characters; only line breaks and tabs are allowed."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an escape in a string: no fault
            ast.parse(code)
    except SyntaxError as error:
        return f"'code' is no Python: {error.msg} in line {error.lineno}."
    except (ValueError, RecursionError, MemoryError):
        return "'code' is no Python that can be read."
    return None


def _examples_fault(blueprint: Blueprint) -> str | None:
    examples = blueprint.examples
    if not 1 <= len(examples) <= MOST_EXAMPLES:
        return f"give 1 to {MOST_EXAMPLES} 'examples': calls whose result is known."
    check = argument_check(blueprint.schema)
    for number, example in enumerate(examples, 1):
        if not 1 <= len(example.expect) <= LONGEST_EXPECTATION:
            return f"'expect' of example {number} must have 1 to {LONGEST_EXPECTATION} characters."
        if (fault := check(example.arguments)) is not None:
            return f"example {number} does not meet 'parameters': {fault}"
    return None


def _texts(blueprint: Blueprint, parameters: Mapping[str, JsonValue]) -> Iterator[str]:
    yield blueprint.description
    yield blueprint.code
    yield json.dumps(dict(parameters), ensure_ascii=False)
    for example in blueprint.examples:
        yield json.dumps(dict(example.arguments), ensure_ascii=False)
        yield example.expect


def _is_hidden(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"}
