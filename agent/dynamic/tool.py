"""A built tool as one of ours: approved by a person, run in the sandbox on the files of whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

from pydantic import ConfigDict, RootModel

from agent.dynamic.bench import CALL_LIMIT, Answered, Bench, Broke, Declined, Place, Unavailable
from agent.dynamic.blueprint import Blueprint
from agent.mcp.schema import argument_check
from agent.model.tool_call import ToolOutput
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolBroke, ToolContext, ToolSpec
from agent.workspace.scope import Scope

RATE = RateLimit(per_minute=30, per_hour=300)
_MARGIN = timedelta(seconds=15)
"""The executor waits longer than the sandbox, which says better what happened."""


class AnyArguments(RootModel[dict[str, Any]]):
    """Arguments as they came: the tool's schema says what they must be."""

    model_config = ConfigDict(frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What calls meet: the files of each scope, and whether the sandbox lets them ask some hosts."""

    place_of: Callable[[Scope], Place]
    asks_hosts: bool


class DynamicTool:
    """One built tool. `note_fault` is told the kind of each fault of the script."""

    def __init__(
        self,
        blueprint: Blueprint,
        bench: Bench,
        around: Surroundings,
        note_fault: Callable[[str], None],
        *,
        is_rare: bool,
    ) -> None:
        self.spec = spec_of(blueprint, asks_hosts=around.asks_hosts, is_rare=is_rare)
        self._blueprint = blueprint
        self._bench = bench
        self._around = around
        self._note_fault = note_fault

    def scope(self, arguments: AnyArguments) -> PathScope | None:
        return PathScope.nothing() if self.spec.effect is Effect.READ else None

    async def run(self, arguments: AnyArguments, context: ToolContext) -> ToolOutput:
        blueprint, place = self._blueprint, self._around.place_of(context.scope)
        ran = await self._bench.run(blueprint.code, arguments.root, place, writes=blueprint.writes, limit=CALL_LIMIT)
        match ran:
            case Answered(text=text):
                return ToolOutput(text)
            case Declined(text=text):
                return ToolOutput(text.strip() or "it could not do this and did not say why.", is_error=True)
            case Broke(kind=kind, text=text):
                self._note_fault(kind)
                raise ToolBroke(ToolOutput(f"its script broke: {kind}.\n{text}".rstrip(), is_error=True))
            case Unavailable(reason=reason):
                return ToolOutput(f"the sandbox did not run it: {reason}.", is_error=True)
            case unreachable:
                assert_never(unreachable)


def spec_of(blueprint: Blueprint, *, asks_hosts: bool, is_rare: bool) -> ToolSpec:
    """The rules of a built tool. What it says of itself counts only as far as the sandbox holds it to it."""
    check = argument_check(blueprint.schema)
    effect = Effect.OUTSIDE if asks_hosts else Effect.WRITE if blueprint.writes else Effect.READ
    return ToolSpec(
        blueprint.name,
        f"[built here] {blueprint.description}",
        AnyArguments,
        effect,
        Approval.UNLESS_ALWAYS,
        check=lambda arguments: check(arguments.root),
        timeout=CALL_LIMIT + _MARGIN,
        rate=RATE,
        local=True,
        rare=is_rare,
        schema=blueprint.schema,
    )
