"""The plan of a job: read from any answer, and carried out from wherever a run stands."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.jobs.planning import CHECK, MOST_ACTIONS, Action, Plan, next_action, parse_plan, plan_note, plan_request
from agent.llm.base import ToolDefinition
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText

JOB = UserText("[2026-01-01] Job: count")
PLAN = Plan("count", (Action("echo", {"message": "one"}, "first"), Action("time", {}, "then")))

actions = st.builds(
    Action,
    st.text(min_size=1, max_size=20),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3),
    st.text(max_size=20),
)
plans = st.builds(Plan, st.text(max_size=20), st.lists(actions, min_size=1, max_size=MOST_ACTIONS).map(tuple))


def test_request_is_short_and_sober_and_lists_the_tools() -> None:
    asked = plan_request("system", [JOB], [ToolDefinition("echo", "Repeat.", {"type": "object"})])

    assert (asked.max_tokens, asked.temperature, asked.tools) == (2048, 0.3, ())
    assert "- echo: Repeat." in asked.messages[-1].text


@given(st.text())
def test_any_answer_is_a_plan_or_none(text: str) -> None:
    plan = parse_plan(text)

    assert plan is None or plan.actions


@given(plans)
def test_plan_is_read_again_from_its_note(plan: Plan) -> None:
    step = next_action([JOB, plan_note(plan)])

    assert isinstance(step, AssistantTurn)
    assert (step.calls[0].name, step.calls[0].arguments) == (plan.actions[0].tool, plan.actions[0].arguments)


def test_plan_in_a_code_block_with_words_around_it_is_read() -> None:
    raw = json.dumps({"goal": "g", "actions": [{"tool_name": "echo"}], "confidence": 0.9})

    assert parse_plan(f"Here it is:\n```json\n{raw}\n```\nGood luck") == Plan("g", (Action("echo", {}, ""),))


def test_empty_broken_and_foreign_answers_give_no_plan() -> None:
    for text in ("", "no plan", "{}", '{"actions": []}', '{"actions": [{"tool": "x"}]}', '{"actions": 3}', "{" * 5000):
        assert parse_plan(text) is None


def test_long_plan_is_cut() -> None:
    raw = json.dumps({"actions": [{"tool_name": "echo"}] * 100})

    plan = parse_plan(raw)

    assert plan is not None
    assert len(plan.actions) == MOST_ACTIONS


def test_calls_come_in_order_then_the_question_then_nothing() -> None:
    added: list[ChatMessage] = [JOB, plan_note(PLAN)]
    names = []
    while isinstance(step := next_action(added), AssistantTurn):
        names.append(step.calls[0].name)
        added += [step, ToolResult(step.calls[0].id, step.calls[0].name, "failed", is_error=True)]

    assert names == ["echo", "time"]
    assert step == UserText(CHECK)
    assert next_action([*added, step]) is None


def test_word_of_the_person_or_of_the_model_abandons_the_plan() -> None:
    assert next_action([JOB, plan_note(PLAN), UserText("wait")]) is None
    assert next_action([JOB, plan_note(PLAN), AssistantTurn("I know better")]) is None


def test_run_without_a_plan_has_no_next_action() -> None:
    assert next_action([JOB]) is None
    assert next_action([JOB, AssistantTurn("hm"), UserText("go on")]) is None
