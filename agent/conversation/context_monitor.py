"""How full a conversation is, and what to do about it. Pure.

Thresholds and keep counts are those of the behaviour we implement (IronClaw's context monitor).
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_LIMIT_TOKENS = 100_000
MOVE_UP_TO = 0.85
SUMMARIZE_UP_TO = 0.95


@dataclass(frozen=True, slots=True)
class Summarize:
    """Replace old turns by a summary that the model writes."""

    keep_turns: int = 5


@dataclass(frozen=True, slots=True)
class MoveToWorkspace:
    """Write old turns into the workspace and leave a short index of them in the context."""

    keep_turns: int = 10


@dataclass(frozen=True, slots=True)
class Truncate:
    """Leave old turns out; the archive keeps them."""

    keep_turns: int = 3


CompactionStrategy = Summarize | MoveToWorkspace | Truncate


@dataclass(frozen=True, slots=True)
class Fullness:
    """How many of `limit` tokens the next request takes before the new message is added."""

    tokens: int
    limit: int

    @property
    def ratio(self) -> float:
        return self.tokens / self.limit if self.limit else 1.0

    @property
    def percent(self) -> float:
        return round(self.ratio * 100, 1)


def suggest_compaction(fullness: Fullness, threshold: float) -> CompactionStrategy | None:
    """What to do before the next turn; None below the threshold."""
    if fullness.tokens < int(fullness.limit * threshold):
        return None
    if fullness.ratio <= MOVE_UP_TO:
        return MoveToWorkspace()
    if fullness.ratio <= SUMMARIZE_UP_TO:
        return Summarize()
    return Truncate()
