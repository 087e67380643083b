from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import AttachmentKind, ChatType, IncomingMessage
from channels.slack_events import Me, chat_type_of, normalize, normalize_command, normalize_delivery, normalize_press
from tests.support.builders import NOON

ME = Me("U0BOT", "B0BOT")
REQUEST = "11111111-2222-4333-8444-555555555555"


def event(text: str = "<@U0BOT> hello", **extra: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "channel": "C1",
        "channel_type": "channel",
        "user": "U1",
        "text": text,
        "ts": "100.000001",
    } | extra


def read(payload: Mapping[str, Any], **options: Any) -> IncomingMessage | None:
    return normalize(payload, ME, now=NOON, **options)


def taken(payload: Mapping[str, Any], **options: Any) -> IncomingMessage:
    message = read(payload, **options)
    assert message is not None
    return message


def mention_of(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "channel_type"} | {"type": "app_mention"}


@pytest.mark.parametrize("extra", [{}, {"thread_ts": "90.1"}, {"channel": "G1", "channel_type": "mpim"}])
def test_both_events_of_one_mention_are_the_same_message(extra: dict[str, Any]) -> None:
    said = event(**extra)

    assert taken(mention_of(said)) == taken(said)


def test_a_mention_in_a_channel_opens_a_thread_that_later_messages_share() -> None:
    opening = taken(event())
    later = taken(event("more", ts="101.1", thread_ts="100.000001"), joined={("C1", "100.000001")})

    assert opening.address.thread_id == "100.000001"
    assert later.address == opening.address
    assert later.metadata.addressed_to_bot
    assert opening.reply_address is None


def test_a_direct_chat_is_one_conversation_and_its_threads_are_others() -> None:
    top = taken(event("hi", channel="D1", channel_type="im"))
    below = taken(event("hi", channel="D1", channel_type="im", thread_ts="90.1"))

    assert top.metadata.chat_type is ChatType.PRIVATE
    assert (top.address.thread_id, below.address.thread_id) == (None, "90.1")


@pytest.mark.parametrize(
    ("channel", "word", "expected"),
    [
        ("D1", "im", ChatType.PRIVATE),
        ("D1", "", ChatType.PRIVATE),
        ("C1", "im", ChatType.UNKNOWN),
        ("C1", "channel", ChatType.GROUP),
        ("G1", "group", ChatType.GROUP),
        ("G1", "mpim", ChatType.GROUP),
        ("D1", "mpim", ChatType.GROUP),
        ("C1", "mpim", ChatType.GROUP),
        ("C1", "", ChatType.GROUP),
        ("G1", "", ChatType.GROUP),
        ("X1", "", ChatType.UNKNOWN),
        ("D1", "brandnew", ChatType.UNKNOWN),
    ],
)
def test_only_a_direct_chat_by_word_and_id_is_private(channel: str, word: str, expected: ChatType) -> None:
    assert chat_type_of(channel, word) is expected


def test_group_talk_without_a_mention_is_not_addressed_to_the_bot() -> None:
    for place in ({}, {"channel": "G1", "channel_type": "mpim"}, {"channel": "X1", "channel_type": "brandnew"}):
        assert not taken(event("lunch?", **place)).metadata.addressed_to_bot


def test_every_message_is_addressed_where_the_operator_said_so() -> None:
    assert taken(event("lunch?"), always_addressed=True).metadata.addressed_to_bot


def test_an_answer_to_the_bots_own_message_is_addressed_to_it() -> None:
    message = taken(event("and then?", thread_ts="90.1", parent_user_id="U0BOT"))

    assert message.metadata.addressed_to_bot
    assert message.metadata.is_reply_to_bot


def test_a_thread_of_another_channel_is_not_joined() -> None:
    message = taken(event("more", thread_ts="90.1"), joined={("C2", "90.1")})

    assert not message.metadata.addressed_to_bot


@pytest.mark.parametrize(
    "extra",
    [
        {"user": "U0BOT"},
        {"bot_id": "B0OTHER"},
        {"bot_id": "B0OTHER", "user": None},
        {"user": ""},
        {"user": "USLACKBOT"},
        {"subtype": "bot_message", "bot_id": "B0OTHER"},
        {"subtype": "message_changed", "message": {"text": "<@U0BOT> https://a.example", "ts": "100.000001"}},
        {"subtype": "message_changed", "message": 5, "previous_message": None},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"subtype": "some_new_subtype"},
        {"hidden": True},
        {"type": "reaction_added"},
        {"text": "<@U0BOT>"},
        {"text": "  "},
        {"channel": ""},
        {"ts": None},
        {"user": ["U1"]},
    ],
)
def test_bots_notices_and_empty_or_broken_events_are_no_messages(extra: dict[str, Any]) -> None:
    assert read(event(**extra), joined={("C1", "90.1")}) is None
    assert read(event(thread_ts="90.1", **extra), joined={("C1", "90.1")}) is None


def test_an_uploaded_file_comes_with_its_text() -> None:
    upload = {
        "id": "F1",
        "name": "a.png",
        "mimetype": "image/png",
        "size": 7,
        "url_private": "https://files.example/F1",
    }
    message = taken(event("summarise", channel="D1", channel_type="im", subtype="file_share", files=[upload]))

    (file,) = message.attachments
    assert message.text == "summarise"
    assert (file.id, file.kind, file.filename, file.size_bytes) == ("F1", AttachmentKind.IMAGE, "a.png", 7)
    assert file.source == "https://files.example/F1"


def test_a_file_without_text_is_a_message_and_a_hidden_file_is_none() -> None:
    direct = {"channel": "D1", "channel_type": "im", "subtype": "file_share", "text": ""}

    assert taken(event(**direct, files=[{"id": "F1", "url_private": "https://files.example/F1"}])).attachments
    assert read(event(**direct, files=[{"id": "F1", "mode": "hidden_by_limit"}])) is None
    assert read(event(**direct, files=None)) is None


def test_a_thread_reply_sent_to_the_channel_too_is_one_message_of_its_thread() -> None:
    message = taken(event(subtype="thread_broadcast", thread_ts="90.1"))

    assert message.address.thread_id == "90.1"
    assert message.text == "hello"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<@U0BOT> /model x", "/model x"),
        ("<@U0BOT>: hi", "hi"),
        ("<@U0BOT|optimclaw>, hi", "hi"),
        ("hey <@U0BOT> you", "hey you"),
        ("ask <@U7> or <@U8|sam>", "ask @U7 or @sam"),
        ("in <#C9|general> and <#C8>", "in #general and #C8"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
        ("see <https://a.example/x?a=1&amp;b=2>", "see https://a.example/x?a=1&b=2"),
        ("see <http://a.example|a.example>", "see a.example"),
        ("see <https://a.example|the page>", "see the page (https://a.example)"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&amp;lt; stays", "&lt; stays"),
        ("&lt;@U0BOT&gt; typed by hand", "<@U0BOT> typed by hand"),
        ("two\n lines", "two\n lines"),
    ],
)
def test_a_text_reads_as_its_writer_saw_it(raw: str, shown: str) -> None:
    assert taken(event(raw, channel="D1", channel_type="im")).text == shown


def press(value: str = f"apr:{REQUEST}:a", **extra: Any) -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": "U1", "username": "alice"},
        "channel": {"id": "C1"},
        "container": {"channel_id": "C1", "message_ts": "120.1"},
        "message": {"ts": "120.1", "thread_ts": "100.000001"},
        "trigger_id": "t1",
        "actions": [{"action_id": "choice:1", "value": value, "action_ts": "130.1"}],
    } | extra


@pytest.mark.parametrize(("answer", "approved", "always"), [("y", True, False), ("a", True, True), ("n", False, False)])
def test_a_pressed_button_answers_its_own_approval(answer: str, approved: bool, always: bool) -> None:
    message = normalize_press(press(f"apr:{REQUEST}:{answer}"), now=NOON)

    assert message is not None
    assert json.loads(message.text) == {"ExecApproval": {"request_id": REQUEST, "approved": approved, "always": always}}
    assert message.metadata.structured
    assert message.metadata.answers_approval == REQUEST


def test_a_press_belongs_to_the_conversation_of_its_question() -> None:
    message = normalize_press(press(), now=NOON)
    direct = normalize_press(
        press(channel={"id": "D1"}, message={"ts": "120.1"}, container={"channel_id": "D1"}), now=NOON
    )

    assert message is not None
    assert direct is not None
    assert message.address == taken(event()).address
    assert direct.address == taken(event("x", channel="D1", channel_type="im")).address
    assert direct.metadata.chat_type is ChatType.PRIVATE


def test_presses_of_two_people_are_two_deliveries_and_a_repeat_is_one() -> None:
    first, again = normalize_press(press(), now=NOON), normalize_press(press(), now=NOON)
    other = normalize_press(press(user={"id": "U2"}), now=NOON)

    assert first is not None
    assert again is not None
    assert other is not None
    assert first.delivery_key == again.delivery_key
    assert first.delivery_key != other.delivery_key


@pytest.mark.parametrize(
    "extra",
    [
        {"actions": []},
        {"actions": [{"action_id": "foreign", "value": f"apr:{REQUEST}:y", "action_ts": "1.1"}]},
        {"actions": [{"action_id": "choice:0", "action_ts": "1.1"}]},
        {"user": {}},
        {"user": None},
    ],
)
def test_a_press_that_is_not_ours_is_no_message(extra: dict[str, Any]) -> None:
    assert normalize_press(press(**extra), now=NOON) is None


@pytest.mark.parametrize(
    ("command", "words", "text"),
    [
        ("/optimclaw", "what is new", "what is new"),
        ("/optimclaw", "", "/help"),
        ("/optimclaw", "/model x", "/model x"),
        ("/model", "x", "/model x"),
        ("/stop", "", "/stop"),
    ],
)
def test_a_slash_command_is_the_text_it_stands_for(command: str, words: str, text: str) -> None:
    form = {
        "command": command,
        "text": words,
        "channel_id": "D1",
        "user_id": "U1",
        "user_name": "al",
        "trigger_id": "t",
    }

    message = normalize_command(form, now=NOON)

    assert message is not None
    assert message.text == text
    assert message.metadata.chat_type is ChatType.PRIVATE
    assert not message.metadata.structured


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["message", "C1", "U1", "im"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "event", "channel", "user", "text", "ts", "files", "actions", "command", "id"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "event", "command", "actions", "user", "channel"]), _JSON))
def test_no_delivery_makes_the_normalisation_fail(body: dict[str, object]) -> None:
    for kind in ("event_callback", "block_actions", body.get("type")):
        normalize_delivery(body | {"type": kind}, ME, now=NOON)


@given(st.text())
def test_what_a_person_typed_is_read_as_typed(typed: str) -> None:
    sent = typed.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    message = read(event(sent, channel="D1", channel_type="im"))

    assert (message.text if message else "") == typed.strip()


def changed(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    place = {"channel": "C1", "channel_type": "channel", "hidden": True, "ts": "999.000001"}
    return {"type": "message", "subtype": "message_changed", "message": new, "previous_message": old} | place


def inner(text: str, editor: str | None = None, **extra: Any) -> dict[str, Any]:
    edited = {"edited": {"user": editor, "ts": "998.0"}} if editor else {}
    return {"type": "message", "user": "U1", "text": text, "ts": "100.000001"} | edited | extra


def test_an_edit_is_the_same_message_with_its_new_text() -> None:
    first = taken(event("<@U0BOT> helo"))
    edit = taken(changed(inner("<@U0BOT> hello", "U1"), inner("<@U0BOT> helo")))

    assert (edit.text, edit.metadata.is_edit, first.metadata.is_edit) == ("hello", True, False)
    assert edit.original_key == first.delivery_key
    assert (edit.address, edit.metadata.addressed_to_bot) == (first.address, True)


def test_an_edit_in_a_joined_thread_is_addressed_and_an_upload_may_be_edited() -> None:
    new, old = (inner(t, e, thread_ts="90.1", subtype="file_share") for t, e in (("so", "U1"), ("si", None)))

    assert taken(changed(new, old), joined={("C1", "90.1")}).metadata.addressed_to_bot


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (inner("<@U0BOT> https://a.example", attachments=[{}]), inner("<@U0BOT> https://a.example")),
        (inner("<@U0BOT> a", "U1", attachments=[{}]), inner("<@U0BOT> a", "U1")),  # a preview after an edit
        (inner("<@U0BOT> b"), inner("<@U0BOT> a")),
        (inner("<@U0BOT> b", "U2"), inner("<@U0BOT> a")),
        (inner("<@U0BOT> b", "U0BOT", user="U0BOT"), inner("a", user="U0BOT")),
        (inner("<@U0BOT> b", "U3", user="U3", bot_id="B0OTHER"), inner("a", user="U3", bot_id="B0OTHER")),
        (inner("This message was deleted.", "U1", subtype="tombstone"), inner("<@U0BOT> a")),
        (inner("", "U1"), inner("<@U0BOT> a")),
    ],
)
def test_a_change_that_no_person_made_to_the_text_is_no_edit(new: dict[str, Any], old: dict[str, Any]) -> None:
    assert read(changed(new, old)) is None


def test_a_mention_added_by_an_edit_is_one_edit_though_slack_tells_twice() -> None:
    by_change = taken(changed(inner("<@U0BOT> hi", "U1"), inner("hi")))
    by_mention = taken(mention_of(event("<@U0BOT> hi", edited={"user": "U1", "ts": "998.0"})))

    assert by_change == by_mention
