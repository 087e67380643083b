"""Runs the hooks of each point in their order. Whatever a hook does, the path that it stands at goes on.

Hooks that may change or refuse something are awaited. Those that only look on, and whatever happens at the ends of a
session, wait in a bounded queue that `run` works off: they delay nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from agent.hooks.base import (
    SOURCE_MARK,
    Change,
    Event,
    FailureMode,
    Go,
    Hook,
    InboundEvent,
    OutboundEvent,
    Passed,
    PassedCall,
    Point,
    Reject,
    ResponseEvent,
    SessionEvent,
    Stopped,
    ToolEvent,
    ToolHooks,
)
from agent.hooks.bounded import Bounded, Broke
from agent.model.ids import UserId
from agent.model.tool_call import JsonValue
from channels.text import whole_text

log = structlog.get_logger(__name__)

MOST_WAITING = 1000
MOST_AT_ONCE = 256

_REPLY_POINTS = (Point.BEFORE_OUTBOUND, Point.TRANSFORM_RESPONSE)
_NO_REASON = "no reason was given."


class HookRunner:
    """The hooks of a bot. Nothing that a hook raises leaves this class; only a cancelled caller is cancelled."""

    def __init__(self) -> None:
        self._hooks: dict[str, Hook] = {}
        self._tool_hooks: dict[str, ToolHooks] = {}
        self._at: dict[Point, tuple[Hook, ...]] = dict.fromkeys(Point, ())
        self._bounded = Bounded()
        self._waiting: asyncio.Queue[_Call] = asyncio.Queue(MOST_WAITING)
        self._dropped = 0
        self._newer: Callable[[], Awaitable[None]] | None = None

    # -- which hooks there are -----------------------------------------------------------------------------------
    def register(self, hook: Hook) -> None:
        """Add a hook. One of the same name is replaced, and the new one stands among its equals where it stood."""
        self._hooks[hook.name] = hook
        self._sort()

    def register_tool_hooks(self, hooks: ToolHooks) -> None:
        """Add hooks around the run of tools, in the order of registration. Those of the same name are replaced."""
        self._tool_hooks[hooks.name] = hooks

    def unregister(self, name: str) -> bool:
        """Remove what has this name; False if nothing has."""
        found = self._hooks.pop(name, None), self._tool_hooks.pop(name, None)
        self._sort()
        return found != (None, None)

    def replace_source(self, source: str, hooks: Iterable[Hook]) -> None:
        """Put these hooks, named `source::name`, in the place of all that came from the source, in one step."""
        new = {hook.name: hook for hook in hooks}
        mark = source + SOURCE_MARK
        kept = {name: hook for name, hook in self._hooks.items() if name in new or not name.startswith(mark)}
        self._hooks = kept | new
        self._sort()

    def follow(self, newer: Callable[[], Awaitable[None]]) -> None:
        """Call this, which never raises, before a person's words pass: it may replace the hooks of a source."""
        self._newer = newer

    async def refresh(self) -> None:
        """Take what the sources of hooks have that is new."""
        if self._newer is not None:
            await self._newer()

    @property
    def names(self) -> tuple[str, ...]:
        """The names in use, in alphabetical order."""
        return tuple(sorted({*self._hooks, *self._tool_hooks}))

    @property
    def may_change_messages(self) -> bool:
        """Whether a person's words can change, or be refused, before the agent has them."""
        return any(not hook.observes for hook in self._at[Point.BEFORE_INBOUND])

    @property
    def may_change_replies(self) -> bool:
        """Whether an answer can still change, or be refused, after the model has written it."""
        return any(not hook.observes for point in _REPLY_POINTS for hook in self._at[point])

    # -- the path of a message -----------------------------------------------------------------------------------
    async def inbound(self, event: InboundEvent) -> Passed | Stopped:
        """A person's words, before the agent has them."""
        await self.refresh()
        if not self._at[Point.BEFORE_INBOUND]:
            return Passed(event.content)
        return _passed(await self._chain(Point.BEFORE_INBOUND, event.content, partial(_with_content, event)))

    async def response(self, event: ResponseEvent) -> Passed | Stopped:
        """The final text of a turn, before the turn is completed."""
        if not self._at[Point.TRANSFORM_RESPONSE]:
            return Passed(event.content)
        return _passed(await self._chain(Point.TRANSFORM_RESPONSE, event.content, partial(_with_content, event)))

    async def outbound(self, event: OutboundEvent) -> Passed | Stopped:
        """A reply, before it is sent."""
        if not self._at[Point.BEFORE_OUTBOUND]:
            return Passed(event.content)
        return _passed(await self._chain(Point.BEFORE_OUTBOUND, event.content, partial(_with_content, event)))

    # -- the path of a tool call ---------------------------------------------------------------------------------
    async def before_tool(self, event: ToolEvent) -> PassedCall | Stopped:
        """A call before it runs: the hooks that may change it, then the vetoes on what they made of it."""
        vetoing = [hooks for hooks in self._tool_hooks.values() if hooks.veto is not None]
        if not vetoing and not self._at[Point.BEFORE_TOOL_CALL]:
            return PassedCall()
        before = _as_json(event.arguments)
        if before is None:
            return Stopped("its arguments cannot be shown to the hooks that must see them.", by_fault=True)
        after = await self._chain(Point.BEFORE_TOOL_CALL, before, partial(_with_arguments, event))
        if isinstance(after, Stopped):
            return after
        for hooks in vetoing:
            if (stopped := await self._veto(hooks, event.tool, after)) is not None:
                return stopped
        return PassedCall(_object(after) if _differs(before, after) else None)

    async def transform_result(self, tool: str, arguments: Mapping[str, JsonValue], result: str) -> str:
        """The result as the model is to read it. A transformer that fails changes nothing."""
        for hooks in tuple(self._tool_hooks.values()):
            if hooks.transform is None or (shown := _copied(arguments)) is None:
                continue
            match await self._bounded(partial(hooks.transform, tool, shown, result), hooks.timeout):
                case None:
                    pass
                case str() as changed:
                    result = whole_text(changed)
                case Broke(error=error):
                    log.warning("tool_transform_failed", hook=hooks.name, tool=tool, error=error)
                case _:
                    log.warning("tool_transform_failed", hook=hooks.name, tool=tool, error="no text")
        return result

    async def after_tool(self, tool: str, arguments: Mapping[str, JsonValue], result: str, failed: bool) -> None:
        """Tell those who look on what a call gave. Does not wait for them."""
        for hooks in self._tool_hooks.values():
            if hooks.observe is not None and (shown := _copied(arguments)) is not None:
                self._later(hooks.name, partial(hooks.observe, tool, shown, result, failed), hooks.timeout)

    # -- what nobody waits for -----------------------------------------------------------------------------------
    def session_started(self, user: UserId, session: str) -> None:
        """Tell that a session began. Never waits."""
        self._tell(SessionEvent(Point.SESSION_START, user, session))

    def session_ended(self, user: UserId, session: str) -> None:
        """Tell that a session ended. Never waits."""
        self._tell(SessionEvent(Point.SESSION_END, user, session))

    async def run(self) -> None:
        """Call those who look on, until cancelled. What still waits then is not told."""
        slots = asyncio.Semaphore(MOST_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                call = await self._waiting.get()
                await slots.acquire()
                group.create_task(self._make(call, slots), context=call.context)

    # -- how -----------------------------------------------------------------------------------------------------
    async def _chain(self, point: Point, content: str, event_of: Callable[[str], Event | None]) -> str | Stopped:
        """What becomes of a content. `event_of` gives what the hooks see; None: this cannot stand here."""
        for hook in self._at[point]:
            event = event_of(content)
            assert event is not None  # each content was judged before it was taken
            if hook.observes:
                self._later(hook.name, partial(hook.run, event), hook.timeout)
                continue
            match await self._bounded(partial(hook.run, event), hook.timeout):
                case Go():
                    pass
                case Change(content=str() as text):
                    changed = whole_text(text)
                    if event_of(changed) is None:
                        log.warning("hook_change_ignored", hook=hook.name, point=point.value)
                    else:
                        content = changed
                case Reject(reason=reason):
                    log.info("hook_rejected", hook=hook.name, point=point.value)
                    return Stopped(_sentence(reason))
                case Broke(error=error, took_too_long=took_too_long):
                    if (stopped := _failed(hook, point, error, took_too_long)) is not None:
                        return stopped
                case _:  # a hook of somebody who checks no types
                    if (stopped := _failed(hook, point, "no outcome", False)) is not None:
                        return stopped
        return content

    async def _veto(self, hooks: ToolHooks, tool: str, arguments: str) -> Stopped | None:
        assert hooks.veto is not None
        match await self._bounded(partial(hooks.veto, tool, _object(arguments) or {}), hooks.timeout):
            case None:
                return None
            case str() as reason:
                log.info("tool_vetoed", hook=hooks.name, tool=tool)
                return Stopped(_sentence(reason))
            case Broke(error=error, took_too_long=took_too_long):
                log.warning("tool_veto_failed", hook=hooks.name, tool=tool, error=error)
                return Stopped(_fault_text(hooks.name, took_too_long), by_fault=True)
            case _:
                log.warning("tool_veto_failed", hook=hooks.name, tool=tool, error="no reason")
                return Stopped(_fault_text(hooks.name, False), by_fault=True)

    def _tell(self, event: SessionEvent) -> None:
        for hook in self._at[event.point]:
            self._later(hook.name, partial(hook.run, event), hook.timeout)

    def _later(self, name: str, call: Callable[[], Awaitable[object]], timeout: timedelta) -> None:
        try:
            self._waiting.put_nowait(_Call(name, call, timeout, copy_context()))
        except asyncio.QueueFull:
            self._dropped += 1
            log.warning("hook_event_dropped", hook=name, dropped=self._dropped)

    async def _make(self, call: _Call, slots: asyncio.Semaphore) -> None:
        try:
            match await self._bounded(call.make, call.timeout):
                case Broke(error=error):
                    log.warning("hook_failed", hook=call.name, error=error)
        finally:
            slots.release()

    def _sort(self) -> None:
        ordered = sorted(self._hooks.values(), key=lambda hook: hook.priority)
        self._at = {point: tuple(hook for hook in ordered if point in hook.points) for point in Point}


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of somebody who looks on. `context` is that of the turn, so that log lines bear its ids."""

    name: str
    make: Callable[[], Awaitable[object]]
    timeout: timedelta
    context: Context


def _passed(outcome: str | Stopped) -> Passed | Stopped:
    return outcome if isinstance(outcome, Stopped) else Passed(outcome)


def _failed(hook: Hook, point: Point, error: str, took_too_long: bool) -> Stopped | None:
    """What the failure of a hook does to what it looked at."""
    closed = hook.failure_mode is FailureMode.CLOSED
    log.warning("hook_failed", hook=hook.name, point=point.value, error=error, blocked=closed)
    return Stopped(_fault_text(hook.name, took_too_long), by_fault=True) if closed else None


def _fault_text(name: str, took_too_long: bool) -> str:
    return f'the hook "{name}" {"took too long" if took_too_long else "failed"}, so nothing passes it.'


def _sentence(reason: object) -> str:
    return whole_text(reason).strip() or _NO_REASON if isinstance(reason, str) else _NO_REASON


def _with_content(event: InboundEvent | OutboundEvent | ResponseEvent, content: str) -> Event:
    return replace(event, content=content)


def _with_arguments(event: ToolEvent, content: str) -> Event | None:
    """The call with these arguments. They are made anew for each hook: only what it returns counts."""
    arguments = _object(content)
    return None if arguments is None else replace(event, arguments=arguments)


def _object(text: str) -> dict[str, JsonValue] | None:
    """The JSON object in a text; None if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _as_json(arguments: Mapping[str, JsonValue]) -> str | None:
    """Arguments as text; None if that cannot be: nested too deeply, or not what JSON holds."""
    try:
        text = json.dumps(dict(arguments), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return None
    return text if _object(text) is not None else None


def _copied(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    text = _as_json(arguments)
    return None if text is None else _object(text)


def _differs(before: str, after: str) -> bool:
    """Whether two JSON texts say different things; `1`, `1.0` and `true` do."""
    if before == after:
        return False
    one, other = (json.dumps(json.loads(text), sort_keys=True) for text in (before, after))
    return one != other
