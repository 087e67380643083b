"""Short ways to make the values that most tests need."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from uuid import UUID

from agent.model.history import HistoryView
from agent.model.ids import SessionId, ThreadId, UserId
from agent.model.session import Thread, ThreadState
from channels.message import Address, ChatType, ConversationKey, IncomingMessage, MessageMetadata, Sender

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
_numbers = count(1)


def make_message(
    text: str = "hello",
    *,
    channel: str = "telegram",
    chat_id: str = "1",
    thread_id: str | None = None,
    user: str = "1",
    name: str = "Alice",
    chat_type: ChatType = ChatType.PRIVATE,
    message_id: str | None = None,
    structured: bool = False,
    addressed: bool = True,
    answers: str | None = None,
) -> IncomingMessage:
    """A message of one person; each has an id of its own unless one is given."""
    return IncomingMessage(
        message_id=message_id or f"m{next(_numbers)}",
        address=Address(channel=channel, chat_id=chat_id, thread_id=thread_id),
        sender=Sender(user_id=user, display_name=name),
        text=text,
        metadata=MessageMetadata(
            chat_type=chat_type, structured=structured, addressed_to_bot=addressed, answers_approval=answers
        ),
        received_at=NOON,
    )


def make_thread(chat_type: ChatType = ChatType.PRIVATE, *, user: str = "telegram:5") -> Thread:
    """A thread in its first turn."""
    return Thread(
        id=ThreadId(UUID(int=1)),
        session=SessionId(UUID(int=3)),
        user=UserId(user),
        key=ConversationKey(user, "telegram", "5"),
        generation=0,
        chat_type=chat_type,
        state=ThreadState.PROCESSING,
        epoch=1,
        turn_count=1,
        entry_count=0,
        view=HistoryView(),
        model=None,
        busy_mode=None,
        title="",
        created_at=NOON,
        updated_at=NOON,
    )
