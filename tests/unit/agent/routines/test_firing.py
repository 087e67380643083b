"""Claims, one transaction each: what is blocked stays due, what is claimed runs once. Invariant 9."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from agent.errors import RoutineRefused
from agent.model.ids import OPERATOR, UserId
from agent.model.routine import Cron, Ending, Manual, Once, OnSystemEvent, Routine, RunStatus, Webhook
from agent.model.tool_call import JsonValue
from agent.routines.firing import (
    Rules,
    fire_by_hand,
    fire_due,
    fire_system_event,
    fire_webhook,
    matches,
)
from agent.routines.guardrails import Block, Blocked
from agent.store import routines
from agent.store.base import Transaction
from tests.unit.agent.routines.rows import make_routine
from tests.unit.agent.store.rows import database

EIGHT = datetime(2026, 3, 2, 8, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RULES = Rules(10, timedelta(seconds=15))
DAILY = Cron("0 8 * * *", "UTC")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with database(tmp_path) as opened:
        yield opened


@pytest.fixture
def tx(engine: Engine) -> Iterator[Transaction]:
    with engine.begin() as connection:
        yield Transaction(connection)


def kept(tx: Transaction, routine: Routine) -> Routine:
    found = routines.get(tx, routine.id)
    assert found is not None
    return found


def add(tx: Transaction, **more: object) -> Routine:
    routine = make_routine(**({"trigger": DAILY, "due_at": EIGHT} | more))  # type: ignore[arg-type]
    assert routines.add(tx, routine)
    return routine


def test_a_routine_comes_back_as_it_was_kept(tx: Transaction) -> None:
    for trigger in (DAILY, Once(EIGHT, "UTC"), OnSystemEvent("a", "b", (("c", "d"),)), Manual(), Webhook("abc")):
        routine = add(tx, trigger=trigger, name=trigger.kind)

        assert kept(tx, routine) == routine


def test_a_due_time_is_claimed_once_whoever_looked(tx: Transaction) -> None:
    routine = add(tx)
    seen = routines.due(tx, EIGHT, 10)

    first, second = (fire_due(tx, seen, EIGHT, RULES) for _ in range(2))

    assert [run.due_at for run in first.runs] == [EIGHT]
    assert second.runs == ()
    assert kept(tx, routine).due_at == EIGHT + 24 * HOUR


def test_a_claimed_time_is_not_claimed_again_although_the_routine_says_it_is_due(tx: Transaction) -> None:
    routine = add(tx)
    routines.claim(tx, routine.id, EIGHT, "schedule")
    for run in routines.pending(tx, 10):
        routines.start(tx, run.id, EIGHT)
        routines.finish(tx, run, Ending(RunStatus.OK), EIGHT)

    assert fire_due(tx, [routine], EIGHT, RULES).runs == ()
    assert kept(tx, routine).due_at == EIGHT + 24 * HOUR


def test_one_that_ran_a_moment_ago_stays_due_until_it_has_rested(tx: Transaction) -> None:
    routine = add(tx, cooldown=5 * MINUTE)
    routines.note_run(tx, routine.id, EIGHT - MINUTE)

    assert fire_due(tx, [routine], EIGHT, RULES).runs == ()
    resting = kept(tx, routine)
    assert (resting.due_at, resting.wake_at) == (EIGHT, EIGHT + 4 * MINUTE)
    assert [run.due_at for run in fire_due(tx, [routine], EIGHT + 4 * MINUTE, RULES).runs] == [EIGHT]


def test_one_that_still_runs_stays_due(tx: Transaction) -> None:
    routine = add(tx)
    fire_by_hand(tx, routine, EIGHT - MINUTE)

    assert fire_due(tx, [routine], EIGHT, RULES).runs == ()
    assert kept(tx, routine).due_at == EIGHT
    assert kept(tx, routine).wake_at == EIGHT + RULES.interval


def test_more_than_may_run_side_by_side_stay_due(tx: Transaction) -> None:
    seen = [add(tx, name=f"r{number}") for number in range(5)]

    fired = fire_due(tx, seen, EIGHT, replace(RULES, capacity=3))

    assert len(fired.runs) == 3
    assert len(routines.due(tx, EIGHT, 10)) == 2


def test_what_was_switched_off_or_put_off_meanwhile_is_not_run(tx: Transaction) -> None:
    off, later = add(tx, name="off"), add(tx, name="later")
    routines.change(tx, replace(off, enabled=False))
    routines.change(tx, replace(later, due_at=EIGHT + HOUR, wake_at=EIGHT + HOUR))

    assert fire_due(tx, [off, later], EIGHT, RULES).runs == ()


def test_a_run_by_hand_needs_an_enabled_routine(tx: Transaction) -> None:
    with pytest.raises(RoutineRefused, match="disabled"):
        fire_by_hand(tx, replace(add(tx), enabled=False), EIGHT)


def test_a_run_closes_once_and_begins_once(tx: Transaction) -> None:
    routine = add(tx)
    run = fire_by_hand(tx, routine, EIGHT)

    assert [routines.start(tx, run.id, EIGHT) for _ in range(2)] == [True, False]
    assert [routines.finish(tx, run, Ending(RunStatus.OK), EIGHT) for _ in range(2)] == [True, False]


def test_old_runs_are_forgotten_and_new_ones_kept(tx: Transaction) -> None:
    routine = add(tx)
    for number in range(routines.RUNS_KEPT + 20):
        run = routines.claim_now(tx, routine.id, EIGHT + number * MINUTE, "by hand")
        routines.start(tx, run.id, EIGHT)
        routines.finish(tx, run, Ending(RunStatus.OK), EIGHT)

    left = routines.history(tx, routine.id, 1000)
    assert len(left) == routines.RUNS_KEPT
    assert left[0].due_at == EIGHT + (routines.RUNS_KEPT + 19) * MINUTE


def test_two_things_of_one_instant_are_two_runs(tx: Transaction) -> None:
    routine = add(tx)

    first, second = (routines.claim_now(tx, routine.id, EIGHT, "webhook") for _ in range(2))

    assert first.id != second.id
    assert second.due_at - first.due_at == timedelta(microseconds=1)


def test_an_event_reaches_its_persons_routines_alone(tx: Transaction) -> None:
    add(tx, trigger=OnSystemEvent("github", "push"), name="mine")
    add(tx, trigger=OnSystemEvent("github", "push"), name="theirs", user=UserId("telegram:9"))
    add(tx, trigger=OnSystemEvent("github", "issue"), name="other")

    fired = fire_system_event(tx, OPERATOR, "GitHub", "PUSH", {}, EIGHT, RULES)

    assert len(fired) == 1


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"repo": "Site", "n": 3, "draft": False}, True),
        ({"repo": "site", "n": "3", "draft": "FALSE"}, True),
        ({"repo": "site", "n": 4, "draft": False}, False),
        ({"repo": "site", "n": 3}, False),
        ({"repo": ["site"], "n": 3, "draft": False}, False),
        ({"repo": {"name": "site"}, "n": 3, "draft": False}, False),
        ({"repo": None, "n": 3, "draft": False}, False),
    ],
)
def test_each_filter_is_a_top_level_value_in_any_case(payload: dict[str, JsonValue], expected: bool) -> None:
    trigger = OnSystemEvent("github", "push", (("draft", "false"), ("n", "3"), ("repo", "site")))

    assert matches(trigger, "GITHUB", "Push", payload) is expected


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=4)
)
def test_without_filters_every_payload_of_the_event_matches(payload: dict[str, JsonValue]) -> None:
    assert matches(OnSystemEvent("a", "b"), "A", "B", payload)
    assert not matches(OnSystemEvent("a", "b"), "a", "c", payload)


def test_a_webhook_finds_its_routine_while_it_is_enabled(tx: Transaction) -> None:
    routine = add(tx, trigger=Webhook("ci-build"), cooldown=MINUTE)

    assert fire_webhook(tx, "other", "{}", EIGHT, RULES) is None
    assert not isinstance(fire_webhook(tx, "ci-build", "{}", EIGHT, RULES), Blocked | None)
    blocked = fire_webhook(tx, "ci-build", "{}", EIGHT, RULES)
    assert isinstance(blocked, Blocked)
    assert blocked.reason is Block.COOLDOWN
    routines.switch(tx, routine.id, on=False, due_at=None, now=EIGHT)
    assert fire_webhook(tx, "ci-build", "{}", EIGHT + HOUR, RULES) is None
    assert routines.is_path_taken(tx, "CI-build")
