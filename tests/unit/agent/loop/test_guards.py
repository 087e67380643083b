"""The rules that keep a loop from going in circles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.messages import ToolResult
from agent.loop.guards import Guards, announces_action
from agent.model.tool_call import ToolCall

# Each prefix and each verb of the specification's list, 3.5.
PREFIXES = ("Let me", "I'll", "I will", "I'm going to", "I\u2019ll", "I\u2019m going to", "LET ME")
VERBS = (
    "search",
    "look up",
    "check",
    "fetch",
    "find",
    "read the",
    "write the",
    "create",
    "run the",
    "execute",
    "query",
    "retrieve",
    "add it",
    "add the",
    "add this",
    "add that",
    "update the",
    "delete",
    "remove the",
    "look into",
)
EXCLUSIONS = (
    "explain",
    "know",
    "think",
    "summarize",
    "summarise",
    "clarify",
    "describe",
    "help",
    "understand",
    "break",
    "outline",
    "walk you",
    "provide",
    "suggest",
    "elaborate",
    "start by",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_promise_to_act_is_recognised(prefix: str, verb: str) -> None:
    assert announces_action(f"{prefix} {verb} file.")
    assert announces_action(f"Sure. {prefix} quickly, if I may, {verb} file for you.")


@pytest.mark.parametrize("phrase", EXCLUSIONS)
def test_words_that_lead_to_an_explanation_are_no_promise(phrase: str) -> None:
    assert not announces_action(f"Let me {phrase} this: I'll search the web when you ask me to.")


@pytest.mark.parametrize(
    "text",
    [
        "The search found nothing.",
        "You will find it in the attic.",
        "I'll be brief. Search engines are slow.",
        "I will\nsearch",
        "```\nI'll check the logs\n```",
        "```\nI'll check the logs",
        "    I'll check the logs",
        "\tI'll check the logs",
        'She said "I\'ll check the logs" and left.',
        "I'll researching",
        "",
    ],
)
def test_talk_code_and_quotations_are_no_promise(text: str) -> None:
    assert not announces_action(text)


@pytest.mark.parametrize("code", ["```\nx\n```", "    indented code", '"a quotation"'])
def test_code_and_quotations_hide_nothing_that_is_said_after_them(code: str) -> None:
    assert announces_action(f"Here it is:\n\n{code}\n\nNow I'll run the tests.")


CALL = (ToolCall("c1", "shell", {"command": "ls", "n": 1}),)
FAILED = (ToolResult("c1", "shell", "no", is_error=True),)
DONE = (ToolResult("c1", "shell", "yes"),)


def test_the_same_failing_call_is_counted_whatever_its_id_and_order_of_arguments() -> None:
    again = (ToolCall("c2", "shell", {"n": 1, "command": "ls"}),)

    guards = Guards().after_batch(CALL, FAILED).after_batch(again, FAILED)

    assert guards.failures == 2


@pytest.mark.parametrize(
    "other",
    [
        ToolCall("c2", "shell", {"command": "ls", "n": 2}),
        ToolCall("c2", "echo", {"command": "ls", "n": 1}),
        ToolCall("c2", "shell", {}, malformed='{"command": "ls"'),
    ],
)
def test_another_failing_call_starts_the_count_anew(other: ToolCall) -> None:
    guards = Guards().after_batch(CALL, FAILED).after_batch(CALL, FAILED).after_batch((other,), FAILED)

    assert guards.failures == 1


def test_a_batch_with_one_success_starts_the_count_anew() -> None:
    guards = Guards().after_batch(CALL, FAILED).after_batch(CALL * 2, FAILED + DONE)

    assert guards.failures == 0


def test_cut_off_calls_are_forgotten_after_a_good_batch_only() -> None:
    """A batch that failed is no sign that the calls arrive whole: loop.md 3.5, truncation."""
    cut = Guards().cut_off().cut_off()

    assert cut.after_batch(CALL, FAILED).truncations == 2
    assert cut.after_batch(CALL, DONE).truncations == 0


@given(st.lists(st.sampled_from(["nudge", "cut", "fail", "fail other", "good"]), max_size=20))
def test_a_good_batch_forgets_everything_and_nothing_else_does(events: list[str]) -> None:
    guards = Guards()
    failures = 0
    for event in events:
        match event:
            case "nudge":
                guards = guards.nudged()
            case "cut":
                guards = guards.cut_off()
            case "good":
                guards, failures = guards.after_batch(CALL, DONE), 0
                assert guards == Guards()
            case _:
                call = CALL if event == "fail" else (ToolCall("x", "other", {}),)
                before = guards
                guards = guards.after_batch(call, FAILED)
                failures += 1
                assert 1 <= guards.failures <= failures
                assert guards.nudges == 0
                assert guards.truncations == before.truncations
