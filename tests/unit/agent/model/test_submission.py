import dataclasses
import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import submission as grammar
from agent.model.submission import ExecApproval, UserInput, parse_submission, parse_text
from tests.support.builders import make_message

CASES = json.loads((Path(__file__).parent / "submission_cases.json").read_text())
APPROVAL = '{"ExecApproval": {"request_id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "approved": true, "always": false}}'


def plain(value: object) -> object:
    match value:
        case UUID():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["input"])[:50])
def test_grammar_row(case: dict[str, object]) -> None:
    submission = parse_text(str(case["input"]))

    fields = {name: plain(value) for name, value in dataclasses.asdict(submission).items() if name != "apply_now"}
    assert (type(submission).__name__, fields) == (case["variant"], case["fields"])


@given(st.text())
def test_parsing_is_total(text: str) -> None:
    assert isinstance(parse_text(text), grammar.Submission)


@given(st.text())
def test_what_no_rule_claims_stays_as_typed(text: str) -> None:
    submission = parse_text("so: " + text)

    assert submission == UserInput("so: " + text)


def test_typed_json_is_no_approval() -> None:
    assert parse_submission(make_message(text=APPROVAL)) == UserInput(APPROVAL)


def test_an_adapters_button_is_an_approval() -> None:
    assert isinstance(parse_submission(make_message(text=APPROVAL, structured=True)), ExecApproval)


def test_now_flag_is_taken_out_of_the_words_wherever_it_stands() -> None:
    assert parse_text("/model --now gpt-9") == grammar.SystemCommand("model", ("gpt-9",), apply_now=True)


def test_deeply_nested_json_is_text() -> None:
    text = '{"a":' * 100_000

    assert parse_text(text) == UserInput(text)
