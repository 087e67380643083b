"""Who has a checklist of their own: everybody who has talked to the bot and still may."""

from __future__ import annotations

from collections.abc import Sequence

from agent.clock import Clock
from agent.routines.access import OwnerAccess
from agent.routines.heartbeat import Person
from agent.store import conversations
from agent.store.base import Store, Transaction
from agent.workspace.scope import PersonScope
from channels.message import Address, ChatType


class PeopleWithAccess:
    """Reads them anew each time: access that was taken back ends a heartbeat at once."""

    def __init__(self, store: Store, clock: Clock, access: OwnerAccess) -> None:
        self._store = store
        self._clock = clock
        self._access = access

    async def list(self) -> Sequence[Person]:
        """In the order of their ids."""
        return await self._store.read(self._read)

    def _read(self, tx: Transaction) -> Sequence[Person]:
        now = self._clock.now()
        found: list[Person] = []
        for user in conversations.people(tx):
            channel, _, identifier = user.partition(":")
            place = Address(channel=channel, chat_id=identifier)
            if self._access.may_talk(tx, place, identifier, ChatType.PRIVATE, now):
                found.append(Person(user, PersonScope(channel, identifier)))
        return found
