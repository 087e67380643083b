"""Pictures from words, pictures from pictures, and words about pictures, by OpenAI's models. Each call is paid."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from agent.llm.base import Usage
from agent.llm.errors import TransientError
from agent.llm.metered import Guard
from agent.llm.pricing import cost_of, image_price, price_of
from agent.llm.settings import OpenAISettings
from agent.llm.wire.faults import Refused, fault_of

if TYPE_CHECKING:
    from agent.llm.wire.openai_sdk import OpenAIClient

# OpenAI, "Models", 2026-11: the quick one of the newest pair.
DEFAULT_IMAGE_MODEL = "gpt-image-2.6-flare"

_NAME = "openai"
# OpenAI, "Image generation": a square picture of the best quality weighs about 4,200 tokens, a wide one 6,200. Counted
# where the server does not say, and for calls that were cut off.
_CUT_OFF = Usage(100, 6_000)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a file holds it."""

    media_type: str
    data: bytes


class _Counted(BaseModel):
    input_tokens: int = 0
    output_tokens: int = 0


class _Drawn(BaseModel):
    b64_json: str


class _Drawing(BaseModel):
    data: list[_Drawn]
    usage: _Counted | None = None


class OpenAIImages:
    """Draws and looks at pictures. The SDK loads at the first call. Raises LLMError."""

    def __init__(
        self, settings: OpenAISettings, guard: Guard, *, model: str | None, seeing_model: str, timeout: timedelta
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._model = model or DEFAULT_IMAGE_MODEL
        self._seeing_model = seeing_model
        self._timeout = timeout
        self._connecting = asyncio.Lock()
        self._client: OpenAIClient | None = None

    @property
    def is_available(self) -> bool:
        """Whether there is a key to draw with."""
        return self._settings.api_key is not None

    async def draw(self, prompt: str, size: str, account: str) -> Picture:
        """A picture of what `prompt` describes, as PNG. `size` is "auto" or such as "1024x1024"."""
        body = {"model": self._model, "prompt": prompt, "size": size, "n": 1, "output_format": "png"}
        return await self._drawn(lambda client: client.draw(json.dumps(body).encode()), account)

    async def redraw(self, prompt: str, picture: Picture, account: str) -> Picture:
        """The picture, changed as `prompt` says."""
        fields = {"model": self._model, "prompt": prompt, "output_format": "png"}
        return await self._drawn(lambda client: client.redraw(fields, picture.data, picture.media_type), account)

    async def describe(self, question: str, picture: Picture, account: str) -> str:
        """What a model that sees says about the picture."""
        address = f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"
        content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": address}}]
        body = {"model": self._seeing_model, "messages": [{"role": "user", "content": content}]}
        await self._guard.check(unattended=False)
        answer = await self._asked(lambda client: client.post(json.dumps(body).encode()))
        try:
            found = _Said.model_validate_json(answer)
        except ValidationError as error:
            raise TransientError("openai sent an answer that cannot be read") from error
        counted = found.usage or _SaidUsage()
        usage = Usage(counted.prompt_tokens, counted.completion_tokens)
        await self._guard.record(
            _NAME, self._seeing_model, usage, cost_of(usage, price_of(_NAME, self._seeing_model)), account
        )
        return found.choices[0].message.content or ""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _drawn(self, ask: Callable[[OpenAIClient], Awaitable[bytes]], account: str) -> Picture:
        await self._guard.check(unattended=False)
        try:
            answer = await self._asked(ask)
        except asyncio.CancelledError:
            await self._record(_CUT_OFF, account)  # it is paid too
            raise
        try:
            drawing = await asyncio.to_thread(_Drawing.model_validate_json, answer)
            data = await asyncio.to_thread(base64.b64decode, drawing.data[0].b64_json, validate=True)
        except (ValidationError, IndexError, binascii.Error) as error:
            await self._record(_CUT_OFF, account)
            raise TransientError("openai sent a picture that cannot be read") from error
        counted = drawing.usage
        await self._record(Usage(counted.input_tokens, counted.output_tokens) if counted else _CUT_OFF, account)
        return Picture("image/png", data)

    async def _record(self, usage: Usage, account: str) -> None:
        await self._guard.record(_NAME, self._model, usage, cost_of(usage, image_price()), account)

    async def _asked(self, ask: Callable[[OpenAIClient], Awaitable[bytes]]) -> bytes:
        try:
            return await ask(await self._connected())
        except Refused as refusal:
            raise fault_of(refusal.answer, datetime.now(UTC)) from refusal

    async def _connected(self) -> OpenAIClient:
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(_new_client, self._settings, self._timeout)
        return self._client


class _SaidUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Said(BaseModel):
    choices: list[_Choice]
    usage: _SaidUsage | None = None


def _new_client(settings: OpenAISettings, timeout: timedelta) -> OpenAIClient:
    from agent.llm.wire.openai_sdk import OpenAIClient

    return OpenAIClient(settings, timeout)
