"""What the page asks of the store: the operator's own threads on the page."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from agent.clock import Clock
from agent.conversation import replies
from agent.errors import NotYours
from agent.model import ids
from agent.model.ids import OPERATOR, ThreadId
from agent.model.session import Thread
from agent.store import approvals, blobs, conversations, outbox, turns
from agent.store.base import Store, Transaction
from bot.web.backend import FileView, History, PendingApprovalView, SentView, ThreadSummary, ToolCallView, TurnView
from channels.message import Address, ConversationKey
from channels.web import MAIN_CONVERSATION, WebChannel

_MAIN = ConversationKey(OPERATOR, WebChannel.name, MAIN_CONVERSATION)


class StoreBackend:
    """`WebBackend` on the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def threads(self) -> list[ThreadSummary]:
        return await self._store.read(_threads)

    async def history(self, thread_id: UUID | None) -> History:
        return await self._store.read(partial(_history, thread_id))

    async def file(self, digest: str) -> FileView:
        return await self._store.read(partial(_file, digest))

    async def address_of(self, thread_id: UUID) -> Address:
        return await self._store.write(partial(_rebind, ThreadId(thread_id)))


def _threads(tx: Transaction) -> list[ThreadSummary]:
    return [
        ThreadSummary(
            thread.id,
            conversations.address_of(tx, thread.id).chat_id,
            thread.title,
            thread.created_at,
            thread.updated_at,
            thread.state,
        )
        for thread in conversations.threads_of(tx, OPERATOR)
        if thread.key.channel == WebChannel.name
    ]


def _history(thread_id: UUID | None, tx: Transaction) -> History:
    thread = conversations.current(tx, _MAIN) if thread_id is None else _own(tx, ThreadId(thread_id))
    if thread is None:
        return History(ids.thread_id(_MAIN, 0), MAIN_CONVERSATION, ())
    records = turns.records(tx, thread.id)
    results = turns.tool_calls(tx, thread.id, [record.id for record in records])
    conversation = conversations.address_of(tx, thread.id).chat_id
    sent = outbox.sent_during(tx, [record.id for record in records], WebChannel.name)
    pending = approvals.open_of(tx, thread.id)
    return History(
        thread_id=thread.id,
        conversation=conversation,
        turns=tuple(
            TurnView(
                number=record.number,
                user_input=record.user_input,
                response=record.response or record.error,
                state=record.state,
                tool_calls=tuple(
                    ToolCallView(result.name, not result.is_error) for result in results.get(record.id, ())
                ),
                message_id=ids.reply_id(record.id, "answer"),
                messages=tuple(
                    SentView(message.id, message.text, message.files)
                    for message in sent.get(record.id, ())
                    if message.address.chat_id == conversation
                ),
            )
            for record in records
        ),
        pending_approval=None
        if pending is None
        else PendingApprovalView(
            pending.id, pending.tool, pending.description, replies.parameters(pending), pending.may_be_always
        ),
    )


def _file(digest: str, tx: Transaction) -> FileView:
    """Every message of the page's channel went to the operator, so a file of one is theirs."""
    for message in blobs.messages_with(tx, digest, WebChannel.name):
        file = next((each for each in message.files if each.digest == digest), None)
        data = blobs.get(tx, digest)
        if file is not None and data is not None:
            return FileView(file, data)
    raise NotYours(f"no file {digest} of the page")


def _rebind(thread_id: ThreadId, tx: Transaction) -> Address:
    """Where to write to reach this thread; a thread that its place has left is led to again."""
    if thread_id == ids.thread_id(_MAIN, 0) and conversations.get(tx, thread_id) is None:
        return Address(channel=WebChannel.name, chat_id=MAIN_CONVERSATION)  # shown to the page before it exists
    thread = _own(tx, thread_id)
    if conversations.current(tx, thread.key) != thread:
        conversations.bind(tx, thread.key, thread.id, thread.generation)
    return conversations.address_of(tx, thread.id)


def _own(tx: Transaction, thread_id: ThreadId) -> Thread:
    thread = conversations.get(tx, thread_id)
    if thread is None or thread.user != OPERATOR or thread.key.channel != WebChannel.name:
        raise NotYours(f"no thread {thread_id} of the page")
    return thread
