"""How gateway events become messages, without a gateway."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from channels.discord_events import Interaction, Message, MessageEvent, Place, normalize, normalize_interaction
from channels.message import AttachmentKind, ChatType

ME, ROLE, ALICE = "500", "510", "600"
HERE = Place(ME, own_role=ROLE)


def message(content: str = "hello", **fields: Any) -> Message:
    raw = {
        "id": "900",
        "channel_id": "800",
        "author": {"id": ALICE, "username": "alice", "global_name": "Alice"},
        "content": content,
        "timestamp": "2026-03-02T12:00:00.123000+00:00",
    }
    return Message.model_validate(raw | fields)


def interaction(**fields: Any) -> Interaction:
    raw = {
        "id": "175928847299117063",
        "application_id": "1",
        "type": 3,
        "token": "t",
        "channel_id": "800",
        "user": {"id": ALICE, "username": "alice"},
        "data": {"custom_id": "apr:11111111-2222-4333-8444-555555555555:y"},
    }
    return Interaction.model_validate(raw | fields)


@pytest.mark.parametrize(
    ("guild_id", "in_message", "in_place", "expected"),
    [
        (None, None, None, ChatType.PRIVATE),
        (None, 1, None, ChatType.PRIVATE),
        (None, 3, None, ChatType.GROUP),
        (None, None, 3, ChatType.GROUP),
        (None, 99, None, ChatType.UNKNOWN),
        ("700", 0, None, ChatType.GROUP),
        ("700", None, None, ChatType.GROUP),
        ("700", 1, None, ChatType.GROUP),
    ],
)
def test_chat_type(guild_id: str | None, in_message: int | None, in_place: int | None, expected: ChatType) -> None:
    made = normalize(message(guild_id=guild_id, channel_type=in_message), Place(ME, channel_type=in_place))

    assert made is not None
    assert made.metadata.chat_type is expected


def test_unknown_kind_of_chat_needs_a_mention() -> None:
    made = normalize(message(channel_type=99), HERE)

    assert made is not None
    assert not made.metadata.addressed_to_bot


def test_time_and_names_are_those_of_the_platform() -> None:
    made = normalize(message(guild_id="700", member={"nick": "Al"}), HERE)

    assert made is not None
    assert made.received_at == datetime(2026, 3, 2, 12, 0, 0, 123000, tzinfo=UTC)
    assert (made.sender.display_name, made.sender.username) == ("Al", "alice")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"<@{ME}> hi", "hi"),
        (f"<@!{ME}>hi", "hi"),
        (f"ask <@{ME}> now", "ask now"),
        (f"<@&{ROLE}>\nline", "line"),
        (f"<@{ME}1> <@&{ROLE}1>", f"<@{ME}1> <@&{ROLE}1>"),
        (f"<@{ME}> /model x", "/model x"),
    ],
)
def test_own_mentions_are_stripped_and_no_others(text: str, left: str) -> None:
    made = normalize(message(text, guild_id="700"), HERE)

    assert made is not None
    assert made.text == left


def test_mention_counts_by_the_list_as_well_as_by_the_text() -> None:
    by_list = normalize(message("hi", guild_id="700", mentions=[{"id": ME}]), HERE)
    by_text = normalize(message(f"hi <@!{ME}>", guild_id="700"), HERE)
    another = normalize(message("hi <@501>", guild_id="700", mentions=[{"id": "501"}]), HERE)

    assert [made.metadata.addressed_to_bot for made in (by_list, by_text, another) if made] == [True, True, False]


def test_forwarded_message_is_no_reply() -> None:
    made = normalize(message(message_reference={"type": 1, "message_id": "5", "channel_id": "9"}), HERE)

    assert made is not None
    assert made.metadata.reply_to is None


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", AttachmentKind.IMAGE),
        ("audio/ogg", AttachmentKind.AUDIO),
        ("text/plain; charset=utf-8", AttachmentKind.DOCUMENT),
        ("video/mp4", AttachmentKind.OTHER),
        (None, AttachmentKind.DOCUMENT),
    ],
)
def test_kind_of_attachment(mime_type: str | None, kind: AttachmentKind) -> None:
    file = {"id": "1", "filename": "f", "url": "http://cdn/f", "content_type": mime_type}

    made = normalize(message("", attachments=[file]), HERE)

    assert made is not None
    assert made.attachments[0].kind is kind
    assert ";" not in made.attachments[0].mime_type


@pytest.mark.parametrize(
    "custom_id",
    [
        "",
        "apr:",
        "apr:11111111-2222-4333-8444-555555555555:x",
        "apr:nonsense:y",
        "apr:11111111-2222-4333-8444-555555555555:y:y",
    ],
)
def test_button_that_is_not_ours_is_ignored(custom_id: str) -> None:
    assert normalize_interaction(interaction(data={"custom_id": custom_id}), HERE) is None


def test_interaction_without_a_user_or_of_another_kind_is_ignored() -> None:
    assert normalize_interaction(interaction(user=None), HERE) is None
    assert normalize_interaction(interaction(type=4), HERE) is None


def test_interaction_is_as_old_as_its_id_says() -> None:
    made = normalize_interaction(interaction(), HERE)

    assert made is not None
    # The example of Discord's own documentation of snowflakes.
    assert made.received_at == datetime(2016, 4, 30, 11, 18, 25, 796000, tzinfo=UTC)


def test_command_with_subcommand_is_the_text_a_person_would_type() -> None:
    options = [{"name": "add", "options": [{"name": "when", "value": 5}, {"name": "what", "value": "tea"}]}]
    raw = interaction(type=2, data={"name": "remind", "options": options})

    made = normalize_interaction(raw, HERE)

    assert made is not None
    assert made.text == "/remind add 5 tea"


@given(st.text(max_size=200))
def test_any_text_is_normalized_without_failing(text: str) -> None:
    made = normalize(message(text, guild_id="700"), HERE)

    assert made is None or made.text == made.text.strip()


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_foreign_payloads_are_refused_at_the_door(payload: object) -> None:
    with pytest.raises(ValidationError):
        MessageEvent.model_validate({"d": payload})
