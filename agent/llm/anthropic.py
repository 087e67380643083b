"""Anthropic's Messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from agent.llm.base import Completion, CompletionRequest, OnText
from agent.llm.errors import LLMError, TransientError
from agent.llm.messages import ChatMessage
from agent.llm.settings import AnthropicSettings
from agent.llm.wire.anthropic_messages import (
    AnswerCollector,
    Dialect,
    RequestEncoder,
    StreamError,
    decode_answer,
    first_dialect,
)
from agent.llm.wire.faults import ErrorAnswer, Refused, fault_of
from agent.llm.wire.models import model_ids

if TYPE_CHECKING:
    from agent.llm.wire.anthropic_sdk import AnthropicClient

# Anthropic, "Models overview", 2026-10: the best combination of speed and intelligence.
DEFAULT_MODEL = "claude-sonnet-5-5"

# Anthropic, "Models overview": the fifth generation and the last of the fourth take a million tokens.
_MILLION = re.compile(r"claude-(?:opus-4-[678]|sonnet-4-6|(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|preview))")


class AnthropicProvider:
    """A provider of Claude models. Building it is cheap: the SDK loads at `warm_up` or at the first call."""

    def __init__(self, settings: AnthropicSettings, *, model: str | None, timeout: timedelta) -> None:
        self._settings = settings
        self._timeout = timeout
        self._model = model or DEFAULT_MODEL
        self._encoder = RequestEncoder()
        self._dialects: dict[str, Dialect] = {}
        self._connecting = asyncio.Lock()
        self._client: AnthropicClient | None = None

    @property
    def name(self) -> str:
        return "anthropic"

    @property
    def model(self) -> str:
        return self._model

    @property
    def context_limit(self) -> int | None:
        """Known for Claude models."""
        if not self._model.startswith("claude-"):
            return None
        return 1_000_000 if _MILLION.match(self._model) else 200_000

    @property
    def supports_tools(self) -> bool:
        return True

    async def warm_up(self) -> None:
        """Load the SDK, in a thread, so that no user waits for it."""
        await self._connected()

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`. A temperature the model refuses is left out, now and in later calls."""
        client = await self._connected()
        model = request.model or self._model
        dialect = self._dialects.get(model) or first_dialect(model)
        while True:
            body = self._encoder.encode(request, model, dialect, stream=on_text is not None)
            try:
                completion = await self._send(client, body, request.messages, model, on_text)
            except Refused as refusal:
                learned = dialect.learn(refusal.answer.message)
                if learned is None:
                    raise fault_of(refusal.answer, datetime.now(UTC)) from refusal
                dialect = learned
            else:
                self._dialects[model] = dialect
                return completion

    async def list_models(self) -> tuple[str, ...]:
        client = await self._connected()
        try:
            return model_ids(await client.models())
        except Refused as refusal:
            raise fault_of(refusal.answer, datetime.now(UTC)) from refusal

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _send(
        self, client: AnthropicClient, body: bytes, history: Sequence[ChatMessage], model: str, on_text: OnText | None
    ) -> Completion:
        if on_text is None:
            return decode_answer(await client.post(body), history, model)
        collector = AnswerCollector()

        def take(event: bytes) -> bool:
            if text := collector.take(event):
                on_text(text)
            return collector.done

        try:
            await client.stream(body, take)
        except StreamError as error:
            raise _stream_fault(error) from error
        except TransientError:
            # The connection broke after the end was told: nothing is missing.
            if not collector.finished:
                raise
        return collector.completion(history, model)

    async def _connected(self) -> AnthropicClient:
        if self._client is None:
            async with self._connecting:
                if self._client is None:
                    self._client = await asyncio.to_thread(_connect, self._settings, self._timeout)
        return self._client


def _connect(settings: AnthropicSettings, timeout: timedelta) -> AnthropicClient:
    from agent.llm.wire.anthropic_sdk import AnthropicClient  # takes about a second

    return AnthropicClient(settings, timeout)


def _stream_fault(error: StreamError) -> LLMError:
    return fault_of(ErrorAnswer("anthropic", None, error.kind, error.message), datetime.now(UTC))
