"""The one way a tool is run: look up, validate, screen, limit, run, keep, present. Chat, jobs and routines use it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import structlog
from pydantic import BaseModel, ValidationError

from agent.llm.messages import ToolResult
from agent.model.tool_call import JsonValue, ToolCall, ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Approval, PathScope, ToolContext, ToolSpec
from agent.tools.rates import RateWindows
from agent.tools.registry import AnyTool, LocalToolsFor, ToolRegistry, may_use_local
from agent.tools.schema import coerce, fault_text
from channels.text import whole_text

log = structlog.get_logger(__name__)


class Safety(Protocol):
    """What the executor needs of the safety layer."""

    def check_arguments(self, tool_name: str, arguments: Mapping[str, JsonValue]) -> str | None:
        """Why the arguments must not be used, or None."""
        ...

    def redact_arguments(
        self, sensitive: frozenset[str], arguments: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue]: ...

    def clean_output(self, tool_name: str, text: str) -> str: ...

    def wrap_output(self, tool_name: str, text: str, *, is_error: bool = False) -> str:
        """The element that the model reads; an error says so in its first words."""
        ...


class Archive(Protocol):
    """Where the full text of an output goes that is too long to be shown."""

    async def keep(self, context: ToolContext, name: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that may run. `display` is what may be shown and logged: the arguments with the sensitive ones hidden."""

    call: ToolCall
    tool: AnyTool
    arguments: BaseModel
    approval: Approval
    display: Mapping[str, JsonValue]

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    @property
    def scope(self) -> PathScope | None:
        """What the call touches; None: unknown, so it runs alone."""
        return self.tool.scope(self.arguments)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that cannot run; the model is told why."""

    call: ToolCall
    output: ToolOutput


class ToolExecutor:
    """Runs tools. `output_limit_bytes` is where the safety layer cuts: longer outputs are archived whole before."""

    def __init__(
        self,
        registry: ToolRegistry,
        safety: Safety,
        rates: RateWindows,
        archive: Archive | None,
        local_tools_for: LocalToolsFor,
        output_limit_bytes: int,
    ) -> None:
        self._registry = registry
        self._safety = safety
        self._rates = rates
        self._archive = archive
        self._local_tools_for = local_tools_for
        self._output_limit_bytes = output_limit_bytes

    def prepare(self, call: ToolCall, context: ToolContext) -> Prepared | Refusal:
        """Everything that is decided before a call runs, or before a person is asked about it."""
        tool = self._registry.get(call.name)
        if tool is None:
            similar = self._registry.similar(call.name)
            hint = f" Similar: {', '.join(similar)}." if similar else ""
            return _refused(call, f"there is no tool of this name (not found).{hint}")
        if call.malformed is not None:
            return _refused(
                call, "its arguments were no JSON object, so it was not run. Send one complete JSON object."
            )
        if tool.spec.local and not self._may_use_local(context):
            return _refused(
                call, "it works on the operator's machine and is not available to this person. It was not run."
            )
        if (reason := self._safety.check_arguments(call.name, call.arguments)) is not None:
            return _refused(call, reason)
        schema = self._registry.schema(call.name)
        try:
            arguments = tool.spec.arguments.model_validate(coerce(call.arguments, schema))
        except ValidationError as error:
            return _refused(call, fault_text(error, schema))
        display = self._safety.redact_arguments(tool.spec.sensitive, call.arguments)
        return Prepared(call, tool, arguments, _approval(tool.spec, arguments), display)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        """Run a call whose approval, if it needs one, was given. Faults of the tool come back as error outputs."""
        spec = prepared.spec
        if spec.rate is not None and (wait := self._rates.take(context.user, spec.name, spec.rate)) is not None:
            seconds = math.ceil(wait.total_seconds())
            return ToolOutput(f"called too often; possible again in {seconds} s. It was not run.", is_error=True)
        output = await self._guarded(prepared, context)
        await self._keep(spec.name, output, context)
        return output

    def present(self, call: ToolCall, output: ToolOutput) -> ToolResult:
        """`output` as the model sees it: screened and wrapped, errors too. A tool that said nothing said "OK"."""
        text = output.text or ("no reason was given" if output.is_error else "OK")
        cleaned = self._safety.clean_output(call.name, text)
        wrapped = self._safety.wrap_output(call.name, cleaned, is_error=output.is_error)
        return ToolResult(call.id, call.name, wrapped, output.is_error)

    async def _guarded(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        spec = prepared.spec
        try:
            async with asyncio.timeout(spec.timeout.total_seconds()) as limit:
                output = await prepared.tool.run(prepared.arguments, context)
                return replace(output, text=whole_text(output.text))
        except TimeoutError:
            if not limit.expired():
                return ToolOutput("something it waited for took too long.", is_error=True)
            log.warning("tool_timed_out", tool=spec.name, seconds=spec.timeout.total_seconds())
            return ToolOutput(f"it took longer than {spec.timeout.total_seconds():g} s and was stopped.", is_error=True)
        except Exception as error:  # noqa: BLE001 - the supervised place for tools: a fault must not end the turn
            # Neither text nor trace: both may hold arguments, contents or paths of the machine.
            log.error("tool_failed", tool=spec.name, error=type(error).__name__)
            return ToolOutput(f"an unexpected {type(error).__name__}. Try it another way.", is_error=True)

    async def _keep(self, name: str, output: ToolOutput, context: ToolContext) -> None:
        if self._archive is None or len(output.text) * 4 <= self._output_limit_bytes:
            return  # no character takes more than four bytes
        if len(output.text.encode("utf-8", "replace")) <= self._output_limit_bytes:
            return
        try:
            await self._archive.keep(context, name, output.text)
        except StoreError as error:
            log.error("tool_output_not_archived", tool=name, error=type(error).__name__)

    def _may_use_local(self, context: ToolContext) -> bool:
        return may_use_local(is_operator=context.is_operator, local_tools_for=self._local_tools_for)


def _approval(spec: ToolSpec, arguments: BaseModel) -> Approval:
    return spec.approval if spec.assess is None else spec.assess(arguments)


def _refused(call: ToolCall, reason: str) -> Refusal:
    return Refusal(call, ToolOutput(reason, is_error=True))
