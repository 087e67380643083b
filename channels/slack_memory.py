"""What the Slack adapter remembers for a while, in memory and within bounds: losing it loses nothing but comfort."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from channels.pacing import Clock, Holds
from channels.slack_events import Place

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values used last, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, which counts as used; None where there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; the one used longest ago goes where there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)


class Participation:
    """The threads in which the bot takes part, for 24 hours after it last did."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: Recent[Place, datetime] = Recent(_MOST_THREADS)

    def join(self, chat_id: str, thread_id: str) -> None:
        """Remember a thread."""
        self._since.put((chat_id, thread_id), self._clock.now())

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, tuple) or len(place) != 2:
            return False
        since = self._since.get((place[0], place[1]))
        return since is not None and self._clock.now() - since < _REMEMBERED


@dataclass(slots=True)
class Shown:
    """What a chat shows of an answer that is being written. `lock` keeps its draft and its final text in order.

    `in_doubt`: a draft may have been posted whose `ts` we never learned.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    ts: str | None = None
    text: str = ""
    is_final: bool = False
    in_doubt: bool = False


class Drafts:
    """The answers being written, and how often they may be shown."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown: Recent[UUID, Shown] = Recent(_MOST_DRAFTS)
        self._holds: Holds[str] = Holds(_MOST_DRAFTS)  # by chat
        self._updates: deque[datetime] = deque()

    def of(self, message_id: UUID) -> Shown:
        """What is shown of a message."""
        shown = self._shown.get(message_id)
        if shown is None:
            shown = Shown()
            self._shown.put(message_id, shown)
        return shown

    def may_show(self, chat_id: str) -> bool:
        """Whether a chat may be updated now; if so, that is noted."""
        now = self._clock.now()
        while self._updates and now - self._updates[0] >= _MINUTE:
            self._updates.popleft()
        if len(self._updates) >= _PER_MINUTE or any(self._holds.remaining(key, now) for key in (chat_id, _EVERYWHERE)):
            return False
        self._holds.hold(chat_id, now + _PACE)
        self._updates.append(now)
        return True

    def rest(self, wait: timedelta) -> None:
        """Show nothing for a while: Slack asked us to wait, and answers come first."""
        self._holds.hold(_EVERYWHERE, self._clock.now() + wait)


_EVERYWHERE = ""

# Spec of the channel: threads are remembered for 24 hours, 256 of them.
_REMEMBERED = timedelta(hours=24)
_MOST_THREADS = 256
_MOST_DRAFTS = 512

_PACE = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
# Slack Web API, chat.update is in tier 3: 50 calls a minute. Some are left for answers.
_PER_MINUTE = 40
