from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import AttachmentKind, ChatType, IncomingMessage
from channels.telegram_normalize import STARTED, Json, Malformed, Me, chat_id_of, migration_of, normalize

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ME = Me(123, "Our_Bot")
GROUP = {"id": -100, "type": "supergroup", "title": "Crew"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ada"}
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada"}
US = {"id": 123, "is_bot": True, "first_name": "Ours"}


def update(
    text: str | None = "hello", *, chat: dict[str, Any] = PRIVATE, sender: dict[str, Any] | None = ADA, **more: Any
) -> dict[str, Any]:
    message = {"message_id": 5, "date": 1_772_000_000, "chat": chat, "from": sender, "text": text, **more}
    return {"update_id": 9, "message": {key: value for key, value in message.items() if value is not None}}


def read(raw: dict[str, Any], me: Me = ME) -> IncomingMessage | None:
    return normalize(raw, me, NOW)


def got(raw: dict[str, Any], me: Me = ME) -> IncomingMessage:
    message = read(raw, me)
    assert message is not None
    return message


def entity(text: str, part: str, kind: str, **more: Any) -> dict[str, Any]:
    before, _, _ = text.partition(part)
    units = [len(piece.encode("utf-16-le")) // 2 for piece in (before, part)]
    return {"type": kind, "offset": units[0], "length": units[1], **more}


def test_private_message_carries_sender_place_and_time() -> None:
    message = got(update())

    assert message.text == "hello"
    assert (message.message_id, message.address.chat_id, message.address.thread_id) == ("5", "7", None)
    assert (message.sender.user_id, message.sender.display_name, message.sender.username) == ("7", "Ada L", "ada")
    assert message.metadata.chat_type is ChatType.PRIVATE
    assert message.metadata.addressed_to_bot
    assert message.received_at == datetime.fromtimestamp(1_772_000_000, UTC)


@pytest.mark.parametrize("word", ["group", "supergroup", "channel", "private"])
def test_chat_type_is_as_given(word: str) -> None:
    assert got(update(chat={"id": -1, "type": word})).metadata.chat_type == word


def test_unknown_chat_type_counts_as_shared() -> None:
    message = got(update(chat={"id": -1, "type": "salon"}))

    assert message.metadata.chat_type is ChatType.UNKNOWN
    assert not message.metadata.addressed_to_bot


@pytest.mark.parametrize(
    "raw",
    [
        update(None),
        update("  \n"),
        update(sender=US),
        update(sender=ADA | {"is_bot": True}),
        update(sender=None),
        update(is_automatic_forward=True),
        update(None, new_chat_members=[ADA]),
        {"update_id": 1, "edited_message": update(sender=US)["message"]},
        {"update_id": 1, "edited_message": update(None, caption="new", media_group_id="g")["message"]},
        {"update_id": 1, "edited_message": update("/new@other_bot")["message"]},
        update(None, chat=GROUP, migrate_from_chat_id=-5),
        {"update_id": 1, "channel_post": update()["message"]},
        {"update_id": 1},
    ],
)
def test_what_nobody_said_to_us_is_no_message(raw: dict[str, Any]) -> None:
    assert read(raw) is None


def test_edit_is_the_same_message_with_its_new_text() -> None:
    first = got(update("@our_bot helo", chat=GROUP))
    edit = got({"update_id": 10, "edited_message": update("/new@our_bot hello", chat=GROUP)["message"]})

    assert (edit.text, edit.metadata.is_edit, first.metadata.is_edit) == ("/new hello", True, False)
    assert edit.original_key == first.delivery_key
    assert edit.metadata.addressed_to_bot


@pytest.mark.parametrize(
    ("chat_id", "notice", "expected"),
    [
        (-5, {"migrate_to_chat_id": -1005}, ("-5", "-1005")),
        (-1005, {"migrate_from_chat_id": -5}, ("-5", "-1005")),
        (-5, {}, None),
        (-5, {"migrate_to_chat_id": "x"}, None),
    ],
)
def test_both_notices_of_a_migration_give_the_old_and_the_new_id(
    chat_id: int, notice: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    assert migration_of(update(None, chat={"id": chat_id, "type": "group"}, **notice)) == expected


@pytest.mark.parametrize("raw", [{"update_id": 1}, {"update_id": 1, "message": 5}, {"update_id": 1, "message": {}}])
def test_broken_updates_migrate_nothing(raw: dict[str, Any]) -> None:
    assert migration_of(raw) is None


@pytest.mark.parametrize("text", ["😀 @our_bot hi", "😀 hi @OUR_BOT", "😀 @Our_Bot  hi"])
def test_mention_behind_an_emoji_is_found_and_removed(text: str) -> None:
    name = next(word for word in text.split() if word.startswith("@"))

    message = got(update(text, chat=GROUP, entities=[entity(text, name, "mention")]))

    assert message.metadata.addressed_to_bot
    assert "@" not in message.text
    assert message.text.split() == ["😀", "hi"]


def test_mention_by_user_id_is_found_and_removed() -> None:
    text = "😀 Ours, help"
    raw = update(text, chat=GROUP, entities=[entity(text, "Ours", "text_mention", user=US)])

    assert got(raw).metadata.addressed_to_bot
    assert got(raw).text == "😀 , help"


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("@our_bot hi", []),
        ("Ours hi", [{"type": "text_mention", "offset": 0, "length": 4, "user": ADA}]),
        ("@our_bot2 hi", [{"type": "mention", "offset": 0, "length": 9}]),
        ("@ada hi", [{"type": "mention", "offset": 0, "length": 4}]),
        ("@our_bot hi", [{"type": "code", "offset": 0, "length": 8}]),
        ("hi", []),
    ],
)
def test_group_message_without_our_name_is_not_addressed(text: str, entities: list[dict[str, Any]]) -> None:
    message = got(update(text, chat=GROUP, entities=entities))

    assert not message.metadata.addressed_to_bot
    assert message.text == text


def test_mention_in_a_caption_counts_and_comes_with_the_picture() -> None:
    caption = "@our_bot what is this"
    photo = [{"file_id": "small", "file_unique_id": "s"}, {"file_id": "big", "file_unique_id": "b", "file_size": 9}]
    raw = update(
        None, chat=GROUP, caption=caption, caption_entities=[entity(caption, "@our_bot", "mention")], photo=photo
    )

    message = got(raw)

    assert message.metadata.addressed_to_bot
    assert message.text == "what is this"
    assert [(a.source, a.kind, a.size_bytes) for a in message.attachments] == [("big", AttachmentKind.IMAGE, 9)]


def test_group_that_hears_all_addresses_every_message() -> None:
    assert got(update(chat=GROUP), Me(123, "Our_Bot", hears_all=True)).metadata.addressed_to_bot


def test_reply_to_us_is_addressed() -> None:
    message = got(update(chat=GROUP, reply_to_message={"message_id": 3, "from": US}))

    assert message.metadata.addressed_to_bot
    assert message.metadata.is_reply_to_bot
    assert message.metadata.reply_to == "3"


def test_reply_to_somebody_else_is_not_addressed() -> None:
    assert not got(update(chat=GROUP, reply_to_message={"message_id": 3, "from": ADA})).metadata.addressed_to_bot


def test_message_in_a_topic_we_made_is_no_reply_to_us() -> None:
    root = {"message_id": 3, "from": US, "forum_topic_created": {"name": "x", "icon_color": 1}}

    message = got(update(chat=GROUP, reply_to_message=root, message_thread_id=3, is_topic_message=True))

    assert not message.metadata.addressed_to_bot
    assert message.metadata.reply_to is None
    assert message.address.thread_id == "3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/new@Our_Bot", "/new"),
        ("/new@OUR_BOT", "/new"),
        ("/model@our_bot big one", "/model big one"),
        ("/model big one", "/model big one"),
    ],
)
def test_command_loses_our_name_and_nothing_else(text: str, expected: str) -> None:
    message = got(update(text, chat=GROUP, entities=[{"type": "bot_command", "offset": 0, "length": 4}]))

    assert message.text == expected
    assert message.metadata.addressed_to_bot


@pytest.mark.parametrize("chat", [GROUP, PRIVATE])
def test_command_for_another_bot_is_ignored(chat: dict[str, Any]) -> None:
    assert read(update("/new@other_bot", chat=chat)) is None


@pytest.mark.parametrize("text", ["/start", "/start deep-link", "/START@our_bot"])
def test_start_in_private_asks_for_a_greeting(text: str) -> None:
    assert got(update(text)).text == STARTED


def test_start_in_a_group_stays_a_command() -> None:
    assert got(update("/start", chat=GROUP)).text == "/start"


@pytest.mark.parametrize(
    ("more", "thread"),
    [
        ({"message_thread_id": 55, "is_topic_message": True}, "55"),
        ({"message_thread_id": 55}, None),
        ({"message_thread_id": 1, "is_topic_message": True}, None),
        ({}, None),
    ],
)
def test_only_a_topic_other_than_general_is_a_thread(more: dict[str, Any], thread: str | None) -> None:
    assert got(update(chat=GROUP, **more)).address.thread_id == thread


@pytest.mark.parametrize(
    ("field", "mime", "kind"),
    [
        ("document", "application/pdf", AttachmentKind.DOCUMENT),
        ("document", "image/png", AttachmentKind.IMAGE),
        ("voice", None, AttachmentKind.AUDIO),
        ("audio", "audio/flac", AttachmentKind.AUDIO),
        ("video", None, AttachmentKind.OTHER),
        ("sticker", None, AttachmentKind.IMAGE),
    ],
)
def test_files_are_attachments(field: str, mime: str | None, kind: AttachmentKind) -> None:
    file = {"file_id": "f", "file_unique_id": "u", "file_name": "n", "mime_type": mime}

    (attachment,) = got(update(None, **{field: file})).attachments

    assert (attachment.source, attachment.id, attachment.kind, attachment.filename) == ("f", "u", kind, "n")


def test_animation_is_one_attachment_though_telegram_names_it_twice() -> None:
    file = {"file_id": "f", "file_unique_id": "u"}

    assert len(got(update(None, animation=file, document=file)).attachments) == 1


def pressed(data: str, **more: Any) -> dict[str, Any]:
    message = {"message_id": 3, "date": 0, "chat": GROUP, "message_thread_id": 55, "is_topic_message": True}
    return {"update_id": 1, "callback_query": {"id": "q", "from": ADA, "message": message, "data": data, **more}}


@pytest.mark.parametrize(
    ("letter", "approved", "always"), [("y", "true", "false"), ("n", "false", "false"), ("a", "true", "true")]
)
def test_pressed_button_is_a_structured_answer_in_its_place(letter: str, approved: str, always: str) -> None:
    approval = str(uuid4())

    message = got(pressed(f"apr:{approval}:{letter}"))

    assert message.text == (
        f'{{"ExecApproval": {{"request_id": "{approval}", "approved": {approved}, "always": {always}}}}}'
    )
    assert (message.address.chat_id, message.address.thread_id) == ("-100", "55")
    assert message.metadata.answers_approval == approval
    assert message.metadata.addressed_to_bot
    assert message.received_at == NOW


APPROVAL = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@pytest.mark.parametrize("data", ["", "apr:1:y", f"apr:{APPROVAL}:x", f"xapr:{APPROVAL}:y", f"apr:{'-' * 36}:y"])
def test_foreign_button_data_is_no_answer(data: str) -> None:
    assert read(pressed(data)) is None


def test_typed_text_is_never_structured() -> None:
    message = got(update('{"ExecApproval": {"request_id": "x", "approved": true, "always": true}}'))

    assert not message.metadata.structured
    assert message.metadata.answers_approval is None


keys = st.sampled_from(
    ["message", "callback_query", "from", "chat", "id", "type", "text", "date", "entities", "is_bot", "photo", "offset"]
)
json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(keys, json_values, max_size=4), st.dictionaries(keys, json_values, max_size=6))
def test_no_payload_raises_anything_but_malformed(raw: dict[str, Json], changes: dict[str, Json]) -> None:
    mutated: dict[str, Json] = {"message": update(chat=GROUP)["message"] | changes}
    for payload in (raw, mutated):
        chat_id_of(payload)
        try:
            normalize(payload, ME, NOW)
        except Malformed:
            continue


@given(
    st.text(max_size=30),
    st.lists(
        st.tuples(st.sampled_from(["mention", "text_mention"]), st.integers(-3, 40), st.integers(-3, 40)), max_size=4
    ),
)
def test_odd_entities_are_survived(text: str, ranges: list[tuple[str, int, int]]) -> None:
    entities = [{"type": kind, "offset": at, "length": length, "user": US} for kind, at, length in ranges]

    read(update(text, chat=GROUP, entities=entities))
