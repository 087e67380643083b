"""Handing Telegram's updates on: in order within a chat, chats side by side, and none lost or in the way of others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from channels.base import Accept, OnMigration
from channels.message import IncomingMessage
from channels.pacing import Clock
from channels.telegram_normalize import (
    JsonObject,
    Malformed,
    Me,
    album_of,
    callback_query_id,
    chat_id_of,
    merge_album,
    migration_of,
    normalize,
    update_id_of,
)

log = structlog.get_logger(__name__)

# Answers a pressed button: the id of its query, and a short text or None.
Acknowledge = Callable[[str, str | None], Awaitable[None]]

_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Envelope:
    """One thing to accept: an update, or those of an album. `message` is None where they say nothing to us."""

    update_ids: tuple[int, ...]
    message: IncomingMessage | None
    callback_query: str | None = None
    migration: tuple[str, str] | None = None


class Receiver:
    """Hands updates to `accept` and remembers which of them have been taken while Telegram still holds them.

    `on_migration` is told of groups with a new id; it may fail as `accept` may. An update that can't be read is logged
    and dropped.
    """

    def __init__(
        self, me: Me, accept: Accept, acknowledge: Acknowledge, on_migration: OnMigration, clock: Clock
    ) -> None:
        self._me = me
        self._accept = accept
        self._acknowledge = acknowledge
        self._on_migration = on_migration
        self._clock = clock
        self._done: set[int] = set()
        self._failures: Counter[int] = Counter()

    async def take(self, updates: Sequence[JsonObject]) -> None:
        """Take an update, or those of one album; what `accept` raises goes up."""
        for envelope in self._envelopes(updates):
            await self._hand_on(envelope)

    async def take_batch(self, batch: Sequence[JsonObject]) -> int | None:
        """Take updates and give the id of the first that could not be accepted, None if there is none.

        It must come again, and so may all after it: those already taken are skipped then. One that keeps failing while
        others get through is given up after some tries, so that it does not block the bot for ever.
        """
        chats: dict[int | None, list[JsonObject]] = {}
        for update in batch:
            if update_id_of(update) not in self._done:
                chats.setdefault(chat_id_of(update), []).append(update)
        queues = [self._envelopes(updates) for updates in chats.values()]
        before = len(self._done)
        results = await asyncio.gather(*map(self._in_order, queues), return_exceptions=True)
        others_got_through = len(self._done) > before
        for queue, result in zip(queues, results, strict=True):
            if isinstance(result, Exception):
                failed = next(envelope for envelope in queue if not self._done.issuperset(envelope.update_ids))
                self._note_failure(failed, result, counts=others_got_through)
            elif isinstance(result, BaseException):
                raise result
        present = [update_id_of(update) for update in batch]
        stuck = min((update_id for update_id in present if update_id not in self._done), default=None)
        self._done = {update_id for update_id in self._done if stuck is not None and update_id > stuck}
        return stuck

    async def _in_order(self, queue: Iterable[_Envelope]) -> None:
        for envelope in queue:
            await self._hand_on(envelope)
            self._done.update(envelope.update_ids)

    async def _hand_on(self, envelope: _Envelope) -> None:
        if envelope.migration is not None:
            await self._on_migration(*envelope.migration)
        accepted = await self._accept(envelope.message) if envelope.message is not None else None
        if envelope.callback_query is not None:
            await self._acknowledge(envelope.callback_query, accepted.note if accepted else None)

    def _note_failure(self, envelope: _Envelope, error: Exception, *, counts: bool) -> None:
        # The error's text may hold the message, for instance as a parameter of a statement.
        log.error("update_not_accepted", updates=envelope.update_ids, error=type(error).__name__)
        first = envelope.update_ids[0]
        if not counts:
            return
        self._failures[first] += 1
        if self._failures[first] >= _MOST_TRIES:
            log.error("update_given_up", updates=envelope.update_ids, tries=_MOST_TRIES)
            del self._failures[first]
            self._done.update(envelope.update_ids)

    def _envelopes(self, updates: Sequence[JsonObject]) -> list[_Envelope]:
        """Updates of one chat; those of an album are one envelope, though others may have spoken in between."""
        groups: dict[str | int, list[JsonObject]] = {}
        for update in updates:
            groups.setdefault(album_of(update) or update_id_of(update), []).append(update)
        return [self._envelope(group) for group in groups.values()]

    def _envelope(self, updates: Sequence[JsonObject]) -> _Envelope:
        messages = [message for update in updates if (message := self._read(update)) is not None]
        return _Envelope(
            tuple(update_id_of(update) for update in updates),
            merge_album(messages) if len(messages) > 1 else next(iter(messages), None),
            callback_query_id(updates[0]),
            migration_of(updates[0]),
        )

    def _read(self, update: JsonObject) -> IncomingMessage | None:
        try:
            message = normalize(update, self._me, self._clock.now())
        except Malformed as error:
            log.warning("update_skipped", update_id=update_id_of(update), reason=str(error))
            return None
        if "edited_message" in update:
            log.info("edit_received", update_id=update_id_of(update), is_for_us=message is not None)
        return message
