from __future__ import annotations

from datetime import timedelta

from channels.slack_memory import Drafts, Participation, Recent
from tests.support.fake_clock import FakeClock

SECOND = timedelta(seconds=1)


def test_the_values_used_longest_ago_are_forgotten() -> None:
    recent: Recent[int, str] = Recent(2)
    recent.put(1, "one")
    recent.put(2, "two")
    recent.get(1)
    recent.put(3, "three")

    assert [recent.get(number) for number in (1, 2, 3)] == ["one", None, "three"]


def test_256_threads_are_remembered_for_a_day() -> None:
    clock = FakeClock()
    joined = Participation(clock)
    for number in range(257):
        joined.join("C1", str(number))

    assert [("C1", str(number)) in joined for number in (0, 1, 256)] == [False, True, True]
    clock.advance(timedelta(hours=24))
    assert ("C1", "256") not in joined
    assert "C1" not in joined


def test_taking_part_again_is_remembered_from_then_on() -> None:
    clock = FakeClock()
    joined = Participation(clock)
    joined.join("C1", "1.1")
    clock.advance(timedelta(hours=23))
    joined.join("C1", "1.1")
    clock.advance(timedelta(hours=23))

    assert ("C1", "1.1") in joined


def test_a_chat_is_updated_once_a_second_and_does_not_hold_up_others() -> None:
    clock = FakeClock()
    drafts = Drafts(clock)

    assert [drafts.may_show(chat) for chat in ("C1", "C1", "C2")] == [True, False, True]
    clock.advance(SECOND)
    assert drafts.may_show("C1")


def test_all_chats_together_stay_below_the_limit_of_slack() -> None:
    clock = FakeClock()
    drafts = Drafts(clock)

    shown = 0
    for _ in range(60):
        shown += drafts.may_show("C1")
        clock.advance(SECOND)

    assert shown == 40
    assert drafts.may_show("C1")


def test_nothing_is_shown_anywhere_while_slack_asks_to_wait() -> None:
    clock = FakeClock()
    drafts = Drafts(clock)
    drafts.rest(10 * SECOND)
    drafts.rest(SECOND)
    clock.advance(9 * SECOND)

    assert not drafts.may_show("C2")
    clock.advance(SECOND)
    assert drafts.may_show("C2")
