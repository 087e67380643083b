"""Values come back from a column as they went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import ToolCall
from agent.store.codec import ADDRESS, INCOMING, OUTGOING, dump_message, load_message
from agent.store.types import Instant
from channels.message import (
    Address,
    Attachment,
    AttachmentKind,
    ChatType,
    Choice,
    IncomingMessage,
    MessageMetadata,
    OutgoingMessage,
    ReplyKind,
    Sender,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAME = TEXT.filter(bool)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(ToolCall, NAME, NAME, st.dictionaries(TEXT, JSON, max_size=3), st.none() | TEXT)
MESSAGES = (
    st.builds(UserText, TEXT)
    | st.builds(AssistantTurn, TEXT, st.lists(CALLS, max_size=3).map(tuple))
    | st.builds(ToolResult, NAME, NAME, TEXT, st.booleans())
)
ADDRESSES = st.builds(Address, channel=NAME, chat_id=TEXT, thread_id=st.none() | TEXT)
MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
ATTACHMENTS = st.builds(
    Attachment,
    id=TEXT,
    kind=st.sampled_from(AttachmentKind),
    mime_type=TEXT,
    filename=st.none() | TEXT,
    size_bytes=st.none() | st.integers(0),
    source=st.none() | TEXT,
)
METADATA = st.builds(
    MessageMetadata,
    chat_type=st.sampled_from(ChatType),
    addressed_to_bot=st.booleans(),
    is_reply_to_bot=st.booleans(),
    structured=st.booleans(),
    answers_approval=st.none() | TEXT,
    reply_to=st.none() | TEXT,
    timezone=st.none() | TEXT,
    chat_title=st.none() | TEXT,
)
INCOMINGS = st.builds(
    IncomingMessage,
    message_id=NAME,
    address=ADDRESSES,
    sender=st.builds(Sender, user_id=TEXT, display_name=TEXT, username=st.none() | TEXT),
    text=TEXT,
    attachments=st.lists(ATTACHMENTS, max_size=2).map(tuple),
    metadata=METADATA,
    received_at=MOMENTS,
    reply_address=st.none() | ADDRESSES,
)
OUTGOINGS = st.builds(
    OutgoingMessage,
    id=st.uuids(),
    address=ADDRESSES,
    kind=st.sampled_from(ReplyKind),
    text=TEXT,
    choices=st.lists(st.builds(Choice, label=TEXT, data=TEXT), max_size=3).map(tuple),
    approval_id=st.none() | TEXT,
    reply_to=st.none() | TEXT,
    edits=st.none() | TEXT,
)


@given(MESSAGES)
def test_history_message(message: ChatMessage) -> None:
    assert load_message(dump_message(message)) == message


@given(INCOMINGS)
def test_incoming_message(message: IncomingMessage) -> None:
    back = INCOMING.validate_json(INCOMING.dump_json(message, exclude_defaults=True))

    assert back == message
    assert back.delivery_key == message.delivery_key


@given(OUTGOINGS)
def test_outgoing_message(message: OutgoingMessage) -> None:
    assert OUTGOING.validate_json(OUTGOING.dump_json(message, exclude_defaults=True)) == message


@given(ADDRESSES)
def test_address(address: Address) -> None:
    assert ADDRESS.validate_json(ADDRESS.dump_json(address)) == address


@given(MOMENTS, MOMENTS)
def test_instant_is_exact_and_sorts_as_time_does(one: datetime, other: datetime) -> None:
    column, dialect = Instant(), sqlite.dialect()
    stored = column.process_bind_param(one, dialect)

    assert column.process_result_value(stored, dialect) == one
    assert stored is not None
    assert (stored < (column.process_bind_param(other, dialect) or 0)) == (one < other)
