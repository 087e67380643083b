"""Answers the same question twice with one call."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from agent.clock import Clock
from agent.llm.base import Completion, CompletionRequest, FinishReason, LLMProvider, OnText, Usage
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import JsonValue

KEEP_FOR = timedelta(seconds=3600)
MAX_ENTRIES = 1000


def key_of(request: CompletionRequest, provider: str, model: str) -> str:
    """What two requests have in common that may share an answer: model, system text, messages and parameters."""
    told = [
        provider,
        request.model or model,
        request.system,
        request.max_tokens,
        request.temperature,
        [_plain(message) for message in request.messages],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def may_keep(completion: Completion) -> bool:
    """Whether an answer is whole: said to its end, in words."""
    return completion.finish is FinishReason.STOP and not completion.calls and bool(completion.text.strip())


@dataclass(frozen=True, slots=True)
class _Entry:
    completion: Completion
    at: datetime


class ResponseCacheProvider:
    """Keeps answers to requests without tools for an hour, the thousand used last. A kept answer costs nothing."""

    def __init__(self, inner: LLMProvider, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def context_limit(self) -> int | None:
        return self._inner.context_limit

    @property
    def supports_tools(self) -> bool:
        return self._inner.supports_tools

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`; a kept answer has no usage, and `on_text` hears it in one piece."""
        if request.tools:
            return await self._inner.complete(request, on_text)
        key = key_of(request, self.name, self.model)
        if kept := self._find(key):
            if on_text is not None:
                on_text(kept.text)
            return replace(kept, usage=Usage())
        completion = await self._inner.complete(request, on_text)
        if may_keep(completion):
            self._keep(key, completion)
        return completion

    async def list_models(self) -> tuple[str, ...]:
        return await self._inner.list_models()

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def close(self) -> None:
        await self._inner.close()

    def _find(self, key: str) -> Completion | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not timedelta(0) <= self._clock.now() - entry.at < KEEP_FOR:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry.completion

    def _keep(self, key: str, completion: Completion) -> None:
        self._entries[key] = _Entry(completion, self._clock.now())
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)


def _plain(message: ChatMessage) -> list[JsonValue]:
    match message:
        case UserText(text=text, images=images):
            return ["user", text, *(image.digest for image in images)]
        case AssistantTurn(text=text, calls=calls):
            return ["assistant", text, *([call.id, call.name, dict(call.arguments), call.malformed] for call in calls)]
        case ToolResult(call_id=call_id, name=name, text=text, is_error=is_error):
            return ["tool", call_id, name, text, is_error]
        case unreachable:
            assert_never(unreachable)
