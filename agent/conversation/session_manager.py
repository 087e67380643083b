"""Maps (user, channel, external thread) to sessions and threads, ahead of everything else that handles a message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from agent.conversation.ports import Hooks
from agent.errors import NotYours
from agent.model import ids
from agent.model.ids import SessionId, ThreadId, UserId
from agent.model.job import JOB_PLACE
from agent.model.session import Thread
from agent.store import conversations
from agent.store.base import Transaction
from channels.message import ConversationKey, IncomingMessage


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a message belongs."""

    session: SessionId
    thread: Thread


class SessionManager:
    """Resolves inside the transaction that admits a message: two first messages at once make one thread.

    Nothing is cached: a look-up in the writer's thread costs some hundredths of a millisecond, and the rows are always
    right, whichever process changed them.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def resolve(self, tx: Transaction, message: IncomingMessage, *, is_operator: bool, now: datetime) -> Resolved:
        """The session and thread of a message; made on first sight, and the same ones after a restart."""
        key = self.key(message, is_operator=is_operator)
        thread = conversations.resolve(tx, key, message.replies_go_to, message.metadata.chat_type, now)
        if thread.turn_count == 0 and conversations.began_at(tx, thread.session) == now:
            tx.after_commit(partial(self._hooks.session_started, thread.user, str(thread.session)))
        return Resolved(thread.session, thread)

    def begin_anew(self, tx: Transaction, message: IncomingMessage, *, is_operator: bool, now: datetime) -> Thread:
        """A fresh thread in the place of this message; what comes next from there goes to it."""
        key = self.key(message, is_operator=is_operator)
        generation = conversations.newest_generation(tx, key) + 1
        return conversations.open_thread(
            tx, key, message.replies_go_to, message.metadata.chat_type, now, generation=generation
        )

    def own(self, tx: Transaction, thread: ThreadId, user: UserId) -> Thread:
        """A conversation of this user. Raises NotYours for anybody else's, a job's, and one that does not exist."""
        found = conversations.get(tx, thread)
        if found is None or found.user != user or found.key.channel == JOB_PLACE:
            raise NotYours(f"no thread {thread} of this user")
        return found

    def switch(self, tx: Transaction, message: IncomingMessage, here: Thread, wanted: ThreadId) -> Thread:
        """Lead the place of this message to another thread of the same person.

        Raises NotYours for anybody else's, and for one that other eyes must not see here: a private thread is not
        opened in a shared chat, nor one shared chat's thread in another.
        """
        thread = self.own(tx, wanted, here.user)
        is_shared = message.metadata.chat_type.is_shared or thread.chat_type.is_shared
        if is_shared and _chat(thread.key) != _chat(here.key):
            raise NotYours(f"thread {wanted} belongs to another chat")
        conversations.bind(tx, here.key, thread.id, thread.generation)
        return thread

    @staticmethod
    def key(message: IncomingMessage, *, is_operator: bool) -> ConversationKey:
        """The conversation key of a message. The user is part of it: members of a group do not share a thread."""
        user = ids.user_id(message.address.channel, message.sender.user_id, is_operator=is_operator)
        return ConversationKey(user, message.address.channel, message.external_thread_id)


def _chat(key: ConversationKey) -> tuple[str, str]:
    return key.channel, key.external_thread_id.partition("/")[0]
