"""The pictures of an album that come by webhook: each in a request of its own, and one message all the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from channels.pacing import Clock
from channels.telegram_normalize import JsonObject, album_of, update_id_of

Take = Callable[[Sequence[JsonObject]], Awaitable[None]]


class AlbumLost(Exception):
    """The request that gathered an album ended without handing it on; Telegram is to deliver it again."""


@dataclass(slots=True)
class _Album:
    """What has come of an album. `taken`: its messages were handed on; decided once `ended` is set."""

    updates: dict[int, JsonObject] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class Albums:
    """Hands updates to `take`, those of an album together, in its order.

    The request with the first picture waits for the others; all of them end when the album has been taken. So it needs
    Telegram to deliver in parallel, as it does unless told otherwise; else each picture is a message.
    """

    def __init__(self, take: Take, clock: Clock) -> None:
        self._take = take
        self._clock = clock
        self._open: dict[str, _Album] = {}
        self._taken: OrderedDict[int, None] = OrderedDict()

    async def take(self, update: JsonObject) -> None:
        """Return once the update has been taken; raises what `take` raised, or `AlbumLost`."""
        name = album_of(update)
        if name is None:
            await self._take([update])
            return
        update_id = update_id_of(update)
        if update_id in self._taken:
            return  # delivered again: the confirmation was lost, and alone it would be a message of its own
        album = self._open.get(name)
        if album is not None:
            album.updates[update_id] = update
            await album.ended.wait()
            if not album.taken:
                raise AlbumLost
            return
        album = self._open[name] = _Album({update_id: update})
        await self._gather(name, album)

    async def _gather(self, name: str, album: _Album) -> None:
        try:
            for _ in range(_MOST_ROUNDS):
                before = len(album.updates)
                await self._clock.sleep(_QUIET)
                if len(album.updates) == before:
                    break
            del self._open[name]  # what comes from now on is too late for this message
            await self._take([album.updates[number] for number in sorted(album.updates)])
            album.taken = True
            self._remember(album.updates)
        finally:
            if self._open.get(name) is album:
                del self._open[name]
            album.ended.set()

    def _remember(self, updates: dict[int, JsonObject]) -> None:
        self._taken.update(dict.fromkeys(updates))
        while len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)


_QUIET = timedelta(seconds=0.4)  # the pictures of an album arrive within some tenths of a second
_MOST_ROUNDS = 10  # Telegram: an album has at most ten messages
_REMEMBERED = 1000
