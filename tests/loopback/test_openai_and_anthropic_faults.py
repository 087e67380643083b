"""Broken answers, on sockets, with the real SDKs: each is a fault that says what to do, never half an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr

from agent.llm.anthropic import AnthropicProvider
from agent.llm.base import CompletionRequest, FinishReason, LLMProvider
from agent.llm.errors import (
    AuthenticationFailed,
    ContextTooLong,
    LLMError,
    ModelUnavailable,
    RateLimitedError,
    RequestRefused,
    TransientError,
)
from agent.llm.messages import UserText
from agent.llm.openai import OpenAIProvider
from agent.llm.settings import AnthropicSettings, OpenAISettings
from tests.support.fake_llm_api import Break, Call, Fail, FakeLLMApi, Say, fake_llm_api

KEY = "sk-canary-4711"
SECRET_TEXT = "my cat is called Zyzzyva"


@dataclass
class Subject:
    api: FakeLLMApi
    provider: LLMProvider


def build(kind: str, url: str, timeout: timedelta) -> LLMProvider:
    if kind == "openai":
        settings = OpenAISettings(api_key=SecretStr(KEY), base_url=f"{url}/v1")
        return OpenAIProvider(settings, model="m", timeout=timeout)
    return AnthropicProvider(AnthropicSettings(api_key=SecretStr(KEY), base_url=url), model="m", timeout=timeout)


@pytest.fixture(params=["openai", "anthropic"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with fake_llm_api() as api:
        provider = build(request.param, api.url, timedelta(seconds=20))
        yield Subject(api, provider)
        await provider.close()


@pytest.fixture(params=["openai", "anthropic"])
async def hasty(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """A provider that gives up on silence soon."""
    async with fake_llm_api() as api:
        provider = build(request.param, api.url, timedelta(milliseconds=150))
        yield Subject(api, provider)
        await provider.close()


def ask() -> CompletionRequest:
    return CompletionRequest(system="", messages=(UserText(SECRET_TEXT),))


async def streamed_fault(subject: Subject) -> TransientError:
    with pytest.raises(TransientError) as caught:
        await subject.provider.complete(ask(), lambda _: None)
    return caught.value


async def test_socket_dropped_in_mid_stream_is_transient(subject: Subject) -> None:
    subject.api.play(Break.DROP)

    await streamed_fault(subject)


async def test_stream_without_finish_reason_is_a_failure_not_an_answer(subject: Subject) -> None:
    subject.api.play(Break.END_EARLY)

    fault = await streamed_fault(subject)

    assert "ended early" in fault.detail


async def test_whole_answer_without_finish_reason_is_a_failure(subject: Subject) -> None:
    subject.api.play(Say("Hello", finish=None))

    with pytest.raises(TransientError, match="ended early"):
        await subject.provider.complete(ask())


async def test_chunk_that_is_no_json_is_not_skipped(subject: Subject) -> None:
    subject.api.play(Break.NO_JSON)

    fault = await streamed_fault(subject)

    assert "no JSON" in fault.detail


@pytest.mark.parametrize("kind", [Break.STALL, Break.SILENCE])
async def test_silent_stream_ends_at_the_idle_limit_and_hangs_up(hasty: Subject, kind: Break) -> None:
    hasty.api.play(kind, Say("I am back."))

    await streamed_fault(hasty)

    await asyncio.wait_for(hasty.api.left.wait(), 5)
    assert (await hasty.provider.complete(ask())).text == "I am back."


async def test_pings_alone_do_not_keep_a_call_alive_for_ever(hasty: Subject) -> None:
    hasty.api.play(Break.PINGS)

    await streamed_fault(hasty)


async def test_body_that_is_no_event_stream_is_a_failure(subject: Subject) -> None:
    subject.api.play(Break.NOT_SSE)

    await streamed_fault(subject)


async def test_error_event_in_a_stream_is_a_fault_without_its_text(subject: Subject) -> None:
    subject.api.play(Break.ERROR_EVENT)

    fault = await streamed_fault(subject)

    assert "529" in fault.detail
    assert "secret prompt" not in fault.detail


async def test_drop_after_everything_was_said_loses_nothing(subject: Subject) -> None:
    subject.api.play(Break.TOLD_THEN_DROP)

    completion = await subject.provider.complete(ask(), lambda _: None)

    assert (completion.text, completion.finish) == ("Hello", FinishReason.STOP)


async def test_connection_left_open_after_the_end_mark_is_not_waited_for(subject: Subject) -> None:
    subject.api.play(Break.LINGER)

    completion = await asyncio.wait_for(subject.provider.complete(ask(), lambda _: None), 5)

    assert completion.text == "Hello"
    await asyncio.wait_for(subject.api.left.wait(), 5)


async def test_connection_is_used_again_though_its_end_comes_late(subject: Subject) -> None:
    for _ in range(3):
        subject.api.play(Say("Hello", late_end=True))
        await subject.provider.complete(ask(), lambda _: None)

    assert subject.api.connections == 1


async def test_tool_arguments_that_are_no_json_are_kept_raw_in_a_stream(subject: Subject) -> None:
    subject.api.play(Say(calls=(Call("write", '{"path": "a.tx'),), finish="length"))

    completion = await subject.provider.complete(ask(), lambda _: None)

    assert completion.finish is FinishReason.LENGTH
    assert completion.calls[0].malformed == '{"path": "a.tx'
    assert completion.calls[0].arguments == {}


async def test_no_server_is_transient(subject: Subject) -> None:
    async with fake_llm_api() as gone:
        url = gone.url
    provider = build(subject.provider.name, url, timedelta(seconds=5))

    with pytest.raises(TransientError):
        await provider.complete(ask())

    await provider.close()


async def test_cancelling_hangs_up_at_once(subject: Subject) -> None:
    subject.api.play(Break.STALL)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(subject.provider.complete(ask(), lambda _: None))
        await subject.api.reached.wait()
        task.cancel()

    await asyncio.wait_for(subject.api.left.wait(), 5)
    assert task.cancelled()


async def test_connection_is_used_again(subject: Subject) -> None:
    for _ in range(3):
        await subject.provider.complete(ask())
        await subject.provider.complete(ask(), lambda _: None)

    assert subject.api.connections == 1


ERRORS: list[tuple[Fail, type[LLMError]]] = [
    (Fail(400, {"error": {"type": "invalid_request_error", "message": "bad field"}}), RequestRefused),
    (Fail(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}), ContextTooLong),
    (Fail(400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}}), ContextTooLong),
    (Fail(400, {"error": {"message": "the request exceeds the available context size"}}), ContextTooLong),
    (Fail(400, {"error": {"message": "Your credit balance is too low"}}), AuthenticationFailed),
    (Fail(401, {"error": {"message": "no"}}), AuthenticationFailed),
    (Fail(402, {"error": {"message": "pay"}}), AuthenticationFailed),
    (Fail(403, {"error": {"message": "no"}}), AuthenticationFailed),
    (Fail(403, {"error": {"code": "model_not_found", "message": "model_not_found"}}), ModelUnavailable),
    (Fail(404, {"error": {"message": "no model"}}), ModelUnavailable),
    (Fail(408), TransientError),
    (Fail(409), TransientError),
    (Fail(413, {"error": {"type": "request_too_large"}}), ContextTooLong),
    (Fail(422, {"error": {"message": "unprocessable"}}), RequestRefused),
    (Fail(429, {"error": {"message": "slow down"}}), RateLimitedError),
    (Fail(429, {"error": {"code": "insufficient_quota", "message": "insufficient_quota"}}), AuthenticationFailed),
    (Fail(500), TransientError),
    (Fail(502), TransientError),
    (Fail(529, {"error": {"type": "overloaded_error"}}), TransientError),
]


@pytest.mark.parametrize(("reply", "expected"), ERRORS, ids=[f"{r.status}-{e.__name__}" for r, e in ERRORS])
async def test_each_error_answer_says_what_to_do(subject: Subject, reply: Fail, expected: type[LLMError]) -> None:
    subject.api.play(reply)

    with pytest.raises(expected) as caught:
        await subject.provider.complete(ask(), lambda _: None)

    assert type(caught.value) is expected


async def test_rate_limit_carries_the_wait_in_seconds(subject: Subject) -> None:
    subject.api.play(Fail(429, headers={"Retry-After": "7"}))

    with pytest.raises(RateLimitedError) as caught:
        await subject.provider.complete(ask())

    assert caught.value.retry_after == timedelta(seconds=7)


async def test_rate_limit_carries_the_wait_given_as_a_date(subject: Subject) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    subject.api.play(Fail(429, headers={"Retry-After": date}))

    with pytest.raises(RateLimitedError) as caught:
        await subject.provider.complete(ask())

    assert caught.value.retry_after is not None
    assert timedelta(seconds=80) < caught.value.retry_after <= timedelta(seconds=90)


async def test_faults_hold_neither_key_nor_conversation(subject: Subject) -> None:
    subject.api.play(Fail(400, {"error": {"message": f"cannot read {SECRET_TEXT} with {KEY}"}}))

    with pytest.raises(RequestRefused) as caught:
        await subject.provider.complete(ask())

    assert KEY not in repr(caught.value)
    assert SECRET_TEXT not in repr(caught.value)
    assert caught.value.__cause__ is not None


async def test_key_that_cannot_stand_in_a_header_is_refused_plainly() -> None:
    settings = OpenAISettings(api_key=SecretStr("sk-…"), base_url="http://127.0.0.1:9/v1")
    provider = OpenAIProvider(settings, model="m", timeout=timedelta(seconds=5))

    with pytest.raises(AuthenticationFailed):
        await provider.complete(ask())
