"""Whether somebody may still talk to the bot: what they ordered ends where their access does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from agent.model.routine import Routine
from agent.safety.access import EVERYBODY, AccessPolicy, Allowed, decide_access
from agent.store import conversations, pairings
from agent.store.base import Transaction
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, Sender

CLOSED = AccessPolicy()
_ID = re.compile(r"[0-9]+|[A-Z0-9]+")


class OwnerAccess:
    """Asks the rules of the door, as if the owner wrote where the routine was made."""

    def __init__(self, policies: Mapping[str, AccessPolicy]) -> None:
        self._policies = policies

    def is_open(self, tx: Transaction, routine: Routine, now: datetime) -> bool:
        """Whether a message of the owner, there and now, would be taken.

        By which names they are known is not kept, so rules that list names do not shut anybody out here.
        """
        origin = routine.plan.origin
        return routine.is_operators or self.may_talk(tx, origin.address, origin.sender, origin.chat_type, now)

    def may_talk(self, tx: Transaction, address: Address, sender: str, chat_type: ChatType, now: datetime) -> bool:
        """The same for a person at a place."""
        policy = self._policies.get(address.channel, CLOSED)
        if any(e != EVERYBODY and not _ID.fullmatch(e) for e in policy.allow_from):
            return True
        message = IncomingMessage(
            message_id="access",
            address=address,
            sender=Sender(user_id=sender),
            text="access",
            metadata=MessageMetadata(chat_type=chat_type),
            received_at=now,
        )
        is_paired = pairings.is_paired(tx, address.channel, sender)
        former = conversations.former_chat(tx, address.channel, address.chat_id)
        return isinstance(decide_access(policy, message, is_paired=is_paired, former_chat=former), Allowed)
