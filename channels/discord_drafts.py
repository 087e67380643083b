"""Answers while they are written: the typing sign and edits of one message, at a pace that Discord likes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

import structlog

from channels.discord_connection import DiscordConnection
from channels.discord_render import DRAFT_PART, nonce_of, patch_body, post_body, render_draft
from channels.errors import ChannelError, RateLimited
from channels.message import Draft
from channels.pacing import Clock

log = structlog.get_logger(__name__)

Key = TypeVar("Key")
Value = TypeVar("Value")

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Pace:
    """When a chat was last troubled."""

    typed: datetime = _NEVER
    edited: datetime = _NEVER
    quiet_until: datetime = _NEVER


@dataclass(slots=True)
class _Shown:
    """The visible state of one draft."""

    platform_id: str | None = None
    body: str = ""
    finished: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()


class Drafts:
    """Shows drafts and knows which are on show. Old entries are forgotten; that costs an edit too many at most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paces: OrderedDict[str, _Pace] = OrderedDict()
        self._shown: OrderedDict[UUID, _Shown] = OrderedDict()

    async def show(self, connection: DiscordConnection, draft: Draft) -> str | None:
        """Show what may be shown now. The platform id of the visible draft, if there is one; no `ChannelError`."""
        shown = self._shown_of(draft.id)
        if shown.platform_id is None:
            shown.platform_id = draft.platform_id
        if shown.finished or not shown.idle.is_set():
            return shown.platform_id
        pace = self._pace_of(draft.address.chat_id)
        shown.idle.clear()
        try:
            await self._show(connection, draft, shown, pace)
        except RateLimited as error:
            pace.quiet_until = self._clock.now() + error.retry_after
        except ChannelError as error:
            log.info("discord_draft_not_shown", error=type(error).__name__)
        finally:
            shown.idle.set()
        return shown.platform_id

    async def finish(self, draft_id: UUID) -> tuple[str | None, str]:
        """Wait for an edit under way and allow no more; the platform id and the text on show, as far as known."""
        shown = self._shown_of(draft_id)
        shown.finished = True
        await shown.idle.wait()
        return shown.platform_id, shown.body

    def quieten(self, chat_id: str, duration: timedelta) -> None:
        """Show nothing in a chat for some time."""
        self._pace_of(chat_id).quiet_until = self._clock.now() + duration

    async def _show(self, connection: DiscordConnection, draft: Draft, shown: _Shown, pace: _Pace) -> None:
        now = self._clock.now()
        if now < pace.quiet_until:
            return
        chat_id = draft.address.chat_id
        body = render_draft(draft.text)
        if not body:
            if now - pace.typed >= _TYPING:
                pace.typed = now
                await connection.call("POST", "/channels/{channel_id}/typing", channel_id=chat_id)
            return
        if now - pace.edited < _EDITS or body == shown.body:
            return
        pace.edited = now
        if shown.platform_id is None:
            post = post_body(body, nonce_of(draft.id, DRAFT_PART), draft.reply_to, ())
            shown.platform_id = await connection.create(chat_id, post)
        else:
            await connection.edit(chat_id, shown.platform_id, patch_body(body, ()))
        shown.body = body

    def _shown_of(self, draft_id: UUID) -> _Shown:
        return _recent(self._shown, draft_id, _Shown)

    def _pace_of(self, chat_id: str) -> _Pace:
        return _recent(self._paces, chat_id, _Pace)


# Discord's client shows the typing sign for ten seconds.
_TYPING = timedelta(seconds=8)
# Discord allows about five edits in five seconds in one channel.
_EDITS = timedelta(seconds=1)
_REMEMBERED = 500


def _recent(entries: OrderedDict[Key, Value], key: Key, make: Callable[[], Value]) -> Value:
    """The entry of a key, made if need be, and the oldest entries dropped."""
    entry = entries.get(key)
    if entry is None:
        entry = entries[key] = make()
    entries.move_to_end(key)
    if len(entries) > _REMEMBERED:
        entries.popitem(last=False)
    return entry
