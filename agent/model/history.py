"""Which of a thread's stored messages make up its present history.

Stored messages are never changed or deleted. A history is a list of spans of their positions, so that going back,
forward again, or putting a summary in front is a change of this small value alone, and everything shortened stays in
the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""Positions from the first to before the second."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """Spans in the order in which models see them."""

    spans: tuple[Span, ...] = ()

    def __len__(self) -> int:
        return sum(end - start for start, end in self.spans)

    def positions(self) -> Iterator[int]:
        """Every position, in order."""
        for start, end in self.spans:
            yield from range(start, end)

    def with_added(self, start: int, count: int) -> HistoryView:
        """The view with `count` messages from position `start` at its end."""
        if not count:
            return self
        if self.spans and self.spans[-1][1] == start:
            return HistoryView((*self.spans[:-1], (self.spans[-1][0], start + count)))
        return HistoryView((*self.spans, (start, start + count)))

    def last(self, count: int) -> HistoryView:
        """The view of the newest `count` messages alone."""
        kept: list[Span] = []
        for start, end in reversed(self.spans):
            if count <= 0:
                break
            kept.insert(0, (max(start, end - count), end))
            count -= end - start
        return HistoryView(tuple(kept))

    def behind(self, summary: int) -> HistoryView:
        """The view with one message, a summary, in front."""
        return HistoryView(((summary, summary + 1), *self.spans))

    def added_since(self, earlier: HistoryView) -> Sequence[int] | None:
        """The positions that this view has behind all of `earlier`; None if it does not begin with `earlier`."""
        before, now = list(earlier.positions()), list(self.positions())
        return now[len(before) :] if now[: len(before)] == before else None

    def dump(self) -> str:
        """As text for a column."""
        return " ".join(f"{start}-{end}" for start, end in self.spans)

    @classmethod
    def load(cls, text: str) -> HistoryView:
        """The view that `dump` wrote."""
        pairs = (part.split("-") for part in text.split())
        return cls(tuple((int(start), int(end)) for start, end in pairs))
