"""Which job's question a word typed in a chat answers, where the chat itself has no open one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.model.approval import PendingApproval
from agent.model.ids import UserId
from agent.store import approvals, jobs
from agent.store.base import Transaction
from channels.message import Address


@dataclass(frozen=True, slots=True)
class Several:
    """More than one job asks there: a word cannot say which is meant."""


def answered_by_word(tx: Transaction, user: UserId, address: Address) -> PendingApproval | Several | None:
    """The one question that the person's jobs ask at this place; of several those asked in the very topic or thread."""
    asked = [
        (pending, approvals.asked_at(tx, pending.id))
        for thread in jobs.running_of(tx, user)
        if (pending := approvals.open_of(tx, thread)) is not None
    ]
    return choose(asked, address)


def choose(asked: Sequence[tuple[PendingApproval, Address]], here: Address) -> PendingApproval | Several | None:
    """The question meant by a word at `here`."""
    in_chat = [each for each in asked if (each[1].channel, each[1].chat_id) == (here.channel, here.chat_id)]
    found = [each for each in in_chat if each[1] == here] or in_chat
    if len(found) > 1:
        return Several()
    return found[0][0] if found else None
