"""The routines' tools: what they tell the model, and whose routines they reach. routines_heartbeat.md 6.8."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.model.ids import OPERATOR, UserId
from agent.model.routine import FullJob, Lightweight, Once, Routine
from agent.model.tool_call import JsonValue, ToolOutput
from agent.routines.desk import MOST_ROUTINES, RoutineDesk
from agent.routines.firing import Rules
from agent.store import routines
from agent.store.base import Store, T, Work
from agent.store.errors import StoreUnavailable
from agent.store.open import open_store
from agent.store.sqlite import SqliteStore
from agent.tools.base import Approval, ToolContext
from agent.tools.builtin.routines import (
    ActionType,
    RoutineCreateArguments,
    RoutineUpdateArguments,
    create_approval,
    routine_tools,
    update_approval,
)
from agent.tools.registry import AnyTool, ToolRegistry
from agent.workspace.scope import GroupScope, PersonScope
from channels.message import Address
from tests.support.builders import NOON
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import make_context

ME = make_context()
BOB = make_context(PersonScope("telegram", "42"))
GROUP = replace(make_context(GroupScope("telegram", "-100", "1")), user=OPERATOR, is_operator=True)
NINE: dict[str, JsonValue] = {"trigger_type": "cron", "schedule": "0 9 * * *"}


class Places:
    """Slack is on; its operator and U7 can be reached."""

    channels: Sequence[str] = ("telegram", "slack")

    async def find(self, channel: str, target: str) -> Address | None:
        return Address(channel=channel, chat_id=f"D-{target}") if target == "U7" else None

    async def operator(self, channel: str | None) -> Sequence[Address]:
        return (Address(channel="slack", chat_id="D1"),) if channel == "slack" else ()


class Away:
    """A database that cannot be used."""

    async def write(self, work: Work[T]) -> T:
        raise StoreUnavailable("locked")

    read = read_in_thread = write

    async def close(self) -> None:
        return None


@dataclass
class Bench:
    """The tools on a database of their own."""

    store: SqliteStore
    clock: FakeClock
    tools: dict[str, AnyTool]

    async def use(self, tool: str, context: ToolContext = ME, /, **arguments: JsonValue) -> ToolOutput:
        found = self.tools[tool]
        output: ToolOutput = await found.run(found.spec.arguments.model_validate(arguments), context)
        return output

    async def create(self, context: ToolContext = ME, /, **more: JsonValue) -> ToolOutput:
        return await self.use("routine_create", context, **{"name": "morning", "prompt": "look", **NINE, **more})

    async def kept(self, name: str = "morning", user: UserId = OPERATOR) -> Routine | None:
        return await self.store.read(lambda tx: routines.by_name(tx, user, name))


def tools_on(store: Store, clock: FakeClock) -> dict[str, AnyTool]:
    desk = RoutineDesk(
        Rules(10, timedelta(seconds=15)),
        timedelta(seconds=300),
        store=store,
        clock=clock,
        places=Places(),
        is_secret=lambda text: "sk-" in text,
        takes_webhooks=False,
        nudge=lambda: None,
    )
    return {tool.spec.name: tool for tool in routine_tools(desk)}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    store, clock = open_store(tmp_path), FakeClock()
    yield Bench(store, clock, tools_on(store, clock))
    await store.close()


async def test_one_routine_is_made_and_told(bench: Bench) -> None:
    output = await bench.create(description="a look", context_paths=["MEMORY.md"])

    kept = await bench.kept()
    assert kept is not None
    assert str(kept.id) in output.text
    assert kept.plan.action == Lightweight("look", ("MEMORY.md",))
    assert "Tuesday 2026-03-03 09:00 UTC" in (await bench.use("routine_list")).text


async def test_a_name_is_taken_once_a_person(bench: Bench) -> None:
    first, second, other = await bench.create(), await bench.create(name="Morning"), await bench.create(BOB)

    assert [each.is_error for each in (first, second, other)] == [False, True, False]
    assert "already" in second.text


@pytest.mark.parametrize("field", ["name", "prompt", "description"])
async def test_a_routine_holds_no_secret(bench: Bench, field: str) -> None:
    output = await bench.create(**{field: "sk-123"})

    assert output.is_error
    assert "sk-123" not in output.text
    assert await bench.store.read(routines.everybodys) == []


async def test_there_is_an_end_to_how_many_one_person_has(bench: Bench) -> None:
    for number in range(MOST_ROUTINES):
        await bench.create(name=f"r{number}")

    assert (await bench.create()).is_error
    assert not (await bench.create(BOB)).is_error


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("routine_update", {"enabled": False}),
        ("routine_delete", {}),
        ("routine_fire", {}),
        ("routine_history", {}),
    ],
)
async def test_another_persons_routine_does_not_exist(bench: Bench, tool: str, more: dict[str, JsonValue]) -> None:
    await bench.create()

    for context in (BOB, GROUP):
        output = await bench.use(tool, context, name="morning", **more)
        assert output.is_error
        assert "not found" in output.text
        assert (await bench.use("routine_list", context)).text == "There are no routines."
    kept = await bench.kept()
    assert kept is not None
    assert kept.enabled


async def test_an_update_changes_what_it_names(bench: Bench) -> None:
    await bench.create()
    await bench.use("routine_update", name="morning", prompt="look twice", description="d", schedule="0 10 * * *")
    changed = await bench.kept()
    moved = await bench.use("routine_update", name="morning", timezone="Europe/Berlin")

    assert changed is not None
    assert changed.plan.action == Lightweight("look twice")
    assert changed.due_at == NOON + timedelta(hours=22)
    assert "10:00 Europe/Berlin" in moved.text


async def test_enabling_begins_anew_from_now(bench: Bench) -> None:
    await bench.create()
    await bench.use("routine_update", name="morning", enabled=False)
    off = await bench.kept()
    bench.clock.advance(timedelta(days=3))
    await bench.use("routine_update", name="morning", enabled=True)
    on = await bench.kept()

    assert off is not None
    assert (off.enabled, off.wake_at) == (False, None)
    assert on is not None
    assert (on.enabled, on.due_at, on.wake_at) == (True, NOON + timedelta(days=3, hours=21), on.due_at)


@pytest.mark.parametrize(
    ("made", "change", "said"),
    [
        ({"trigger_type": "manual", "schedule": None}, {"schedule": "0 9 * * *"}, "cron schedule"),
        ({}, {"schedule": "tuesday-ish"}, "not valid"),
        ({}, {"timezone": "Mars/Base"}, "no time zone"),
        ({}, {"prompt": "sk-1"}, "key"),
    ],
)
async def test_an_update_that_cannot_be_changes_nothing(
    bench: Bench, made: dict[str, JsonValue], change: dict[str, JsonValue], said: str
) -> None:
    await bench.create(**made)
    before = await bench.kept()

    output = await bench.use("routine_update", name="morning", **change)

    assert output.is_error
    assert said in output.text
    assert await bench.kept() == before


async def test_a_single_time_that_is_over_cannot_be_switched_on(bench: Bench) -> None:
    await bench.create(schedule=None, at="2026-03-02T15:00")
    await bench.use("routine_update", name="morning", enabled=False, timezone="Europe/Berlin")
    bench.clock.advance(timedelta(days=1))

    output = await bench.use("routine_update", name="morning", enabled=True)

    kept = await bench.kept()
    assert output.is_error
    assert "left" in output.text
    assert kept is not None
    assert kept.plan.trigger == Once(NOON + timedelta(hours=3), "Europe/Berlin")
    assert not kept.enabled


async def test_firing_waits_for_the_run_before_and_history_tells_both(bench: Bench) -> None:
    await bench.create()
    nothing = await bench.use("routine_history", name="morning")
    first, second = [await bench.use("routine_fire", name="morning") for _ in range(2)]
    told = await bench.use("routine_history", name="MORNING", limit=1)

    assert "not run yet" in nothing.text
    assert not first.is_error
    assert second.is_error
    assert "running already" in second.text
    assert told.text == "- 2026-03-02 12:00:00 (by hand) pending"


async def test_an_event_tells_how_many_it_set_off(bench: Bench) -> None:
    await bench.create(trigger_type="system_event", event_source="github", event_type="push", action_type="full_job")
    matching = await bench.use("event_emit", event_source="GITHUB", event_type="Push", payload={"a": [1]})
    resting = await bench.use("event_emit", event_source="github", event_type="push")
    others = await bench.use("event_emit", BOB, event_source="github", event_type="push")

    assert [json.loads(each.text)["fired_routines"] for each in (matching, resting, others)] == [1, 0, 0]
    kept = await bench.kept()
    assert kept is not None
    assert kept.plan.action == FullJob("morning", "look")


@pytest.mark.parametrize(
    ("context", "more", "expected"),
    [
        (ME, {"notify_channel": "slack", "notify_user": "U7"}, "slack chat D-U7"),
        (ME, {"notify_channel": "slack"}, "slack chat D1"),
        (ME, {"notify_channel": "telegram", "notify_user": "1"}, "this conversation"),
        (ME, {"notify_channel": "fax"}, "no channel 'fax'"),
        (ME, {"notify_channel": "slack", "notify_user": "U9"}, "Nobody can be reached"),
        (BOB, {"notify_user": "1"}, "Only the operator"),
        (BOB, {"notify_user": "42"}, "this conversation"),
        (GROUP, {"notify_channel": "slack"}, "Only the operator, in a private chat"),
    ],
)
async def test_where_results_go(bench: Bench, context: ToolContext, more: dict[str, JsonValue], expected: str) -> None:
    assert expected in (await bench.create(context, **more)).text


async def test_a_database_that_is_away_is_said() -> None:
    tools = tools_on(Away(), FakeClock())
    given: dict[str, dict[str, JsonValue]] = {
        "routine_create": {"name": "n", "prompt": "p", **NINE},
        "routine_list": {},
        "event_emit": {"event_source": "a", "event_type": "b"},
    }

    for name, tool in tools.items():
        arguments = tool.spec.arguments.model_validate(given.get(name, {"name": "n"}))
        output = await tool.run(arguments, ME)
        assert output.is_error
        assert "nothing was changed" in output.text


def test_consent_is_asked_where_nobody_will_be_about() -> None:
    order = RoutineCreateArguments.model_validate({"name": "n", "prompt": "p", "trigger_type": "manual"})
    tools = tools_on(Away(), FakeClock())

    assert create_approval(order) is Approval.NEVER
    assert create_approval(order.model_copy(update={"action_type": ActionType.FULL_JOB})) is Approval.UNLESS_ALWAYS
    assert update_approval(RoutineUpdateArguments(name="n", enabled=True)) is Approval.NEVER
    assert update_approval(RoutineUpdateArguments(name="n", prompt="other")) is Approval.UNLESS_ALWAYS
    assert create_approval(order.model_copy(update={"tool_permissions": ["shell"]})) is Approval.ALWAYS
    assert {name for name, tool in tools.items() if tool.spec.approval is Approval.UNLESS_ALWAYS} == {
        "routine_fire",
        "event_emit",
    }


def test_only_making_one_is_in_every_prompt_and_its_schema_is_small() -> None:
    tools = tools_on(Away(), FakeClock())
    registry = ToolRegistry(tools.values())

    assert [name for name, tool in tools.items() if not tool.spec.rare] == ["routine_create"]
    assert len(json.dumps(dict(registry.schema("routine_create")), separators=(",", ":"))) < 1500
