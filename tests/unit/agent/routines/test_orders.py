"""What a model asks for is read and checked before anything is kept; a refusal says what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from agent.errors import RoutineRefused
from agent.model.routine import (
    Cron,
    FullJob,
    Guardrails,
    Lightweight,
    Manual,
    Once,
    OnMessage,
    OnSystemEvent,
    Webhook,
    plain_name,
    state_path,
)
from agent.routines import orders
from agent.tools.builtin.routines import RoutineCreateArguments
from tests.support.builders import NOON

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = orders.Moment(NOON, BERLIN)  # 13:00 there


def order(kind: str = "cron", /, **more: object) -> RoutineCreateArguments:
    return RoutineCreateArguments.model_validate({"name": "n", "trigger_type": kind, "prompt": "p", **more})


def test_a_schedule_is_meant_in_the_zone_of_the_one_who_asks() -> None:
    assert orders.read_trigger(order(schedule=" 0  9 * * * "), MOMENT) == Cron("0 9 * * *", "Europe/Berlin")


def test_another_zone_can_be_named() -> None:
    assert orders.read_trigger(order(schedule="0 9 * * *", timezone="Asia/Tokyo"), MOMENT) == Cron(
        "0 9 * * *", "Asia/Tokyo"
    )


def test_a_single_time_is_local_unless_it_names_an_offset() -> None:
    local = orders.read_trigger(order(at="2026-03-05T18:00"), MOMENT)
    offset = orders.read_trigger(order(at="2026-03-05T18:00+00:00"), MOMENT)

    assert local == Once(datetime(2026, 3, 5, 17, tzinfo=UTC), "Europe/Berlin")
    assert offset == Once(datetime(2026, 3, 5, 18, tzinfo=UTC), "Europe/Berlin")


@pytest.mark.parametrize("at", ["2026-03-02T12:55", "2026-03-01T09:00", "2026-03-02T13:00", "2026-03-02"])
def test_a_time_in_the_past_is_refused_with_the_present_one(at: str) -> None:
    with pytest.raises(RoutineRefused, match=r"in the past.*It is Monday 2026-03-02 13:00 Europe/Berlin now"):
        orders.read_trigger(order(at=at), MOMENT)


def test_until_reaches_to_the_end_of_that_day() -> None:
    trigger = orders.read_trigger(order(schedule="0 9 * * mon", until="2026-06-01"), MOMENT)

    assert trigger == Cron("0 9 * * mon", "Europe/Berlin", datetime(2026, 6, 1, 21, 59, 59, tzinfo=UTC))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "'schedule'"),
        ({"schedule": "0 9 * * *", "at": "2027-01-01"}, "either"),
        ({"schedule": "every tuesday-ish"}, "not valid"),
        ({"schedule": "0 0 30 2 *"}, "never comes"),
        ({"schedule": "0 9 * * *", "timezone": "Mars/Base"}, "no time zone"),
        ({"schedule": "0 9 * * *", "timezone": "../etc/passwd"}, "no time zone"),
        ({"schedule": "0 9 * * *", "until": "2026-03-02"}, "is left before 'until'"),
        ({"schedule": "0 9 * * *", "until": "June"}, "no date"),
        ({"at": "tomorrow"}, "no time I can read"),
        ({"at": "2090-01-01T00:00"}, "too far"),
    ],
)
def test_a_time_that_cannot_be_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(RoutineRefused, match=said):
        orders.read_trigger(order(**more), MOMENT)


def test_the_other_triggers_are_read() -> None:
    assert orders.read_trigger(order("event", event_pattern="dep(loy)?", event_channel=" Slack "), MOMENT) == OnMessage(
        "dep(loy)?", "slack"
    )
    assert orders.read_trigger(
        order("system_event", event_source="github", event_type="push", event_filters={"draft": True, "n": 3}), MOMENT
    ) == OnSystemEvent("github", "push", (("draft", "true"), ("n", "3")))
    assert orders.read_trigger(order("manual"), MOMENT) == Manual()
    assert orders.read_trigger(order("webhook", webhook_path="/CI-build/"), MOMENT) == Webhook("ci-build")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("event", {}),
        ("event", {"event_pattern": "deploy ("}),
        ("event", {"event_pattern": "(?=x)"}),
        ("event", {"event_pattern": ".*"}),
        ("event", {"event_pattern": "a" * 501}),
        ("system_event", {"event_source": "github"}),
        ("webhook", {}),
        ("webhook", {"webhook_path": "a/b"}),
        ("webhook", {"webhook_path": "../x"}),
    ],
)
def test_a_trigger_that_is_not_whole_is_refused(kind: str, more: dict[str, object]) -> None:
    with pytest.raises(RoutineRefused):
        orders.read_trigger(order(kind, **more), MOMENT)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"prompt": "  "}, "'prompt'"),
        ({"prompt": "x" * 20_001}, "'prompt'"),
        ({"description": "x" * 501}, "'description'"),
        ({"context_paths": ["a.md"] * 21}, "list"),
        ({"cooldown_secs": -1}, "'cooldown_secs'"),
        ({"dedup_secs": 10**9}, "'dedup_secs'"),
    ],
)
def test_what_is_out_of_bounds_is_refused(more: dict[str, object], said: str) -> None:
    orders.check_bounds(order("manual", cooldown_secs=0, description="d"))
    with pytest.raises(RoutineRefused, match=said):
        orders.check_bounds(order("manual", **more))


def test_a_job_alone_can_be_given_tools() -> None:
    job = order("manual", action_type="full_job", tool_permissions=["shell"])
    assert orders.read_action(job, "n") == FullJob("n", "p", tools=("shell",))
    assert orders.read_action(order("manual", context_paths=["MEMORY.md"]), "n") == Lightweight("p", ("MEMORY.md",))
    with pytest.raises(RoutineRefused, match="full_job"):
        orders.read_action(order("manual", tool_permissions=["shell"]), "n")


def test_the_operators_cooldown_holds_unless_another_is_named() -> None:
    default = timedelta(seconds=300)

    assert orders.read_guardrails(order("manual"), default) == Guardrails(default)
    assert orders.read_guardrails(order("manual", cooldown_secs=0, dedup_secs=60), default) == Guardrails(
        timedelta(0), dedup_window=timedelta(seconds=60)
    )


def test_a_name_is_one_line_of_plain_text() -> None:
    assert plain_name("a\nb `c` *d* [e](f)") == "a b c d e (f)"
    assert len(plain_name("x" * 500)) == 128
    with pytest.raises(RoutineRefused, match="empty"):
        orders.read_name("`*`\n")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "Ünïcode", "..", "CON", "x" * 300])
def test_the_state_of_a_routine_lies_in_a_folder_of_its_own(name: str) -> None:
    first, folder, last = state_path(name).split("/")

    assert (first, last) == ("routines", "state.md")
    assert folder.replace("-", "").isalnum()
    assert folder.isascii()
    assert len(folder) <= 60
