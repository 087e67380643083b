"""Tells a chat something that is no reply to a message: how the connection went that somebody asked for."""

from __future__ import annotations

from functools import partial

from agent.clock import Clock
from agent.store import outbox
from agent.store.base import Store, Transaction
from bot.gateway import Gateway
from channels.message import Address, OutgoingMessage, ReplyKind


class Teller:
    """Puts notices into the outbox."""

    def __init__(self, gateway: Gateway, store: Store, clock: Clock) -> None:
        self._gateway = gateway
        self._store = store
        self._clock = clock

    async def tell(self, address: Address, text: str) -> None:
        """Say `text` at an address; durable when this returns. Raises StoreError."""
        await self._store.write(partial(self._post, address, text))

    def _post(self, address: Address, text: str, tx: Transaction) -> None:
        message = OutgoingMessage(address=address, kind=ReplyKind.NOTICE, text=text)
        tx.after_commit(partial(self._gateway.offer, outbox.add(tx, message, self._clock.now())))
