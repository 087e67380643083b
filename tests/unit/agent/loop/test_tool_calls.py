"""Which calls of one answer run side by side: reads of different places, in order, none lost."""

from __future__ import annotations

from itertools import combinations
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from agent.loop.tool_calls import Planned, plan_batches
from agent.tools.base import Effect, PathScope

PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/c"]).map(PurePosixPath)
SCOPES = st.none() | st.frozensets(PATHS, max_size=3).map(PathScope)
CALLS = st.lists(st.tuples(st.sampled_from(Effect), SCOPES), max_size=12).map(
    lambda found: [Planned(index, effect, scope) for index, (effect, scope) in enumerate(found)]
)
READS = st.lists(SCOPES, max_size=12).map(
    lambda found: [Planned(index, Effect.READ, scope) for index, scope in enumerate(found)]
)


@given(CALLS | READS)
def test_batches_joined_are_the_calls_in_their_order(calls: list[Planned[int]]) -> None:
    batches = plan_batches(calls)

    assert [call for batch in batches for call in batch] == [planned.call for planned in calls]
    assert all(batches)


@given(CALLS | READS)
def test_only_reads_of_known_and_separate_places_share_a_batch(calls: list[Planned[int]]) -> None:
    for batch in plan_batches(calls):
        for one, other in combinations((calls[index] for index in batch), 2):
            assert one.effect is other.effect is Effect.READ
            assert one.scope is not None
            assert other.scope is not None
            assert not one.scope.overlaps(other.scope)


def test_reads_of_different_files_run_together() -> None:
    calls = [Planned(name, Effect.READ, PathScope.of(name)) for name in ("a", "b", "c")]

    assert plan_batches(calls) == (("a", "b", "c"),)


def test_a_write_parts_the_reads_around_it() -> None:
    calls = [
        Planned("before", Effect.READ, PathScope.of("a")),
        Planned("write", Effect.WRITE, PathScope.of("b")),
        Planned("after", Effect.READ, PathScope.of("c")),
    ]

    assert plan_batches(calls) == (("before",), ("write",), ("after",))
