"""How often one user may call one tool: fixed windows, in memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.clock import Clock
from agent.model.ids import UserId
from agent.tools.base import RateLimit

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_MOST_KEYS = 10_000  # beyond it the pair that has been idle longest starts anew


@dataclass(slots=True)
class _Window:
    length: timedelta
    limit: int
    began: datetime
    count: int = 0

    def wait(self, now: datetime) -> timedelta:
        """How long until there is room; zero if there is."""
        if not timedelta() <= now - self.began < self.length:
            self.began, self.count = now, 0
        return timedelta() if self.count < self.limit else self.began + self.length - now


class RateWindows:
    """Counts calls per user and tool. A window begins with its first call; both must have room for one more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: OrderedDict[tuple[UserId, str], tuple[_Window, _Window]] = OrderedDict()

    def take(self, user: UserId, tool: str, limit: RateLimit) -> timedelta | None:
        """Count a call and give None, or count nothing and give the time until the next is possible."""
        now = self._clock.now()
        windows = self._windows.get((user, tool))
        if windows is None:
            windows = (_Window(_MINUTE, limit.per_minute, now), _Window(_HOUR, limit.per_hour, now))
            self._windows[user, tool] = windows
            if len(self._windows) > _MOST_KEYS:
                self._windows.popitem(last=False)
        self._windows.move_to_end((user, tool))
        wait = max(window.wait(now) for window in windows)
        if wait > timedelta():
            return wait
        for window in windows:
            window.count += 1
        return None
