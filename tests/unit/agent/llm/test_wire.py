from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.base import Completion, CompletionRequest, ToolDefinition
from agent.llm.errors import TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.llm.wire import anthropic_messages, openai_chat
from agent.llm.wire.calls import PartialCall, finished_calls, parse_call, wire_id, wire_name
from agent.llm.wire.fragments import Memo
from agent.llm.wire.models import model_ids
from agent.llm.wire.sse import EventReader
from agent.model.tool_call import ToolCall
from channels.text import whole_text

TOOL = ToolDefinition("look", "Looks.", {"type": "object", "properties": {}})
CALLS = (ToolCall("c1", "look", {"q": "é"}), ToolCall("c2", "look"))
HISTORY: tuple[ChatMessage, ...] = (
    UserText("hi"),
    AssistantTurn("Looking.", CALLS),
    ToolResult("c1", "look", "found"),
    ToolResult("c2", "look", "", is_error=True),
    UserText("and?"),
)


def openai_body(request: CompletionRequest, dialect: openai_chat.Dialect | None = None) -> dict[str, Any]:
    raw = openai_chat.RequestEncoder().encode(request, "m", dialect or openai_chat.Dialect(), stream=True)
    body = json.loads(raw)
    assert isinstance(body, dict)
    return body


def anthropic_body(request: CompletionRequest, encoder: anthropic_messages.RequestEncoder | None = None) -> Any:
    encoder = encoder or anthropic_messages.RequestEncoder()
    return json.loads(encoder.encode(request, "m", anthropic_messages.Dialect(), stream=False))


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def marks(value: Any) -> int:
    return json.dumps(value).count('"cache_control"')


def test_openai_body_is_the_documented_one() -> None:
    body = openai_body(CompletionRequest("Be brief.", HISTORY, (TOOL,), max_tokens=9, temperature=0.7))

    arguments = [call["function"].pop("arguments") for call in body["messages"][2]["tool_calls"]]
    assert [json.loads(text) for text in arguments] == [{"q": "é"}, {}]
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look"}},
                    {"id": "c2", "type": "function", "function": {"name": "look"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
            {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "tool_choice": "auto",
        "max_tokens": 9,
        "temperature": 0.7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_anthropic_turns_alternate_and_results_come_first_after_their_calls() -> None:
    body = without_marks(anthropic_body(CompletionRequest("Be brief.", HISTORY, (TOOL,), max_tokens=9)))

    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result", "tool_result", "text"]
    assert body["messages"][2]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "c2",
        "content": [{"type": "text", "text": "(no output)"}],
        "is_error": True,
    }
    assert body["messages"][1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "é"}}
    assert (body["max_tokens"], body["temperature"]) == (9, 0.7)


def test_anthropic_marks_prefix_and_the_two_newest_user_turns() -> None:
    body = anthropic_body(CompletionRequest("Be brief.", HISTORY, (TOOL,)))

    assert "cache_control" in body["system"][0]
    assert ["cache_control" in turn["content"][-1] for turn in body["messages"]] == [True, False, True]
    assert marks(body) == 3


def test_anthropic_marks_the_last_tool_where_there_is_no_system_text() -> None:
    body = anthropic_body(CompletionRequest("", (UserText("x"),), (TOOL, TOOL)))

    assert "system" not in body
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]


MESSAGES = st.lists(
    st.one_of(
        st.builds(UserText, st.text(min_size=1)),
        st.builds(AssistantTurn, st.text(min_size=1), st.sampled_from([(), CALLS])),
        st.builds(ToolResult, st.sampled_from(["c1", "c2"]), st.just("look"), st.text()),
    ),
    max_size=12,
)


@given(MESSAGES, MESSAGES)
def test_anthropic_blocks_sent_before_are_a_prefix_of_what_is_sent_next(
    before: list[ChatMessage], more: list[ChatMessage]
) -> None:
    encoder = anthropic_messages.RequestEncoder()

    def blocks(messages: list[ChatMessage]) -> list[Any]:
        body = without_marks(anthropic_body(CompletionRequest("s", messages), encoder))
        return [(turn["role"], block) for turn in body["messages"] for block in turn["content"]]

    first, second = blocks(before), blocks(before + more)

    assert second[: len(first)] == first


@given(MESSAGES)
def test_anthropic_roles_always_alternate_beginning_with_a_user(messages: list[ChatMessage]) -> None:
    body = anthropic_body(CompletionRequest("s", messages))

    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
    assert marks(body) <= 4


@given(MESSAGES, MESSAGES)
def test_openai_bytes_sent_before_are_a_prefix_of_what_is_sent_next(
    before: list[ChatMessage], more: list[ChatMessage]
) -> None:
    encoder = openai_chat.RequestEncoder()

    def messages_of(messages: list[ChatMessage]) -> bytes:
        raw = encoder.encode(CompletionRequest("s", messages), "m", openai_chat.Dialect(), stream=False)
        return raw[: raw.rindex(b'],"max_tokens"')]

    assert messages_of(before + more).startswith(messages_of(before))


def test_blank_texts_make_no_empty_blocks_or_turns() -> None:
    blank = CompletionRequest("", (UserText("x"), AssistantTurn(" "), UserText("\n"), UserText("y")))

    assert without_marks(anthropic_body(blank))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}
    ]


def test_malformed_call_is_sent_back_as_an_object_to_both() -> None:
    turn = AssistantTurn("", (ToolCall("c1", "look", malformed='{"a'),))

    openai = openai_body(CompletionRequest("", (turn,)))["messages"][0]
    anthropic = anthropic_body(CompletionRequest("", (UserText("x"), turn)))["messages"][1]

    expected = {"unreadable_arguments": '{"a'}
    assert openai["content"] is None
    assert json.loads(openai["tool_calls"][0]["function"]["arguments"]) == expected
    assert anthropic["content"][0]["input"] == expected


def test_half_a_surrogate_pair_does_not_break_a_request() -> None:
    assert openai_body(CompletionRequest("", (UserText("a\ud83d"),)))["messages"][0]["content"] == "a?"


def openai_answer(*chunks: dict[str, Any]) -> tuple[list[str], Completion]:
    collector = openai_chat.AnswerCollector()
    end: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    shown = [collector.take_chunk({"choices": [{"delta": chunk}]}) for chunk in chunks]
    collector.take_chunk(end)
    return shown, collector.completion((), "m")


def anthropic_answer(*deltas: dict[str, Any]) -> tuple[list[str], Completion]:
    collector = anthropic_messages.AnswerCollector()
    events = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    shown = [collector.take(json.dumps(event).encode()) for event in events]
    collector.take(json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}).encode())
    return shown, collector.completion((), "m")


def test_character_cut_by_the_stream_into_two_halves_is_whole_again() -> None:
    _, openai = openai_answer({"content": "hi \ud83d"}, {"content": "\ude00!"})
    _, anthropic = anthropic_answer(
        {"type": "text_delta", "text": "hi \ud83d"}, {"type": "text_delta", "text": "\ude00!"}
    )

    assert openai.text == anthropic.text == "hi \U0001f600!"


def test_half_a_character_of_a_model_is_replaced_in_the_answer_and_while_it_is_shown() -> None:
    openai_shown, openai = openai_answer({"content": "hi \ud83d there"})
    anthropic_shown, anthropic = anthropic_answer({"type": "text_delta", "text": "hi \ud83d there"})

    assert openai.text == anthropic.text == "hi \ufffd there"
    assert openai_shown == anthropic_shown == ["hi \ufffd there"]


@pytest.mark.parametrize("raw", ['{"q": ["a\\uD83D b", {"\\udc00": 1}]}', '{"q": ["a\ud83d b", {"\udc00": 1}]}'])
def test_half_a_character_in_arguments_is_replaced(raw: str) -> None:
    (call,) = finished_calls([PartialCall("c\ud83d", "lo\ud83dok", raw)], ())

    assert call == ToolCall("c\ufffd", "lo\ufffdok", {"q": ["a\ufffd b", {"\ufffd": 1}]})


@given(st.text(st.characters()))
def test_whole_text_can_be_encoded_and_leaves_whole_characters_alone(text: str) -> None:
    found = whole_text(text)

    assert found.encode().decode() == whole_text(found)
    assert found == text or any("\ud800" <= character <= "\udfff" for character in text)


def test_temperature_is_an_exact_decimal() -> None:
    raw = openai_chat.RequestEncoder().encode(
        CompletionRequest("", (UserText("x"),), temperature=0.699999988079071), "m", openai_chat.Dialect(), stream=False
    )

    assert b'"temperature":0.7,' in raw or b'"temperature":0.7}' in raw


def test_reasoning_model_of_openai_gets_the_newer_limit_and_no_temperature() -> None:
    body = openai_body(CompletionRequest("", (UserText("x"),)), openai_chat.first_dialect("o3", is_openai=True))

    assert "max_tokens" not in body
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 4096


@pytest.mark.parametrize(
    ("param", "message", "gone"),
    [
        ("max_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens"),
        ("temperature", "Only the default (1) value is supported.", "temperature"),
        ("", "stream_options is not allowed", "stream_options"),
    ],
)
def test_dialect_learns_from_a_refusal(param: str, message: str, gone: str) -> None:
    learned = openai_chat.Dialect().learn(param, message)

    assert learned is not None
    assert gone not in openai_body(CompletionRequest("", (UserText("x"),)), learned)


def test_dialect_turns_reasoning_off_for_calls_with_tools_only() -> None:
    learned = openai_chat.Dialect().learn("reasoning_effort", "Function tools with reasoning_effort are not supported")

    assert learned is not None
    assert openai_body(CompletionRequest("", (UserText("x"),), (TOOL,)), learned)["reasoning_effort"] == "none"
    assert "reasoning_effort" not in openai_body(CompletionRequest("", (UserText("x"),)), learned)
    assert learned.learn("reasoning_effort", "does not support 'none'") is None


def test_ids_of_another_provider_are_shortened_once_a_server_refuses_them() -> None:
    refusal = "Tool call id was call_a-long-one but must be a-z, A-Z, 0-9, with a length of 9."
    dialect = openai_chat.Dialect().learn("", refusal)
    turn = AssistantTurn("", (ToolCall("call_a-long-one", "look"), ToolCall("abcDEF123", "look")))
    results = (ToolResult("call_a-long-one", "look", "1"), ToolResult("abcDEF123", "look", "2"))

    messages = openai_body(CompletionRequest("", (turn, *results)), dialect)["messages"]

    asked = [call["id"] for call in messages[0]["tool_calls"]]
    assert asked == [message["tool_call_id"] for message in messages[1:]]
    assert len(asked[0]) == 9
    assert asked[0].isalnum()
    assert asked[1] == "abcDEF123"
    assert dialect is not None
    assert dialect.learn("", refusal) is None


def test_dialect_learns_nothing_from_other_refusals() -> None:
    assert openai_chat.Dialect().learn("messages[3].content", "invalid type") is None


@pytest.mark.parametrize("raw", ['{"a": NaN}', "[1]", '"text"', '{"a":', "nonsense", "[" * 100_000])
def test_arguments_that_are_no_json_object_are_kept_raw(raw: str) -> None:
    call = parse_call("c", "look", raw)

    assert (call.malformed, call.arguments) == (raw, {})


def test_no_arguments_are_an_empty_object() -> None:
    assert parse_call("c", "look", " ") == ToolCall("c", "look")


def test_missing_and_repeated_ids_are_replaced() -> None:
    history = (AssistantTurn("", (ToolCall("used", "look"),)),)
    parts = [PartialCall("", "a"), PartialCall("used", "b"), PartialCall("x", "c"), PartialCall("x", "d")]

    ids = [call.id for call in finished_calls(parts, history)]

    assert ids[2] == "x"
    assert len(set(ids)) == 4
    assert all(len(new) == 9 and new.isalnum() for new in (ids[0], ids[1], ids[3]))


def test_names_and_ids_are_mended_alike_each_time() -> None:
    assert wire_name("fs.read file") == "fs_read_file"
    assert wire_name("") == "unknown"
    assert wire_id("toolu_01A-b") == "toolu_01A-b"
    assert wire_id("functions.look:0") == wire_id("functions.look:0") != wire_id("functions.look:1")
    assert wire_id("functions.look:0").isalnum()


def test_calls_without_index_or_with_the_same_index_stay_apart() -> None:
    collector = openai_chat.AnswerCollector()
    for index, call_id in ((None, "a"), (0, "b"), (0, "c")):
        piece: dict[str, Any] = {"id": call_id, "function": {"name": "look", "arguments": "{}"}}
        piece |= {} if index is None else {"index": index}
        collector.take_chunk({"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": "tool_calls"}]})

    completion = collector.completion((), "m")

    assert [call.id for call in completion.calls] == ["a", "b", "c"]


@given(
    st.one_of(
        st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
    )
)
def test_reading_foreign_bytes_gives_an_answer_or_a_transient_fault(data: bytes) -> None:
    for module in (openai_chat, anthropic_messages):
        with pytest.raises(TransientError):
            module.decode_answer(data, (), "m")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "tool_calls", "function", "usage", "content", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["choices", "usage", "model", "type", "delta", "content_block", "index"]), JSON))
def test_oddly_shaped_chunks_never_crash_the_reader(chunk: dict[str, Any]) -> None:
    openai_chat.AnswerCollector().take_chunk(chunk)
    for kind in ("content_block_start", "content_block_delta", "message_start", "message_delta"):
        anthropic_messages.AnswerCollector().take(json.dumps({**chunk, "type": kind}).encode())


STREAM = (
    b': hello\n\ndata: {"a":1}\n\nevent: x\ndata:one\ndata: two\r\n\r\nevent: ping\ndata: {}\n\ndata: end\n\ndata: cut'
)
EVENTS = [b'{"a":1}', b"one\ntwo", b"end"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    reader = EventReader()
    edges = [0, *sorted(cuts), len(STREAM)]

    events = [event for start, end in pairwise(edges) for event in reader.feed(STREAM[start:end])]

    assert events == EVENTS


def test_memo_computes_once_per_object_and_stays_bounded() -> None:
    computed: list[str] = []

    def compute(message: UserText) -> bytes:
        computed.append(message.text)
        return message.text.encode()

    memo = Memo(compute, len, limit=100)
    kept = [UserText(f"{n:010}") for n in range(4)]
    for _ in range(3):
        assert [memo(message) for message in kept] == [message.text.encode() for message in kept]
    first_round = len(computed)
    for n in range(1000):
        memo(UserText(f"{n:010}"))

    assert first_round == 4
    assert len(memo) <= 10


def test_a_list_of_models_that_cannot_be_read_is_empty() -> None:
    assert model_ids(b'{"data": [{"id": "b"}, {"id": "a"}]}') == ("a", "b")
    for body in (b"", b"[]", b'{"data": 1}', b'{"data": [{}]}'):
        assert model_ids(body) == ()
