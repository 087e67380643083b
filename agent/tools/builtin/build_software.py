"""Lets the operator's agent write tools of its own: approved by the operator, tried out in the sandbox, and kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Protocol

from pydantic import Field

from agent.dynamic.bench import EXAMPLE_LIMIT
from agent.dynamic.blueprint import MOST_EXAMPLES, Blueprint, ContainsSecret, Example, draft
from agent.dynamic.errors import BuildError, BuildRefused
from agent.dynamic.folder import Built
from agent.dynamic.library import Source
from agent.model.tool_call import JsonValue, ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.schema import Arguments

_NOTHING = "Nothing was registered."


class ExampleArguments(Arguments):
    """A call that must work."""

    arguments: dict[str, Any]
    expect: str = Field(description="text that its output must hold")


class BuildArguments(Arguments):
    """Arguments of `build_software`."""

    name: str = Field(description="of the new tool, or of a built one to replace")
    description: str = Field(description="what it does, for whoever chooses a tool")
    parameters: dict[str, Any] = Field(description="JSON schema of its arguments, of type object")
    code: str = Field(
        description="Python script, standard library only: reads one JSON object of arguments from stdin, prints the "
        "answer; exit code 2 with a reason printed where it cannot do what was asked. It runs in the user's folder"
    )
    examples: list[ExampleArguments] = Field(
        min_length=1, max_length=MOST_EXAMPLES, description="tried before anything is registered, in an empty folder"
    )
    writes: bool = Field(default=False, description="whether it changes files of the folder")


class Library(Protocol):
    """Where built tools are kept."""

    def refusal(self, name: str) -> str | None: ...

    async def build(self, blueprint: Blueprint) -> Built: ...

    def all(self) -> Sequence[Built]: ...

    async def source(self, name: str) -> Source | None: ...


class Trial(Protocol):
    """Runs a tool's examples."""

    async def failing_example(self, blueprint: Blueprint) -> str | None: ...


class BuildSoftware:
    """Tries a tool out and registers it. The question shows all of it, uncut, before anything runs."""

    def __init__(
        self, library: Library, trial: Trial, contains_secret: ContainsSecret, hide_secrets: Callable[[str], str]
    ) -> None:
        self._library = library
        self._trial = trial
        self._contains_secret = contains_secret
        self._hide_secrets = hide_secrets
        self.spec = ToolSpec(
            "build_software",
            "Write a tool in Python, try it in the sandbox and keep it for later use; the same name again replaces it.",
            BuildArguments,
            Effect.OUTSIDE,
            Approval.ALWAYS,
            check=self._fault,
            timeout=EXAMPLE_LIMIT * MOST_EXAMPLES + timedelta(seconds=60),
            rate=RateLimit(per_minute=5, per_hour=30),
            operator_only=True,
            private_only=True,
            rare=True,
            keeps_arguments=True,
        )

    def scope(self, arguments: BuildArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: BuildArguments, context: ToolContext) -> ToolOutput:
        try:
            blueprint = await asyncio.to_thread(self._draft, arguments)
            if (fault := await self._trial.failing_example(blueprint)) is not None:
                return _error(f"{_NOTHING} {self._hide_secrets(fault)}")  # else it is withheld whole
            built = await self._library.build(blueprint)
        except BuildRefused as error:
            return _error(f"{error} {_NOTHING}")
        except BuildError as error:
            return _error(str(error))
        except StoreError:
            return _error(f"the database could not be used. {_NOTHING}")
        return ToolOutput(
            f"Built {blueprint.name}, version {built.version}: all {len(blueprint.examples)} examples passed. It can "
            "be called from now on, at first with consent."
        )

    def _draft(self, arguments: BuildArguments) -> Blueprint:
        return draft(
            arguments.name,
            arguments.description,
            arguments.parameters,
            arguments.code,
            tuple(Example(each.arguments, each.expect) for each in arguments.examples),
            writes=arguments.writes,
            contains_secret=self._contains_secret,
        )

    def _fault(self, arguments: BuildArguments) -> str | None:
        """What need not be asked about, since it would be refused anyway."""
        try:
            blueprint = self._draft(arguments)
        except BuildRefused as error:
            return f"{error} {_NOTHING}"
        reason = self._library.refusal(blueprint.name)
        return None if reason is None else f"{reason} {_NOTHING}"


class SourceArguments(Arguments):
    """Arguments of `tool_source`."""

    name: str | None = Field(default=None, description="without it: which tools were built")
    previous: bool = Field(default=False, description="the version before")


class ToolSource:
    """Shows the parts of a built tool, to be changed or built again."""

    spec: ClassVar = ToolSpec(
        "tool_source",
        "Read a tool that build_software made: its code, examples, and a correction that waits to be accepted.",
        SourceArguments,
        Effect.READ,
        operator_only=True,
        private_only=True,
        rare=True,
    )

    def __init__(self, library: Library) -> None:
        self._library = library

    def scope(self, arguments: SourceArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SourceArguments, context: ToolContext) -> ToolOutput:
        if arguments.name is None:
            return ToolOutput("\n".join(map(_listed, self._library.all())) or "No tool was built here.")
        source = await self._library.source(arguments.name)
        if source is None:
            return _error("no tool of this name was built here.")
        built = source.previous if arguments.previous else source.built
        if built is None:
            return _error("there is no version before the present one.")
        return ToolOutput(_described(built, None if arguments.previous else source.proposal))


def _listed(built: Built) -> str:
    blueprint = built.blueprint
    return f"- {blueprint.name}, version {built.version}, {built.state.value}: {blueprint.description}"


def _described(built: Built, proposal: str | None) -> str:
    blueprint = built.blueprint
    examples: list[JsonValue] = [
        {"arguments": dict(each.arguments), "expect": each.expect} for each in blueprint.examples
    ]
    head: dict[str, JsonValue] = {
        "name": blueprint.name,
        "description": blueprint.description,
        "parameters": dict(blueprint.schema),
        "examples": examples,
        "writes": blueprint.writes,
        "version": built.version,
        "state": built.state.value,
    }
    parts = [json.dumps(head, ensure_ascii=False, indent=1), f"code:\n{blueprint.code}"]
    if proposal is not None:
        parts.append(
            f"A corrected script passes the examples. To accept it, build the tool with this code:\n{proposal}"
        )
    return "\n\n".join(parts)


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
