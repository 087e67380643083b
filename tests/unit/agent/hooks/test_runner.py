from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from agent.hooks.base import (
    Change,
    Event,
    FailureMode,
    Go,
    Hook,
    InboundEvent,
    OutboundEvent,
    Outcome,
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
from agent.hooks.runner import MOST_WAITING, HookRunner
from agent.model.ids import UserId
from agent.model.tool_call import JsonValue

ANN = UserId("telegram:5")
HELLO = InboundEvent(ANN, "telegram", "hello", "t1")
CALL = ToolEvent("shell", {"command": "ls"}, ANN, "chat")
AT_ONCE = timedelta(milliseconds=1)
LONG = timedelta(seconds=30)


def always(outcome: Outcome) -> Callable[[Event], Awaitable[Outcome]]:
    async def run(event: Event) -> Outcome:
        return outcome

    return run


async def raises(event: Event) -> Outcome:
    raise RuntimeError("a secret of the hook")


async def hangs(event: Event) -> Outcome:
    await asyncio.Event().wait()
    return Go()


async def adds_a_mark(event: Event) -> Outcome:
    assert isinstance(event, InboundEvent)
    return Change(event.content + "!")


def hook(
    name: str,
    run: Callable[[Event], Awaitable[Outcome]],
    *points: Point,
    priority: int = 100,
    mode: FailureMode = FailureMode.OPEN,
    timeout: timedelta = LONG,
    observes: bool = False,
) -> Hook:
    return Hook(name, frozenset(points or {Point.BEFORE_INBOUND}), run, priority, mode, timeout, observes)


def runner_of(*hooks: Hook) -> HookRunner:
    runner = HookRunner()
    for each in hooks:
        runner.register(each)
    return runner


@asynccontextmanager
async def serving(runner: HookRunner) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(runner.run())
        yield
        task.cancel()


# -- the chain ---------------------------------------------------------------------------------------------------
async def test_without_hooks_everything_passes_as_it_is() -> None:
    runner = HookRunner()

    assert await runner.inbound(HELLO) == Passed("hello")
    assert await runner.outbound(OutboundEvent(ANN, "telegram", "hi", "t1")) == Passed("hi")
    assert await runner.response(ResponseEvent(ANN, "t1", "hi")) == Passed("hi")
    assert await runner.before_tool(CALL) == PassedCall()
    assert await runner.transform_result("shell", {}, "out") == "out"


async def test_each_point_runs_its_own_hooks_alone() -> None:
    seen: list[tuple[str, str]] = []

    def noting(name: str) -> Callable[[Event], Awaitable[Outcome]]:
        async def run(event: Event) -> Outcome:
            seen.append((name, type(event).__name__))
            return Go()

        return run

    points = (Point.BEFORE_INBOUND, Point.BEFORE_OUTBOUND, Point.TRANSFORM_RESPONSE, Point.BEFORE_TOOL_CALL)
    runner = runner_of(*(hook(point.value, noting(point.value), point) for point in points))

    await runner.inbound(HELLO)
    await runner.before_tool(CALL)
    await runner.response(ResponseEvent(ANN, "t1", "hi"))
    await runner.outbound(OutboundEvent(ANN, "telegram", "hi", "t1"))

    assert seen == [
        ("beforeInbound", "InboundEvent"),
        ("beforeToolCall", "ToolEvent"),
        ("transformResponse", "ResponseEvent"),
        ("beforeOutbound", "OutboundEvent"),
    ]


async def test_lower_priority_runs_first_and_equal_ones_in_the_order_of_registration() -> None:
    def appending(word: str) -> Callable[[Event], Awaitable[Outcome]]:
        async def run(event: Event) -> Outcome:
            assert isinstance(event, InboundEvent)
            return Change(f"{event.content} {word}")

        return run

    runner = runner_of(
        hook("late", appending("late"), priority=300),
        hook("a", appending("a")),
        hook("b", appending("b")),
        hook("early", appending("early"), priority=25),
    )
    assert await runner.inbound(HELLO) == Passed("hello early a b late")

    runner.register(hook("a", appending("new")))  # the same name: it stands where the old one stood

    assert await runner.inbound(HELLO) == Passed("hello early new b late")
    assert runner.names == ("a", "b", "early", "late")


async def test_unregistered_hook_runs_no_more() -> None:
    runner = runner_of(hook("no", always(Reject("no"))))
    runner.register_tool_hooks(ToolHooks("no", veto=vetoes("no")))

    assert runner.unregister("no")
    assert not runner.unregister("no")

    assert await runner.inbound(HELLO) == Passed("hello")
    assert await runner.before_tool(CALL) == PassedCall()


async def test_hooks_of_a_source_are_replaced_together_and_no_others() -> None:
    runner = runner_of(hook("mine", always(Go())), hook("a.json2::x", always(Go())))
    runner.replace_source("a.json", [hook("a.json::one", always(Go())), hook("a.json::two", always(Reject("two")))])
    assert runner.names == ("a.json2::x", "a.json::one", "a.json::two", "mine")

    runner.replace_source("a.json", [hook("a.json::one", always(Reject("one")))])

    assert sorted(runner.names) == ["a.json2::x", "a.json::one", "mine"]
    assert await runner.inbound(HELLO) == Stopped("one")


async def test_rejection_stops_at_once() -> None:
    runner = runner_of(hook("no", always(Reject("not today"))), hook("after", raises, mode=FailureMode.CLOSED))

    assert await runner.inbound(HELLO) == Stopped("not today")


@pytest.mark.parametrize("run", [raises, hangs], ids=["raises", "takes too long"])
async def test_hook_that_breaks_is_left_out_or_closes_the_door_as_it_says(
    run: Callable[[Event], Awaitable[Outcome]],
) -> None:
    is_open = runner_of(hook("broken", run, timeout=AT_ONCE), hook("mark", adds_a_mark))
    is_closed = runner_of(hook("broken", run, timeout=AT_ONCE, mode=FailureMode.CLOSED), hook("mark", adds_a_mark))

    assert await is_open.inbound(HELLO) == Passed("hello!")
    stopped = await is_closed.inbound(HELLO)
    assert isinstance(stopped, Stopped)
    assert stopped.by_fault
    assert "broken" in stopped.reason
    assert "secret" not in stopped.reason


async def test_outcome_that_is_none_counts_as_a_failure() -> None:
    async def nothing(event: Event) -> None:
        return None

    def not_even_async(event: Event) -> Outcome:
        return Go()

    async def no_text(event: Event) -> Outcome:
        return Change(5)  # type: ignore[arg-type]  # a plug-in whose author checks no types

    for wrong in (nothing, not_even_async, no_text):
        passed = await runner_of(hook("wrong", wrong)).inbound(HELLO)  # type: ignore[arg-type]  # likewise
        stopped = await runner_of(hook("wrong", wrong, mode=FailureMode.CLOSED)).inbound(HELLO)  # type: ignore[arg-type]
        assert passed == Passed("hello")
        assert isinstance(stopped, Stopped)


async def test_log_names_the_hook_and_the_class_of_the_error_and_no_text() -> None:
    with structlog.testing.capture_logs() as logs:
        await runner_of(hook("broken", raises)).inbound(HELLO)

    assert logs == [
        {
            "event": "hook_failed",
            "hook": "broken",
            "point": "beforeInbound",
            "error": "RuntimeError",
            "blocked": False,
            "log_level": "warning",
        }
    ]


# -- cancellation ------------------------------------------------------------------------------------------------
async def test_cancelled_error_of_a_hook_does_not_cancel_the_turn() -> None:
    async def cancels_itself(event: Event) -> Outcome:
        raise asyncio.CancelledError

    async def cancels_its_own_task(event: Event) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return Go()

    runner = runner_of(hook("a", cancels_itself), hook("b", cancels_its_own_task), hook("mark", adds_a_mark))

    assert await runner.inbound(HELLO) == Passed("hello!")


@pytest.mark.parametrize("is_stubborn", [False, True], ids=["", "even if it will not stop"])
async def test_cancelled_turn_is_cancelled_in_the_middle_of_a_hook(is_stubborn: bool) -> None:
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def waits(event: Event) -> Outcome:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_stubborn:
                raise
            await let_go.wait()
        return Go()

    turn = asyncio.ensure_future(runner_of(hook("waits", waits)).inbound(HELLO))
    await entered.wait()
    turn.cancel()

    with pytest.raises(asyncio.CancelledError):
        await turn
    let_go.set()


async def test_hook_whose_time_is_over_is_cancelled() -> None:
    released = asyncio.Event()

    async def holds(event: Event) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            released.set()
        return Go()

    assert await runner_of(hook("holds", holds, timeout=AT_ONCE)).inbound(HELLO) == Passed("hello")
    async with asyncio.timeout(5):
        await released.wait()


async def test_hook_that_ignores_the_end_of_its_time_does_not_hold_the_turn() -> None:
    let_go = asyncio.Event()

    async def stubborn(event: Event) -> Outcome:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return Reject("too late to count")

    assert await runner_of(hook("stubborn", stubborn, timeout=AT_ONCE)).inbound(HELLO) == Passed("hello")
    let_go.set()


# -- tool calls --------------------------------------------------------------------------------------------------
def vetoes(reason: str | None) -> Callable[[str, Mapping[str, JsonValue]], Awaitable[str | None]]:
    async def veto(tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
        return reason

    return veto


async def test_changed_arguments_reach_later_hooks_the_vetoes_and_the_caller() -> None:
    seen: list[Mapping[str, JsonValue]] = []

    async def looks(event: Event) -> Outcome:
        assert isinstance(event, ToolEvent)
        seen.append(event.arguments)
        return Go()

    async def veto(tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
        seen.append(arguments)
        return None

    runner = runner_of(
        hook("change", always(Change('{"command": "ls -l", "n": true}')), Point.BEFORE_TOOL_CALL),
        hook("look", looks, Point.BEFORE_TOOL_CALL),
    )
    runner.register_tool_hooks(ToolHooks("veto", veto=veto))

    assert await runner.before_tool(CALL) == PassedCall({"command": "ls -l", "n": True})
    assert seen == [{"command": "ls -l", "n": True}] * 2


@pytest.mark.parametrize("text", ["", "no json", "[1]", '"text"', "null", '{"a": 1', "[" * 100_000])
async def test_arguments_that_are_no_object_are_ignored_aloud(text: str) -> None:
    with structlog.testing.capture_logs() as logs:
        passed = await runner_of(hook("wrong", always(Change(text)), Point.BEFORE_TOOL_CALL)).before_tool(CALL)

    assert passed == PassedCall()
    assert [(each["event"], each["hook"]) for each in logs] == [("hook_change_ignored", "wrong")]


async def test_arguments_that_mean_the_same_are_no_change_and_true_is_not_one() -> None:
    event = ToolEvent("t", {"a": 1, "b": 2}, ANN, "chat")

    async def before(text: str) -> PassedCall | Stopped:
        return await runner_of(hook("h", always(Change(text)), Point.BEFORE_TOOL_CALL)).before_tool(event)

    assert await before('{ "b":2, "a":1 }') == PassedCall()
    assert await before('{"a": true, "b": 2}') == PassedCall({"a": True, "b": 2})
    assert await before("{}") == PassedCall({})


async def test_hook_that_writes_into_the_arguments_it_was_shown_changes_nothing() -> None:
    given = {"list": [1], "command": "ls"}

    async def writes(event: Event) -> Outcome:
        assert isinstance(event, ToolEvent)
        assert isinstance(event.arguments, dict)
        event.arguments["list"].append(2)
        event.arguments["command"] = "rm"
        return Go()

    runner = runner_of(hook("writes", writes, Point.BEFORE_TOOL_CALL))

    assert await runner.before_tool(ToolEvent("shell", given, ANN, "chat")) == PassedCall()
    assert given == {"list": [1], "command": "ls"}


async def test_arguments_too_deep_to_be_shown_are_stopped_where_somebody_must_see_them() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    event = ToolEvent("t", {"a": deep}, ANN, "chat")
    runner = HookRunner()

    assert await runner.before_tool(event) == PassedCall()
    runner.register(hook("h", always(Go()), Point.BEFORE_TOOL_CALL))
    stopped = await runner.before_tool(event)

    assert isinstance(stopped, Stopped)
    assert stopped.by_fault


async def test_first_veto_stops_a_call_and_one_that_breaks_is_a_veto() -> None:
    async def broken(tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
        raise RuntimeError("a secret of the hook")

    async def stuck(tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
        await asyncio.Event().wait()
        return None

    async def outcome(*hooks: ToolHooks) -> PassedCall | Stopped:
        runner = HookRunner()
        for each in hooks:
            runner.register_tool_hooks(each)
        return await runner.before_tool(CALL)

    assert await outcome(ToolHooks("a", vetoes(None)), ToolHooks("b", vetoes("no"))) == Stopped("no")
    assert await outcome(ToolHooks("a", vetoes("first")), ToolHooks("b", vetoes("second"))) == Stopped("first")
    for breaking in (ToolHooks("x", broken), ToolHooks("x", stuck, timeout=AT_ONCE), ToolHooks("x", always(Go()))):  # type: ignore[arg-type]
        stopped = await outcome(breaking)
        assert isinstance(stopped, Stopped)
        assert stopped.by_fault
        assert "secret" not in stopped.reason


async def test_transformers_chain_and_those_that_break_keep_the_result() -> None:
    def transforms(change: Callable[[str], str | None]) -> ToolHooks:
        async def transform(tool: str, arguments: Mapping[str, JsonValue], result: str) -> str | None:
            return change(result)

        return ToolHooks(str(id(change)), transform=transform)

    def breaks(result: str) -> str:
        raise RuntimeError

    async def stuck(tool: str, arguments: Mapping[str, JsonValue], result: str) -> str | None:
        await asyncio.Event().wait()
        return None

    runner = HookRunner()
    for each in (
        transforms(str.upper),
        transforms(breaks),
        transforms(lambda _: None),
        transforms(lambda _: 5),  # type: ignore[arg-type, return-value]
        ToolHooks("stuck", transform=stuck, timeout=AT_ONCE),
        transforms(lambda text: text + "!"),
    ):
        runner.register_tool_hooks(each)

    assert await runner.transform_result("shell", {"command": "ls"}, "out") == "OUT!"


# -- those who look on -------------------------------------------------------------------------------------------
async def test_observer_is_told_and_changes_and_delays_nothing() -> None:
    told = asyncio.Queue[Event]()

    async def watches(event: Event) -> Outcome:
        told.put_nowait(event)
        return Reject("I may not")

    runner = runner_of(
        hook("mark", adds_a_mark), hook("watch", watches, observes=True), hook("stuck", hangs, observes=True)
    )

    assert await runner.inbound(HELLO) == Passed("hello!")
    async with serving(runner):
        event = await told.get()

    assert isinstance(event, InboundEvent)
    assert event.content == "hello!"


async def test_ends_of_a_session_are_told_to_all_their_hooks_and_nothing_comes_of_it() -> None:
    told = asyncio.Queue[Event]()

    async def watches(event: Event) -> Outcome:
        told.put_nowait(event)
        return Change("nothing to change")

    runner = runner_of(
        hook("start", watches, Point.SESSION_START),
        hook("broken", raises, Point.SESSION_START, priority=1, mode=FailureMode.CLOSED),
        hook("end", watches, Point.SESSION_END),
    )

    runner.session_started(ANN, "s1")
    runner.session_ended(ANN, "s1")
    async with serving(runner):
        events = [await told.get(), await told.get()]

    assert events == [SessionEvent(Point.SESSION_START, ANN, "s1"), SessionEvent(Point.SESSION_END, ANN, "s1")]


async def test_result_of_a_call_is_told_to_those_who_watch_it() -> None:
    told = asyncio.Queue[tuple[object, ...]]()

    async def observe(tool: str, arguments: Mapping[str, JsonValue], result: str, failed: bool) -> None:
        told.put_nowait((tool, arguments, result, failed))

    runner = HookRunner()
    runner.register_tool_hooks(ToolHooks("watch", observe=observe))

    await runner.after_tool("shell", {"command": "ls"}, "out", True)
    async with serving(runner):
        assert await told.get() == ("shell", {"command": "ls"}, "out", True)


async def test_what_is_too_much_to_be_told_is_dropped_aloud() -> None:
    runner = runner_of(hook("slow", hangs, Point.SESSION_START))

    with structlog.testing.capture_logs() as logs:
        for _ in range(MOST_WAITING + 2):
            runner.session_started(ANN, "s1")

    assert [each["event"] for each in logs] == ["hook_event_dropped"] * 2
    assert logs[-1]["dropped"] == 2


async def test_log_lines_of_an_observer_bear_the_ids_of_the_turn() -> None:
    done = asyncio.Event()
    found: dict[str, object] = {}

    async def watches(event: Event) -> Outcome:
        found.update(structlog.contextvars.get_contextvars())
        done.set()
        return Go()

    runner = runner_of(hook("watch", watches, observes=True))
    async with serving(runner):
        with structlog.contextvars.bound_contextvars(turn="t7"):
            await runner.inbound(HELLO)
        await done.wait()

    assert found == {"turn": "t7"}


def test_replies_may_change_only_where_a_hook_may_change_them() -> None:
    watching = (
        hook("in", adds_a_mark),
        hook("audit", always(Go()), *Point, observes=True),
        hook("tool", always(Go()), Point.BEFORE_TOOL_CALL),
    )

    assert not runner_of(*watching).may_change_replies
    assert runner_of(*watching).may_change_messages
    assert not runner_of(*watching[1:]).may_change_messages
    assert runner_of(*watching, hook("x", always(Go()), Point.BEFORE_OUTBOUND)).may_change_replies
    assert runner_of(hook("x", always(Go()), Point.TRANSFORM_RESPONSE)).may_change_replies


async def test_observer_that_breaks_is_logged_and_the_others_are_told() -> None:
    done = asyncio.Event()

    async def watches(event: Event) -> Outcome:
        done.set()
        return Go()

    runner = runner_of(hook("broken", raises, observes=True), hook("watch", watches, observes=True))
    with structlog.testing.capture_logs() as logs:
        async with serving(runner):
            await runner.inbound(HELLO)
            await done.wait()

    assert [(each["event"], each["hook"], each["error"]) for each in logs] == [
        ("hook_failed", "broken", "RuntimeError")
    ]


async def test_sources_are_asked_for_news_before_words_pass() -> None:
    runner = HookRunner()

    async def newer() -> None:
        runner.replace_source("f", [hook("f::no", always(Reject("new")))])

    runner.follow(newer)

    assert await runner.inbound(HELLO) == Stopped("new")


async def test_refusal_without_a_reason_is_a_refusal() -> None:
    for empty in ("", "  ", None):
        stopped = await runner_of(hook("no", always(Reject(empty)))).inbound(HELLO)  # type: ignore[arg-type]
        assert stopped == Stopped("no reason was given.")


# -- against a model of the rules --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Step:
    """What one hook does: "go", "change", "reject", "raise" or "hang"."""

    does: str
    word: str
    priority: int
    mode: FailureMode


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["go", "change", "reject", "raise", "hang"]),
        st.sampled_from(["x", '{"a": 1}', "{}", "[]", '{"a": {"b": []}}']),
        st.integers(1, 3),
        st.sampled_from(FailureMode),
    ),
    max_size=6,
)


def hook_of(number: int, step: Step, point: Point) -> Hook:
    run = {
        "go": always(Go()),
        "change": always(Change(step.word)),
        "reject": always(Reject(step.word)),
        "raise": raises,
        "hang": hangs,
    }[step.does]
    timeout = AT_ONCE if step.does == "hang" else LONG
    return Hook(str(number), frozenset({point}), run, step.priority, step.mode, timeout)


def expected(steps: list[Step], content: str, fits: Callable[[str], bool]) -> tuple[str, bool] | str:
    """The content at the end; or the reason of the stop, "" for a fault, and whether it was one."""
    for step in sorted(steps, key=lambda step: step.priority):
        match step.does:
            case "change" if fits(step.word):
                content = step.word
            case "reject":
                return step.word, False
            case "raise" | "hang" if step.mode is FailureMode.CLOSED:
                return "", True
    return content


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@given(STEPS)
async def test_chain_gives_what_the_rules_say(steps: list[Step]) -> None:
    runner = runner_of(*(hook_of(number, step, Point.BEFORE_INBOUND) for number, step in enumerate(steps)))

    match await runner.inbound(HELLO):
        case Passed(content=content):
            assert expected(steps, "hello", lambda _: True) == content
        case Stopped(reason=reason, by_fault=by_fault):
            assert expected(steps, "hello", lambda _: True) == ("" if by_fault else reason, by_fault)


@given(STEPS)
async def test_chain_of_calls_gives_what_the_rules_say_and_arguments_stay_an_object(steps: list[Step]) -> None:
    runner = runner_of(*(hook_of(number, step, Point.BEFORE_TOOL_CALL) for number, step in enumerate(steps)))
    wanted = expected(steps, '{"command": "ls"}', is_object)

    match await runner.before_tool(CALL):
        case PassedCall(changes=changes):
            assert isinstance(wanted, str)
            assert changes is None or isinstance(changes, dict)
            assert (CALL.arguments if changes is None else changes) == json.loads(wanted)
        case Stopped(reason=reason, by_fault=by_fault):
            assert wanted == ("" if by_fault else reason, by_fault)
