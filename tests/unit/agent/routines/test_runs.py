"""How an end is told: by flags, with the name as data, and in a shared chat without what went wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.model.routine import Ending, Notify, RunStatus
from agent.routines import runs
from agent.routines.heartbeat import AllClear, Failed, NeedsAttention, read_answer
from tests.unit.agent.routines.rows import make_routine

ENDS = [status for status in RunStatus if status not in (RunStatus.PENDING, RunStatus.RUNNING)]


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (RunStatus.OK, "✅ **Routine 'morning'**: done"),
        (RunStatus.ATTENTION, "🔔 **Routine 'morning'**: needs attention"),
        (RunStatus.FAILED, "❌ **Routine 'morning'**: failed"),
        (RunStatus.MISSED, "❌ **Routine 'morning'**: not run"),
    ],
)
def test_a_notice_says_which_routine_and_what_became_of_it(status: RunStatus, head: str) -> None:
    text = runs.notice(make_routine(), Ending(status, "The sum."), is_shared=False)

    assert text.startswith(head)
    assert text.endswith("\n\nThe sum.")


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.MISSED])
def test_a_shared_chat_is_not_told_what_went_wrong(status: RunStatus) -> None:
    text = runs.notice(make_routine(), Ending(status, "gpt-9 answered 429 req_8"), is_shared=True)

    assert "429" not in text
    assert runs.NEUTRAL_FAILURE in text


def test_a_name_cannot_format_or_break_the_line() -> None:
    text = runs.notice(make_routine(name="a`\n**b"), Ending(RunStatus.OK), is_shared=False)

    assert text == "✅ **Routine 'a b'**: done, nothing to report"


def test_by_default_success_alone_is_silent() -> None:
    assert [status for status in ENDS if runs.is_told(Notify(), status)] == [
        RunStatus.ATTENTION,
        RunStatus.FAILED,
        RunStatus.MISSED,
    ]
    nothing = Notify(on_attention=False, on_failure=False)
    assert not any(runs.is_told(nothing, status) for status in ENDS)
    assert runs.is_told(replace(nothing, on_success=True), RunStatus.OK)


@pytest.mark.parametrize(
    "answer",
    [
        "ROUTINE_OK",
        " ROUTINE_OK\n",
        "**ROUTINE_OK**",
        "`routine_ok`.",
        "Routine OK",
        "Well: ROUTINE_OK",
        "ROUTINE_OK: all up",
    ],
)
def test_the_token_is_understood_in_every_spelling(answer: str) -> None:
    assert read_answer(answer, token=runs.OK_TOKEN) == AllClear()


def test_a_finding_that_mentions_the_token_is_still_a_finding() -> None:
    finding = "The disk is full, so I cannot say ROUTINE_OK today; free some space."

    found = read_answer(finding, token=runs.OK_TOKEN)

    assert isinstance(found, NeedsAttention)
    assert "disk is full" in found.text
    assert "ROUTINE_OK" not in found.text
    assert isinstance(read_answer("HEARTBEAT_OK", token=runs.OK_TOKEN), NeedsAttention)
    assert isinstance(read_answer("", token=runs.OK_TOKEN), Failed)
