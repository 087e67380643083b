import pytest

from agent.model.plan import parse_plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/plan", "List the plans"),
        ("/plan list", "List the plans"),
        ("/PLAN approve", "I approve the plan. Carry"),
        ("/plan approve 2", "I approve the plan 2."),
        ("/plan status", "how far the plan is"),
        ("/plan revise use fewer steps", "do not act on it yet: use fewer steps"),
        ("/plan move the house", "change nothing until I approve.\n\nmove the house"),
        ("/plan list all files", "list all files"),
    ],
)
def test_plan_is_put_to_the_model_in_words(text: str, words: str) -> None:
    asked = parse_plan(text)

    assert asked is not None
    assert words in asked


@pytest.mark.parametrize("text", ["/planning", "plan a trip", "/ plan", "hello /plan x"])
def test_other_texts_are_no_plan(text: str) -> None:
    assert parse_plan(text) is None
