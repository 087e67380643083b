"""A tool that gives back what it is given: for trying out the way of a call."""

from __future__ import annotations

from typing import ClassVar

from agent.model.tool_call import ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments


class EchoArguments(Arguments):
    """Arguments of `echo`."""

    message: str


class Echo:
    """Repeats a text."""

    spec: ClassVar = ToolSpec("echo", "Repeat a text.", EchoArguments, Effect.READ)

    def scope(self, arguments: EchoArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: EchoArguments, context: ToolContext) -> ToolOutput:
        return ToolOutput(arguments.message)
