"""The keys that make redeliveries harmless."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.store.codec import INCOMING
from channels.message import IncomingMessage
from tests.support.builders import make_message


def edited(message: IncomingMessage, text: str) -> IncomingMessage:
    metadata = message.metadata.model_copy(update={"is_edit": True})
    return message.model_copy(update={"text": text, "metadata": metadata})


@given(st.text(), st.text())
def test_edit_has_a_key_of_its_own_that_depends_on_its_text_and_knows_the_original(first: str, second: str) -> None:
    message = make_message()
    one, again, other = edited(message, first), edited(message, first), edited(message, second)

    assert one.original_key == message.original_key == message.delivery_key
    assert one.delivery_key == again.delivery_key != message.delivery_key
    assert (one.delivery_key == other.delivery_key) == (first == second)


def test_half_a_character_is_replaced_and_two_halves_are_joined() -> None:
    message = make_message("a \ud83d, \ud83d\ude00", name="\udc00")

    assert (message.text, message.sender.display_name) == ("a \ufffd, \U0001f600", "\ufffd")
    assert INCOMING.validate_json(INCOMING.dump_json(message)) == message


def test_edits_of_two_messages_have_different_keys() -> None:
    assert edited(make_message(), "same").delivery_key != edited(make_message(), "same").delivery_key
