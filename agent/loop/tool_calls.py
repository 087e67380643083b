"""Which calls of a batch may run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent.tools.base import Effect, PathScope

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Planned(Generic[C]):
    """A call with what it declares. `scope` is None where what it touches is not known."""

    call: C
    effect: Effect
    scope: PathScope | None


def plan_batches(calls: Sequence[Planned[C]]) -> tuple[tuple[C, ...], ...]:
    """Group calls, in order: neighbours that only read, in known places that do not overlap, run together.

    Everything else runs alone. The groups joined are the calls in their order.
    """
    batches: list[list[Planned[C]]] = []
    for planned in calls:
        if batches and _may_join(planned, batches[-1]):
            batches[-1].append(planned)
        else:
            batches.append([planned])
    return tuple(tuple(member.call for member in batch) for batch in batches)


def _may_join(planned: Planned[C], batch: Sequence[Planned[C]]) -> bool:
    return all(_is_peaceful(a, b) for a, b in ((planned, member) for member in batch))


def _is_peaceful(a: Planned[C], b: Planned[C]) -> bool:
    if a.effect is not Effect.READ or b.effect is not Effect.READ or a.scope is None or b.scope is None:
        return False
    return not a.scope.overlaps(b.scope)
