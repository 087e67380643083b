"""The one way a tool is run, for chats, subagents, jobs and routines.

look up -> screen -> coerce and validate -> hooks that may refuse -> consent computed from what will run -> (asking is
the caller's) -> rate limit -> run, in its time -> hooks that see the result -> archive -> screen and wrap
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

import structlog
from pydantic import BaseModel, ValidationError

from agent.hooks.base import PassedCall, Stopped, ToolEvent
from agent.llm.messages import ToolResult
from agent.model.tool_call import JsonValue, ToolCall, ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Approval, Effect, PathScope, ToolBroke, ToolContext, ToolSpec
from agent.tools.rates import RateWindows
from agent.tools.registry import AnyTool, Audience, LocalToolsFor, ToolRegistry
from agent.tools.schema import coerce, fault_text
from channels.text import whole_text

log = structlog.get_logger(__name__)


_HOLDS_SECRET = (
    "its arguments hold what looks like a key, token or password. It was not run. Leave that out: credentials are "
    "asked for with tool_auth and kept encrypted."
)


class Safety(Protocol):
    """What the executor needs of the safety layer."""

    def check_arguments(self, tool_name: str, arguments: Mapping[str, JsonValue]) -> str | None:
        """Why the arguments must not be used, or None."""
        ...

    def redact_arguments(
        self, sensitive: frozenset[str], arguments: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue]: ...

    def clean_output(self, tool_name: str, text: str) -> str: ...

    def hide_secrets(self, text: str) -> str:
        """The text with each secret masked. Takes a second for some megabytes."""
        ...

    def wrap_output(self, tool_name: str, text: str, *, is_error: bool = False) -> str:
        """The element that the model reads; an error says so in its first words."""
        ...


class Hooks(Protocol):
    """What may refuse or change a call, and what is told of its result. Nothing of it raises."""

    async def before_tool(self, event: ToolEvent) -> PassedCall | Stopped: ...

    async def transform_result(self, tool: str, arguments: Mapping[str, JsonValue], result: str) -> str: ...

    async def after_tool(self, tool: str, arguments: Mapping[str, JsonValue], result: str, failed: bool) -> None: ...


class NoHooks:
    """Stands in where there are none."""

    async def before_tool(self, event: ToolEvent) -> PassedCall | Stopped:
        return PassedCall()

    async def transform_result(self, tool: str, arguments: Mapping[str, JsonValue], result: str) -> str:
        return result

    async def after_tool(self, tool: str, arguments: Mapping[str, JsonValue], result: str, failed: bool) -> None:
        return None


class Health(Protocol):
    """Told whether a tool is sound: a fault of it is no error that it reports. Nothing of it raises."""

    async def broke(self, tool: str) -> None: ...

    async def worked(self, tool: str) -> None: ...


class Archive(Protocol):
    """Where the full text of an output goes of which the model sees less, or something else."""

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
    def effect(self) -> Effect:
        assess = self.spec.assess_effect
        return self.spec.effect if assess is None else assess(self.arguments)

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
        hooks: Hooks | None = None,
        health: Health | None = None,
    ) -> None:
        self._registry = registry
        self._safety = safety
        self._rates = rates
        self._archive = archive
        self._local_tools_for = local_tools_for
        self._output_limit_bytes = output_limit_bytes
        self._hooks = hooks or NoHooks()
        self._health = health

    async def prepare(self, call: ToolCall, context: ToolContext) -> Prepared | Refusal:
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
        if (reason := self.audience(context).refusal(tool.spec)) is not None:
            return _refused(call, reason)
        prepared = self._validated(call, tool)
        return await self._past_hooks(prepared, context) if isinstance(prepared, Prepared) else prepared

    def _validated(self, call: ToolCall, tool: AnyTool) -> Prepared | Refusal:
        spec = tool.spec
        if (reason := self._safety.check_arguments(call.name, call.arguments)) is not None:
            return _refused(call, reason)
        schema = self._registry.schema(call.name)
        try:
            arguments = spec.arguments.model_validate(coerce(call.arguments, schema))
        except ValidationError as error:
            return _refused(call, fault_text(error, schema))
        if spec.check is not None and (reason := spec.check(arguments)) is not None:
            return _refused(call, reason)
        display = self._safety.redact_arguments(spec.sensitive, call.arguments)
        if spec.keeps_arguments and dict(display) != dict(call.arguments):
            return _refused(call, _HOLDS_SECRET)
        return Prepared(call, tool, arguments, _approval(spec, arguments), display)

    async def _past_hooks(self, prepared: Prepared, context: ToolContext) -> Prepared | Refusal:
        """The call as hooks leave it. What they change is validated anew; masked arguments stay as they were."""
        call, shown = prepared.call, prepared.display
        match await self._hooks.before_tool(ToolEvent(call.name, shown, context.user, context.origin)):
            case PassedCall(changes=changes):
                if changes is None:
                    return prepared
                kept = {
                    name: call.arguments[name] if name in call.arguments and value == shown.get(name) else value
                    for name, value in changes.items()
                }
                return self._validated(replace(call, arguments=kept), prepared.tool)
            case Stopped(reason=reason, by_fault=by_fault):
                kind = "blocked by hook policy" if by_fault else "refused by a hook"
                return _refused(call, f"{kind}: {reason} It was not run.")
            case unreachable:
                assert_never(unreachable)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        """Run a call whose approval, if it needs one, was given. Faults of the tool come back as error outputs."""
        spec = prepared.spec
        if spec.rate is not None and (wait := self._rates.take(context.user, spec.name, spec.rate)) is not None:
            seconds = math.ceil(wait.total_seconds())
            return ToolOutput(f"called too often; possible again in {seconds} s. It was not run.", is_error=True)
        output, is_sound = await self._guarded(prepared, context)
        if self._health is not None:
            await (self._health.worked(spec.name) if is_sound else self._health.broke(spec.name))
        changed = await self._hooks.transform_result(spec.name, prepared.display, output.text)
        is_whole = changed == output.text and not self._is_too_long(output.text)
        if not is_whole and await self._keep(spec.name, output, context):
            output = replace(output, text=changed)  # one that could not be kept is shown as it is
        await self._hooks.after_tool(spec.name, prepared.display, output.text, output.is_error)
        return output

    def present(self, call: ToolCall, output: ToolOutput) -> ToolResult:
        """`output` as the model sees it: screened and wrapped, errors too. A tool that said nothing said "OK"."""
        text = output.text or ("no reason was given" if output.is_error else "OK")
        cleaned = self._safety.clean_output(call.name, text)
        name = call.name if self._registry.get(call.name) else self._safety.hide_secrets(call.name)
        wrapped = self._safety.wrap_output(name, cleaned, is_error=output.is_error)
        return ToolResult(call.id, name, wrapped, output.is_error)

    async def _guarded(self, prepared: Prepared, context: ToolContext) -> tuple[ToolOutput, bool]:
        """What the tool returned, and whether it is sound: it neither hung nor broke."""
        spec = prepared.spec
        try:
            async with asyncio.timeout(spec.timeout.total_seconds()) as limit:
                output = await prepared.tool.run(prepared.arguments, context)
                return replace(output, text=whole_text(output.text)), True
        except TimeoutError:
            if not limit.expired():
                return ToolOutput("something it waited for took too long.", is_error=True), True
            log.warning("tool_timed_out", tool=spec.name, seconds=spec.timeout.total_seconds())
            seconds = f"{spec.timeout.total_seconds():g}"
            return ToolOutput(f"it took longer than {seconds} s and was stopped.", is_error=True), False
        except ToolBroke as broken:
            log.warning("tool_broke", tool=spec.name)
            return replace(broken.output, text=whole_text(broken.output.text)), False
        except Exception as error:  # noqa: BLE001 - the supervised place for tools: a fault must not end the turn
            # Neither text nor trace: both may hold arguments, contents or paths of the machine.
            log.error("tool_failed", tool=spec.name, error=type(error).__name__)
            return ToolOutput(f"an unexpected {type(error).__name__}. Try it another way.", is_error=True), False

    async def _keep(self, name: str, output: ToolOutput, context: ToolContext) -> bool:
        """Put the original away, but for its secrets; False if that failed."""
        if self._archive is None:
            return True
        try:
            await self._archive.keep(context, name, await asyncio.to_thread(self._safety.hide_secrets, output.text))
        except StoreError as error:
            log.error("tool_output_not_archived", tool=name, error=type(error).__name__)
            return False
        return True

    def _is_too_long(self, text: str) -> bool:
        if len(text) * 4 <= self._output_limit_bytes:
            return False  # no character takes more than four bytes
        return len(text.encode("utf-8", "replace")) > self._output_limit_bytes

    def audience(self, context: ToolContext) -> Audience:
        """For whom a call is."""
        return Audience.of(
            is_operator=context.is_operator, is_shared=context.is_shared, local_tools_for=self._local_tools_for
        )


def _approval(spec: ToolSpec, arguments: BaseModel) -> Approval:
    return spec.approval if spec.assess is None else spec.assess(arguments)


def _refused(call: ToolCall, reason: str) -> Refusal:
    return Refusal(call, ToolOutput(reason, is_error=True))
