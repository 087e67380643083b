from __future__ import annotations

import json
from typing import Any

import pytest

from agent.llm.base import CompletionRequest
from agent.llm.messages import AssistantTurn, ChatMessage, ImageRef, UserText
from agent.llm.repair import repair_history
from agent.llm.sight import sees_pictures
from agent.llm.tokens import estimate_message
from agent.llm.wire import anthropic_messages, openai_chat
from agent.store.codec import dump_message, load_message

CAT = ImageRef("c" * 64, "image/png", "attachments/cat.png", "users/x/attachments/cat.png", 3)
DOG = ImageRef("d" * 64, "image/jpeg", "attachments/dog.jpg", "users/x/attachments/dog.jpg", 3)
LOOK = UserText("look", (CAT,))
PICTURES = {CAT.digest: b"Y2F0", DOG.digest: b"ZG9n"}


def to_anthropic(*messages: ChatMessage, model: str = "claude-sonnet-5", pictures: Any = PICTURES) -> bytes:
    request = CompletionRequest("", messages, pictures=pictures)
    dialect = anthropic_messages.first_dialect(model)
    return anthropic_messages.RequestEncoder().encode(request, model, dialect, stream=False)


def to_openai(*messages: ChatMessage, model: str = "gpt-6.1-sol", pictures: Any = PICTURES) -> bytes:
    request = CompletionRequest("", messages, pictures=pictures)
    dialect = openai_chat.first_dialect(model, is_openai=True)
    return openai_chat.RequestEncoder().encode(request, model, dialect, stream=False)


def test_anthropic_is_shown_the_picture_behind_the_words() -> None:
    [message] = json.loads(to_anthropic(LOOK))["messages"]

    assert [block["type"] for block in message["content"]] == ["text", "text", "image"]
    assert message["content"][1]["text"] == "[the picture attachments/cat.png:]"
    assert message["content"][2]["source"] == {"type": "base64", "media_type": "image/png", "data": "Y2F0"}


def test_openai_is_shown_the_picture_behind_the_words() -> None:
    [message] = json.loads(to_openai(LOOK))["messages"]

    assert [part["type"] for part in message["content"]] == ["text", "text", "image_url"]
    assert message["content"][2]["image_url"] == {"url": "data:image/png;base64,Y2F0"}


def test_model_that_does_not_see_is_told_in_plain_text() -> None:
    [message] = json.loads(to_openai(LOOK, model="mistral-small"))["messages"]

    assert message["content"] == (
        "look\n[the picture attachments/cat.png is not shown here; image_analyze can look at it]"
    )


def test_picture_that_does_not_go_along_is_named() -> None:
    [message] = json.loads(to_anthropic(LOOK, pictures={}))["messages"]

    assert [block["type"] for block in message["content"]] == ["text", "text"]
    assert "is not shown here" in message["content"][1]["text"]


@pytest.mark.parametrize("encode", [to_anthropic, to_openai])
def test_what_was_sent_stays_as_it_was_when_more_comes(encode: Any) -> None:
    before = json.loads(encode(LOOK))["messages"]
    after = json.loads(encode(LOOK, AssistantTurn("a cat"), UserText("and this", (DOG,))))["messages"]

    strip = json.dumps(before).replace(', "cache_control": {"type": "ephemeral"}', "")
    assert json.dumps(after).replace(', "cache_control": {"type": "ephemeral"}', "").startswith(strip[:-1])


def test_picture_comes_back_out_of_the_store_and_old_rows_read_as_before() -> None:
    assert load_message(dump_message(LOOK)) == LOOK
    assert dump_message(UserText("hi")) == '{"u": "hi"}'
    assert load_message('{"u": "hi"}') == UserText("hi")


def test_picture_weighs_and_keeps_its_message_in_the_history() -> None:
    bare = UserText("", (CAT,))

    assert estimate_message(LOOK) > estimate_message(UserText("look")) + 1_000
    assert repair_history([bare]) == [bare]


@pytest.mark.parametrize(
    ("provider", "model", "sees"),
    [
        ("anthropic", "claude-sonnet-5-5", True),
        ("anthropic", "claude-3-haiku-20240307", True),
        ("anthropic", "claude-2.1", False),
        ("openai", "gpt-6.1-sol", True),
        ("openai", "gpt-4o-mini", True),
        ("openai", "o4-mini", True),
        ("openai", "o1-mini", False),
        ("openai", "o3-mini", False),
        ("openai", "gpt-4-turbo-preview", False),
        ("openai", "gpt-3.5-turbo", False),
        ("openai", "anthropic/claude-sonnet-4", True),
        ("openai", "google/gemini-2.5-flash", True),
        ("openai", "llama3.2-vision", True),
        ("openai", "qwen2.5vl:7b", True),
        ("openai", "qwen3-vl-8b", True),
        ("openai", "llama3.3", False),
        ("local", "smollm2-135m", False),
        ("plugged", "claude-sonnet-5", False),
    ],
)
def test_models_that_see_are_known(provider: str, model: str, sees: bool) -> None:
    assert sees_pictures(provider, model) == sees
