"""The program's side of one container: what it may ask, how much of it, and how it ends. What comes from it is data.

Whatever goes wrong settles the outcome once; who waits for it then ends the container.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar, assert_never

import structlog
from pydantic import ValidationError

from agent.errors import AgentError
from agent.jobs.container import wording
from agent.jobs.container.limits import MAX_ITERATIONS, MAX_OUTPUT_TOKENS, PREVIEW, TOOLS, WALL_TIME
from agent.jobs.container.ports import Life, Pulse
from agent.jobs.container.protocol import (
    Brief,
    Event,
    ModelAnswer,
    ModelAsk,
    Prompts,
    Result,
    Status,
    answer_of,
    from_wire,
)
from agent.llm.base import CompletionRequest, LLMProvider, ToolDefinition
from agent.llm.errors import LLMError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.repair import repair_history
from agent.loop.agentic_loop import (
    Continue,
    Failed,
    Finish,
    Inject,
    LoopOutcome,
    Proceed,
    Responded,
    Stop,
    Stopped,
)
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall
from agent.store.errors import StoreError

log = structlog.get_logger(__name__)

T = TypeVar("T")
_LOOK_EVERY = 1.0  # what it says moves its time on and back


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a container may take and how much it may say. `start`: until it asks for its job."""

    start: timedelta = timedelta(seconds=60)
    silence: timedelta = timedelta(seconds=120)
    wall: timedelta = WALL_TIME
    iterations: int = MAX_ITERATIONS
    burst: int = 300
    burst_window: timedelta = timedelta(seconds=10)
    events_each_step: int = 60


class Denied(Exception):
    """A request that is not served; `status` is HTTP's, the text is for the log of the container."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Screen(Protocol):
    """Masks secrets."""

    def hide_secrets(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Account:
    """Which model is asked for a job, and for what its calls are counted."""

    model: str | None
    name: str
    unattended: bool


@dataclass
class Assignment:
    """One container's work, from its token to its end."""

    brief: Brief
    folder: str
    context: ReasoningContext
    life: Life
    llm: LLMProvider
    account: Account
    screen: Screen
    say: Callable[[str], Awaitable[None]]
    pulse: Pulse
    time_of: Callable[[str], timedelta]
    bounds: Bounds = field(default_factory=Bounds)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    steps: int = 0
    events: int = 0
    model_calls: int = 0
    has_begun: bool = False

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._ended: asyncio.Future[LoopOutcome] = loop.create_future()
        self._lock = asyncio.Lock()
        self._is_asking = False
        self._recent: deque[float] = deque()
        self._held: ToolCall | None = None
        self._over_at = loop.time() + self.bounds.wall.total_seconds()
        self._quiet_until = loop.time() + self.bounds.start.total_seconds()

    # -- the end ---------------------------------------------------------------------------------------------------
    async def outcome(self, exited: Awaitable[int]) -> LoopOutcome:
        """How it ended: by its own word, by its process, or by its time. Raises what a model or the store raised."""
        process = asyncio.ensure_future(exited)
        try:
            while True:
                wait = min(max(0.0, min(self._over_at, self._quiet_until) - self._loop.time()), _LOOK_EVERY)
                await asyncio.wait(_any(self._ended, process), timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if self._ended.done():
                    return self._ended.result()
                if process.done():
                    return Failed(wording.DIED.format(status=process.result()))
                if (late := self._lateness()) is not None:
                    return Failed(late)
        finally:
            process.cancel()
            self._end(Stopped())
            self._ended.exception()  # seen, also where nobody waits for it any more

    def matches(self, token: str) -> bool:
        """Whether a token is this one's, in a time that does not tell where they differ."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    def _lateness(self) -> str | None:
        now, bounds = self._loop.time(), self.bounds
        if now >= self._over_at:
            return wording.OUT_OF_TIME.format(seconds=f"{bounds.wall.total_seconds():g}")
        if now < self._quiet_until:
            return None
        if not self.has_begun:
            return wording.NEVER_BEGAN.format(seconds=f"{bounds.start.total_seconds():g}")
        return wording.SILENT.format(seconds=f"{bounds.silence.total_seconds():g}")

    def _end(self, outcome: LoopOutcome) -> None:
        if not self._ended.done():
            self._ended.set_result(outcome)

    def _break(self, error: LLMError | AgentError | StoreError) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _heard(self, grace: timedelta = timedelta(0)) -> None:
        """It lives; `grace` is what it may take until it says the next thing."""
        self._quiet_until = self._loop.time() + (self.bounds.silence + grace).total_seconds()

    # -- what it may ask -------------------------------------------------------------------------------------------
    async def begin(self, folder: str) -> Brief:
        """Its task, once. `folder` is what it found mounted: another one than was checked ends it before it acts."""
        self._open()
        if self.has_begun:
            raise Denied(409, "the job was given out already")
        self.has_begun = True
        self._heard()
        if folder != self.folder:
            log.warning("container_folder_replaced")
            self._end(Failed(wording.WRONG_FOLDER))
            raise Denied(410, "the folder is not the one that was meant")
        return self.brief

    async def prompts(self) -> Prompts:
        """What its person says, or that it is to stop. Asked before each step, so it counts the steps."""
        self._begun()
        self._heard()
        async with self._lock:
            self.steps += 1
            if self.steps > self.bounds.iterations + 1:
                self._end(Failed(wording.OUT_OF_STEPS.format(count=self.bounds.iterations)))
                return Prompts(stop=True)
            match await self._guarded(self.life.check_signals()):
                case Stop():
                    self._end(Stopped())
                    return Prompts(stop=True)
                case Inject(text=text):
                    self.context = self.context.with_messages(UserText(text))
                    return Prompts(texts=(text,))
                case Proceed():
                    return Prompts()
                case unreachable:
                    assert_never(unreachable)

    async def ask_model(self, ask: ModelAsk) -> ModelAnswer:
        """A model call with the key, the price and the bounds of the program; one at a time."""
        self._begun()
        if unknown := {tool.name for tool in ask.tools} - set(self.brief.tools):
            raise Denied(400, f"{len(unknown)} tools are not those of this job")
        if self._is_asking:
            raise Denied(429, "a model call is under way")
        self.model_calls += 1
        if self.model_calls > 2 * self.bounds.iterations:
            self._flooded("model calls")
        self._is_asking = True
        self._heard(self.bounds.wall)  # while we ask, it has nothing to say
        try:
            return await self._asked(ask)
        finally:
            self._is_asking = False
            self._heard()

    async def _asked(self, ask: ModelAsk) -> ModelAnswer:
        async with self._lock:
            match await self._guarded(self.life.before_llm_call(self.context, max(1, self.steps))):
                case Finish(outcome=outcome):
                    self._end(outcome)
                    raise Denied(410, "the job is over")
                case Continue():
                    pass
        request = CompletionRequest(
            system=self.brief.system,
            messages=repair_history([from_wire(message) for message in ask.messages]),
            tools=tuple(ToolDefinition(tool.name, tool.description, tool.parameters) for tool in ask.tools),
            max_tokens=min(ask.max_tokens, MAX_OUTPUT_TOKENS),
            temperature=min(ask.temperature, 1.0),
            model=self.account.model,
            account=self.account.name,
            unattended=self.account.unattended,
        )
        if not request.messages:
            raise Denied(400, "there is nothing to ask")
        try:
            return answer_of(await self._guarded(self._unless_over(self.llm.complete(request))))
        except ValidationError:
            self._end(Failed(wording.UNREADABLE_ANSWER))
            raise Denied(503, "the answer cannot be passed on") from None

    async def tell(self, event: Event) -> None:
        """One thing that happened: kept with the job, and what its model says is shown in the chat of origin."""
        self._begun()
        self._count()
        text = await asyncio.to_thread(self.screen.hide_secrets, event.text)
        match event.kind:
            case "message":
                self._heard()
                if text.strip():
                    await self._keep(AssistantTurn(text))
                    await self._guarded(self.say(text))
            case "tool_use":
                self._heard(self.time_of(event.tool) if event.tool in TOOLS else timedelta(0))
                self._held = ToolCall(f"box_{self.events}", event.tool or "tool", {"shown": text[:PREVIEW]})
                if event.tool in TOOLS:
                    await self._guarded(self.pulse((event.tool,)))
            case "tool_result":
                self._heard()
                call = self._held or ToolCall(f"box_{self.events}", event.tool or "tool")
                self._held = None
                result = ToolResult(call.id, call.name, text[:PREVIEW], event.is_error)
                await self._keep(AssistantTurn("", (call,)), result)
            case "status":
                self._heard()
            case unreachable:
                assert_never(unreachable)

    async def report(self, status: Status) -> None:
        """A sign of life."""
        self._begun()
        self._count()
        self._heard()

    async def finish(self, result: Result) -> None:
        """Its end, once; the first one counts."""
        self._begun()
        text = (await asyncio.to_thread(self.screen.hide_secrets, result.text)).strip()
        if not text:
            self._end(Failed(wording.NO_RESULT))
        else:
            self._end(Responded(text) if result.success else Failed(text))

    def refuse_flood(self, what: str) -> None:
        """It sent a body that is larger than any of its requests: it does not do what it is made for. Raises Denied."""
        self._open()
        self._flooded(what)

    # -- within ----------------------------------------------------------------------------------------------------
    def _open(self) -> None:
        if self._ended.done():
            raise Denied(410, "the job is over")

    def _begun(self) -> None:
        self._open()
        if not self.has_begun:
            raise Denied(409, "ask for the job first")

    def _count(self) -> None:
        """Refuse what comes too fast, or is too much in all. The loop's clock is read, not the machine's."""
        now = self._loop.time()
        self.events += 1
        self._recent.append(now)
        while self._recent and now - self._recent[0] > self.bounds.burst_window.total_seconds():
            self._recent.popleft()
        if len(self._recent) > self.bounds.burst:
            self._flooded("events at once")
        if self.events > self.bounds.iterations * self.bounds.events_each_step:
            self._flooded("events in all")

    def _flooded(self, what: str) -> None:
        log.warning("container_flood", what=what, events=self.events)
        self._end(Failed(wording.FLOODED.format(what=what)))
        raise Denied(429, "too much")

    async def _keep(self, *messages: ChatMessage) -> None:
        async with self._lock:
            self._open()
            self.context = self.context.with_messages(*messages)
            await self._guarded(self.life.after_iteration(self.context, self.steps))

    async def _unless_over(self, work: Coroutine[None, None, T]) -> T:
        """The result of `work`, which is cut off when the job ends: nobody would read what is being paid for."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait(_any(self._ended, task), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Denied(410, "the job is over")
            return task.result()
        finally:
            task.cancel()

    async def _guarded(self, work: Awaitable[T]) -> T:
        """The result of `work`. A fault of a model or the store ends the job with that fault."""
        try:
            return await work
        except (LLMError, AgentError, StoreError) as error:
            self._break(error)
            raise Denied(503, "the program could not do this") from error


def _any(*futures: asyncio.Future[Any]) -> tuple[asyncio.Future[Any], ...]:
    """Futures of different results, to be waited for together."""
    return futures
