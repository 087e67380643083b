"""What the model is told besides the history."""

from __future__ import annotations

import string
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation.prompt import News, PromptFacts, is_silent, notes_digest, system_prompt, user_text, zone_of
from channels.message import Attachment, AttachmentKind, ChatType, IncomingMessage, MessageMetadata
from tests.support.builders import NOON, make_message

UTC = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def in_group(text: str = "hello", *, name: str = "Alice", title: str | None = None, user: str = "5") -> IncomingMessage:
    message = make_message(text, user=user, name=name, chat_id="-1", chat_type=ChatType.GROUP)
    return message.model_copy(update={"metadata": MessageMetadata(chat_type=ChatType.GROUP, chat_title=title)})


def in_zone(name: str | None) -> IncomingMessage:
    return make_message().model_copy(update={"metadata": MessageMetadata(chat_type=ChatType.PRIVATE, timezone=name)})


@given(st.text(), st.text(), st.text(min_size=1))
def test_names_are_data_that_cannot_leave_their_brackets(name: str, title: str, user: str) -> None:
    text = user_text([in_group("WORDS", name=name, title=title, user=user)], NOON, UTC)

    head, _, words = text.rpartition("\n")
    assert words == "WORDS"
    assert len(head.splitlines()) == 1
    assert head.startswith("[")
    assert head.endswith("]")
    assert not set('[]<>"@') & set(head[1:-1])


@given(st.text(min_size=1))
def test_names_of_attachments_are_data_that_cannot_leave_their_element(name: str) -> None:
    file = Attachment(id="1", kind=AttachmentKind.DOCUMENT, mime_type=name, filename=name)
    message = make_message("see").model_copy(update={"attachments": (file,)})

    block = user_text([message], NOON, UTC).split("<attachments>")[1]

    assert block.count("<") == 3  # the element, its end, and the end of the list
    assert block.count('"') in (6, 8)
    assert len(block.splitlines()) == 3


def test_time_stands_in_front_in_the_zone_of_the_reader() -> None:
    assert user_text([make_message("hi")], NOON, BERLIN) == "[2026-03-02 13:00 Monday Europe/Berlin]\nhi"


def test_private_chat_is_told_no_name() -> None:
    assert "Alice" not in user_text([make_message("hi", name="Alice")], NOON, UTC)


def test_quick_messages_are_told_in_order() -> None:
    assert user_text([make_message("one"), make_message("two")], NOON, UTC).endswith("]\none\ntwo")


def test_notes_stand_between_the_facts_and_the_words() -> None:
    text = user_text([make_message("hi")], NOON, UTC, News(notes="buy milk"))

    assert text.endswith("\n[notes of the day]\nbuy milk\n[end of notes]\nhi")


def test_changed_notes_are_told_apart() -> None:
    assert notes_digest("a") == notes_digest("a") != notes_digest("b")


@given(
    st.none()
    | st.sampled_from(["", "Nowhere/At_All", "../../etc/passwd", "/etc/localtime", "Europe", "UTC\0"])
    | st.text()
)
def test_unknown_zone_falls_back(name: str | None) -> None:
    zone = zone_of(in_zone(name), BERLIN)

    assert zone is BERLIN or zone.key == name


def test_known_zone_of_the_message_wins() -> None:
    assert zone_of(in_zone("Asia/Tokyo"), BERLIN).key == "Asia/Tokyo"


@pytest.mark.parametrize(
    "text",
    ["NO_REPLY", " NO_REPLY\n", "NO_REPLY.", "NO_REPLY...", "NO_REPLY !?", "NO_REPLY`*_~", "\nNO_REPLY:\n"],
)
def test_silent_token_with_a_little_punctuation_is_silence(text: str) -> None:
    assert is_silent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NO_REPL",
        "no_reply",
        "No_Reply",
        "NO_REPLY thanks",
        "NO_REPLY.....",
        "NO_REPLYa",
        "NO_REPLY1",
        "NO_REPLY…",
        "I say NO_REPLY",
        "*NO_REPLY*",
        "NO_REPLY. NO_REPLY",
        "NO_REPLY é",
    ],
)
def test_anything_else_is_said(text: str) -> None:
    assert not is_silent(text)


@given(st.text(alphabet=string.punctuation + string.whitespace, max_size=4))
def test_up_to_four_signs_after_the_token_keep_it_silent(signs: str) -> None:
    assert is_silent(f"NO_REPLY{signs}")


@pytest.mark.parametrize("chat_type", ChatType)
def test_only_a_shared_chat_is_told_how_to_be_silent(chat_type: ChatType) -> None:
    text = system_prompt(PromptFacts("Claw", "telegram", chat_type, ""))

    assert ("NO_REPLY" in text) is chat_type.is_shared
    assert "You are Claw" in text


def test_identity_comes_last_and_nothing_volatile_is_in_the_prefix() -> None:
    facts = PromptFacts("Claw", "telegram", ChatType.PRIVATE, "## SOUL.md\n\nkind")

    assert system_prompt(facts).endswith("---\n\n## SOUL.md\n\nkind")
    assert system_prompt(facts) == system_prompt(facts)
    assert "2026" not in system_prompt(facts)
