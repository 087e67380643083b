"""Brings findings to the operator's private chat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from agent.clock import Clock
from agent.conversation.intake import private_chat_fact
from agent.routines.heartbeat import Person
from agent.store import facts, outbox
from agent.store.base import Store, Transaction
from bot.gateway import Gateway
from channels.message import Address, OutgoingMessage, ReplyKind

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Targets:
    """Who is told. `channel` None: on every channel where the operator is known. `user` None: the channel's owner."""

    channel: str | None
    user: str | None
    owners: Mapping[str, str]

    def candidates(self) -> list[tuple[str, str | None]]:
        """Channels to try, each with the user to reach there, or None where only their last chat is known."""
        names = [self.channel] if self.channel else list(self.owners)
        return [(name, (self.user if self.channel else None) or self.owners.get(name)) for name in names]


class OperatorNotifier:
    """Never tells a shared chat: an address is a private chat or none."""

    def __init__(self, targets: Targets, gateway: Gateway, store: Store, clock: Clock) -> None:
        self._targets = targets
        self._gateway = gateway
        self._store = store
        self._clock = clock

    async def notify_operator(self, text: str) -> bool:
        """Put the text into the outbox for each target; False if there is none."""
        found = await self.addresses(None)
        for address in found:
            await self._store.write(partial(self._post, address, text))
        return bool(found)

    async def notify_person(self, person: Person, text: str) -> bool:
        """Put the text into the outbox for the person's private chat; False if there is none."""
        address = await self._gateway.private_chat(person.scope.channel, person.scope.user_id)
        if address is not None:
            await self._store.write(partial(self._post, address, text))
        return address is not None

    async def addresses(self, channel: str | None) -> list[Address]:
        """The operator's private chat on a channel; without one, everywhere that the operator is told things."""
        candidates = self._targets.candidates() if channel is None else [(channel, self._targets.owners.get(channel))]
        return [address for target in candidates if (address := await self._address(*target))]

    async def _address(self, channel: str, user: str | None) -> Address | None:
        if user is not None:
            return await self._gateway.private_chat(channel, user)
        chat_id = await self._store.read(lambda tx: facts.get(tx, private_chat_fact(channel)))
        return Address(channel=channel, chat_id=chat_id) if chat_id else None

    def _post(self, address: Address, text: str, tx: Transaction) -> None:
        message = OutgoingMessage(address=address, kind=ReplyKind.FINDING, text=text)
        tx.after_commit(partial(self._gateway.offer, outbox.add(tx, message, self._clock.now())))
