"""What the webhook's channel and posts ask of the store: how messages stand, and the files that came with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent.clock import Clock
from agent.model import ids
from agent.store import approvals, blobs, inbox, outbox
from agent.store.base import Store, Transaction
from agent.store.blobs import Blob
from agent.store.errors import StoreUnavailable
from agent.store.inbox import Delivered
from channels.message import IncomingMessage, OutgoingMessage
from channels.webhook import Acted, Open, Replied, Standing, Unknown


class StoreDesk:
    """`channels.webhook.Desk` and `bot.web.webhook.Files` on the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def standing(self, message: IncomingMessage) -> Standing:
        try:
            return await self._store.read(partial(_standing, message))
        except StoreUnavailable:
            return Open()

    async def keep(self, files: Sequence[Blob]) -> None:
        """Keep the contents of files for a day, by when the turn has read them."""
        await self._store.write(partial(blobs.put, files=files, now=self._clock.now()))

    async def read(self, digest: str) -> bytes | None:
        return await self._store.read(partial(blobs.get, digest=digest))


def _standing(message: IncomingMessage, tx: Transaction) -> Standing:
    found = inbox.find(tx, message.delivery_key)
    if found is None:
        return Unknown()
    reply = _reply(tx, found) or _question(tx, found)
    if reply is None and not (found.waits or found.is_open):
        reply = outbox.newest_at(tx, message.replies_go_to)
    if reply is not None:
        return Replied(reply)
    return Open() if found.waits or found.is_open else Acted()


def _reply(tx: Transaction, found: Delivered) -> OutgoingMessage | None:
    """The reply of the turn that has taken the message, or of the command that it is."""
    if found.turn is not None:
        return outbox.get(tx, ids.reply_id(found.turn, "answer"))
    if found.thread is not None and found.seq is not None:
        return outbox.get(tx, ids.reply_id(found.thread, f"command {found.seq}"))
    return None


def _question(tx: Transaction, found: Delivered) -> OutgoingMessage | None:
    """The question that the message's turn waits with."""
    pending = approvals.open_of(tx, found.thread) if found.thread is not None and found.turn is not None else None
    if pending is None or pending.turn != found.turn:
        return None
    prompts = outbox.prompts_of(tx, pending.id)
    return prompts[-1].message if prompts else None
