"""What the message tool needs of the program: the outbox, and where the operator and others can be reached."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256

from agent.clock import Clock
from agent.model import ids
from agent.store import blobs, outbox
from agent.store.base import Store, Transaction
from agent.store.blobs import Blob
from agent.tools.base import ToolContext
from bot.gateway import Gateway
from bot.notifier import OperatorNotifier
from channels.message import Address, OutgoingMessage, ReplyKind


class StoreOutbox:
    """`agent.tools.builtin.posting.Outbox` on the store.

    The id of a message derives from the call and from what it says: a turn that is resumed does not send twice, and a
    model that gives two calls of a turn the same id loses nothing.
    """

    def __init__(self, store: Store, clock: Clock, gateway: Gateway) -> None:
        self._store = store
        self._clock = clock
        self._gateway = gateway

    async def post(self, context: ToolContext, address: Address, text: str, files: Sequence[Blob] = ()) -> bool:
        said = sha256("\0".join((address.model_dump_json(), text, *(each.file.digest for each in files))).encode())
        message = OutgoingMessage(
            id=ids.reply_id(context.turn, f"message:{context.call_id}:{said.hexdigest()}"),
            address=address,
            kind=ReplyKind.MESSAGE,
            text=text,
            files=tuple(each.file for each in files),
        )
        return await self._store.write(partial(self._put, context, message, files))

    def _put(self, context: ToolContext, message: OutgoingMessage, files: Sequence[Blob], tx: Transaction) -> bool:
        if outbox.is_there(tx, message.id):
            return False
        now = self._clock.now()
        blobs.put(tx, files, now)
        tx.after_commit(partial(self._gateway.offer, outbox.add(tx, message, now, context.turn)))
        return True


class Directory:
    """`agent.tools.builtin.message.Places` on the gateway and the operator's targets."""

    def __init__(self, gateway: Gateway, notifier: OperatorNotifier) -> None:
        self._gateway = gateway
        self._notifier = notifier

    @property
    def channels(self) -> Sequence[str]:
        return self._gateway.channels

    async def find(self, channel: str, target: str) -> Address | None:
        return await self._gateway.place_of(channel, target)

    async def operator(self, channel: str | None) -> Sequence[Address]:
        return await self._notifier.addresses(channel)
