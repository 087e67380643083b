"""Starts the program anew, for its operator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments


class RestartArguments(Arguments):
    """Arguments of `restart`."""

    delay_secs: int = Field(default=2, ge=1, le=30)


class Restart:
    """Asks the program to end and to begin again. Turns that run are finished or go on afterwards."""

    spec: ClassVar = ToolSpec(
        "restart",
        "Restart this program, to take up changed settings.",
        RestartArguments,
        Effect.OUTSIDE,
        operator_only=True,
        private_only=True,
        rare=True,
    )

    def __init__(self, restart: Callable[[timedelta], None]) -> None:
        self._restart = restart

    def scope(self, arguments: RestartArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: RestartArguments, context: ToolContext) -> ToolOutput:
        self._restart(timedelta(seconds=arguments.delay_secs))
        return ToolOutput(f"The program restarts in {arguments.delay_secs} s. What is committed is kept.")
