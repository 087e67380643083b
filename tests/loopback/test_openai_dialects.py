"""Models that refuse a parameter are met half way, once, and it is remembered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import SecretStr

from agent.llm.anthropic import AnthropicProvider
from agent.llm.base import CompletionRequest
from agent.llm.errors import AuthenticationFailed, RequestRefused
from agent.llm.messages import UserText
from agent.llm.openai import OpenAIProvider
from agent.llm.settings import AnthropicSettings, OpenAISettings
from tests.support.fake_llm_api import Fail, FakeLLMApi, Say, fake_llm_api

ASK = CompletionRequest("Be brief.", (UserText("hi"),))


def openai_on(api: FakeLLMApi, key: str | None = None) -> OpenAIProvider:
    settings = OpenAISettings(api_key=SecretStr(key) if key else None, base_url=f"{api.url}/v1")
    return OpenAIProvider(settings, model="m", timeout=timedelta(seconds=20))


def refusal(param: str | None, message: str) -> Fail:
    return Fail(400, {"error": {"message": message, "param": param, "code": "unsupported_parameter"}})


async def test_refused_parameters_are_changed_and_remembered_for_the_model() -> None:
    async with fake_llm_api() as api:
        provider = openai_on(api)
        api.play(
            refusal("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
            refusal("temperature", "Unsupported value: 'temperature' does not support 0.7."),
            Say("Hello"),
        )

        completion = await provider.complete(ASK)
        await provider.complete(ASK)
        await provider.close()

    assert completion.text == "Hello"
    assert len(api.requests) == 4
    assert {"max_tokens", "temperature"}.isdisjoint(api.requests[-1].body)
    assert api.requests[-1].body["max_completion_tokens"] == 4096


async def test_server_that_takes_neither_limit_is_not_asked_for_ever() -> None:
    async with fake_llm_api() as api:
        provider = openai_on(api)
        for _ in range(6):
            api.play(refusal(None, "neither max_tokens nor max_completion_tokens"))

        with pytest.raises(RequestRefused):
            await provider.complete(ASK)

        await provider.close()

    assert len(api.requests) <= 5


async def test_server_without_a_key_gets_a_dummy() -> None:
    async with fake_llm_api() as api:
        provider = openai_on(api)
        await provider.complete(ASK)
        await provider.close()

    assert api.requests[0].headers["authorization"] == "Bearer none"


async def test_key_is_sent_as_the_platform_wants_it() -> None:
    async with fake_llm_api() as api:
        first = openai_on(api, " sk-1\n")
        second = AnthropicProvider(
            AnthropicSettings(api_key=SecretStr("sk-2"), base_url=api.url), model="m", timeout=timedelta(seconds=20)
        )
        await first.complete(ASK)
        await second.complete(ASK)
        await first.close()
        await second.close()

    assert api.requests[0].headers["authorization"] == "Bearer sk-1"
    assert api.requests[1].headers["authorization"] == "Bearer sk-2"
    assert api.requests[1].headers["anthropic-version"]
    assert [request.path for request in api.requests] == ["/v1/chat/completions", "/v1/messages"]


async def test_model_of_the_request_wins() -> None:
    async with fake_llm_api() as api:
        provider = openai_on(api)
        await provider.complete(CompletionRequest("", (UserText("x"),), model="other"))
        await provider.close()

    assert api.requests[0].body["model"] == "other"


async def test_claude_that_refuses_a_temperature_is_asked_without() -> None:
    async with fake_llm_api() as api:
        settings = AnthropicSettings(api_key=SecretStr("k"), base_url=api.url)
        provider = AnthropicProvider(settings, model="m", timeout=timedelta(seconds=20))
        api.play(Fail(400, {"error": {"type": "invalid_request_error", "message": "`temperature` is not supported"}}))

        await provider.complete(ASK)
        await provider.complete(ASK)
        await provider.close()

    assert ["temperature" in request.body for request in api.requests] == [True, False, False]


async def test_thinking_models_of_claude_get_room_to_think_and_no_temperature() -> None:
    async with fake_llm_api() as api:
        settings = AnthropicSettings(api_key=SecretStr("k"), base_url=api.url)
        provider = AnthropicProvider(settings, model=None, timeout=timedelta(seconds=20))
        await provider.complete(ASK)
        await provider.close()

    assert "temperature" not in api.requests[0].body
    assert api.requests[0].body["max_tokens"] > ASK.max_tokens


async def test_warm_up_sends_nothing() -> None:
    async with fake_llm_api() as api:
        provider = openai_on(api)
        await provider.warm_up()
        await provider.close()

    assert api.requests == []
    assert api.connections == 0


def limit_of(model: str, base_url: str | None = None) -> int | None:
    return OpenAIProvider(OpenAISettings(base_url=base_url), model=model, timeout=timedelta(seconds=1)).context_limit


def test_window_is_known_for_openai_itself_but_not_for_a_namesake_elsewhere() -> None:
    assert limit_of("gpt-6.1-sol") == 1_050_000
    assert limit_of("gpt-5-mini") == 400_000
    assert limit_of("gpt-6.1-sol", "http://127.0.0.1:1/v1") is None
    assert limit_of("unheard-of") is None


def test_window_is_known_for_claude() -> None:
    def limit(model: str) -> int | None:
        return AnthropicProvider(AnthropicSettings(), model=model, timeout=timedelta(seconds=1)).context_limit

    assert [limit(m) for m in ("claude-sonnet-5-5", "claude-haiku-4-5", "other")] == [1_000_000, 200_000, None]


async def test_claude_without_a_key_says_so_and_searches_no_further() -> None:
    provider = AnthropicProvider(AnthropicSettings(), model=None, timeout=timedelta(seconds=1))

    with pytest.raises(AuthenticationFailed, match="no key"):
        await provider.complete(ASK)


async def test_refused_list_of_models_is_a_fault_of_ours() -> None:
    async with fake_llm_api() as api:
        api.models = Fail(400, {"error": {"message": "no"}})
        provider = openai_on(api)

        with pytest.raises(RequestRefused):
            await provider.list_models()

        await provider.close()
