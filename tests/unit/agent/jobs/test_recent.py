"""What a model call sees of a long run."""

from hypothesis import given
from hypothesis import strategies as st

from agent.jobs.delegate import MOST_MESSAGES, recent
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import ToolCall

JOB = UserText("the job")


def rounds(sizes: list[int]) -> tuple[ChatMessage, ...]:
    """A run in which each round calls so many tools; 0: it only speaks."""
    found: list[ChatMessage] = [JOB]
    for number, size in enumerate(sizes):
        made = tuple(ToolCall(f"{number}-{n}", "echo") for n in range(size))
        found.append(AssistantTurn("" if made else f"words {number}", made))
        found += [ToolResult(call.id, "echo", "ok") for call in made]
    return tuple(found)


@given(st.lists(st.integers(0, 4), max_size=120))
def test_job_stays_results_have_their_call_and_the_newest_are_there(sizes: list[int]) -> None:
    added = rounds(sizes)

    seen = recent(added)

    assert seen[0] == JOB
    assert len(seen) <= MOST_MESSAGES + 2
    calls = {call.id for message in seen if isinstance(message, AssistantTurn) for call in message.calls}
    assert all(message.call_id in calls for message in seen if isinstance(message, ToolResult))
    if len(added) > MOST_MESSAGES:
        assert seen[-20:] == added[-20:]
    else:
        assert seen == added


def test_most_requests_are_the_one_before_plus_an_end() -> None:
    run = rounds([1] * 200)

    changes = sum(
        recent(run[: length + 2])[: len(recent(run[:length]))] != recent(run[:length]) for length in range(101, 301, 2)
    )

    assert changes <= 6
