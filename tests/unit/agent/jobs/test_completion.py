"""Which words end a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.jobs.completion import says_done

POSITIVE = [
    "The job is complete.", "The task is done", "work is finished", "Successfully completed!",
    "I have completed it", "I've completed it.", "I\u2019ve completed it.", "We have finished the job.",
    "have completed the task", "All steps are done.", "All done!", "All tasks complete", "ALL TASKS ARE COMPLETE",
]  # fmt: skip
NEGATIVE = [
    "not complete", "not done", "not finished", "incomplete", "unfinished", "isn't done", "isn\u2019t complete",
    "not yet done", "not yet finished",
]  # fmt: skip


@pytest.mark.parametrize("text", POSITIVE)
def test_phrase_ends_the_job(text: str) -> None:
    assert says_done(text)


@pytest.mark.parametrize("text", ["", "Working on it.", "The taskforce is done deliberating", "completion is near"])
def test_other_words_do_not(text: str) -> None:
    assert not says_done(text)


@given(st.sampled_from(POSITIVE), st.sampled_from(NEGATIVE), st.booleans(), st.text(max_size=20))
def test_any_word_that_something_is_missing_outweighs_every_other(yes: str, no: str, first: bool, between: str) -> None:
    text = f"{yes} {between} {no}" if first else f"{no} {between} {yes}"

    assert not says_done(text)


@given(st.sampled_from(POSITIVE))
def test_case_and_line_breaks_make_no_difference(text: str) -> None:
    assert says_done(text.upper().replace(" ", "\n "))
