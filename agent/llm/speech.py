"""The words of recordings, by a model of OpenAI's. Each call is paid."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from agent.llm.base import Usage
from agent.llm.errors import TransientError
from agent.llm.metered import Guard
from agent.llm.settings import OpenAISettings
from agent.llm.wire.faults import Refused, fault_of

if TYPE_CHECKING:
    from agent.llm.wire.openai_sdk import OpenAIClient

# OpenAI, "GPT Transcribe", 2026-11: 0.0045 dollars a minute; the models before it end in 2027-02.
MODEL = "gpt-transcribe"
_A_MINUTE = Decimal("0.0045")
# OpenAI, "Speech to text": the formats it takes, by the suffix of the file's name.
_SUFFIXES = MappingProxyType(
    {
        "audio/ogg": "ogg",
        "audio/opus": "ogg",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
        "audio/mp4": "m4a",
        "audio/m4a": "m4a",
        "audio/x-m4a": "m4a",
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/webm": "webm",
        "audio/flac": "flac",
    }
)
_BYTES_A_SECOND = 2_000  # of a voice message, where the server does not say how long it was


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as a file holds it."""

    media_type: str
    data: bytes


class _Counted(BaseModel):
    seconds: float | None = None


class _Heard(BaseModel):
    text: str
    usage: _Counted | None = None


class OpenAISpeech:
    """Writes down what is said. The SDK loads at the first call. Raises LLMError."""

    def __init__(self, settings: OpenAISettings, guard: Guard, *, timeout: timedelta) -> None:
        self._settings = settings
        self._guard = guard
        self._timeout = timeout
        self._connecting = asyncio.Lock()
        self._client: OpenAIClient | None = None

    def takes(self, media_type: str) -> bool:
        """Whether there is a key, and the format is one that the model takes."""
        return self._settings.api_key is not None and _plain(media_type) in _SUFFIXES

    async def transcribe(self, recording: Recording, account: str) -> str:
        """The words of a recording that it takes."""
        await self._guard.check(unattended=False)
        try:
            answer = await self._asked(recording)
        except asyncio.CancelledError:
            await self._record(recording, None, account)  # it is paid too
            raise
        try:
            heard = _Heard.model_validate_json(answer)
        except ValidationError as error:
            await self._record(recording, None, account)
            raise TransientError("openai sent a transcript that cannot be read") from error
        await self._record(recording, heard.usage.seconds if heard.usage else None, account)
        return heard.text

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _record(self, recording: Recording, seconds: float | None, account: str) -> None:
        counted = seconds if seconds is not None else len(recording.data) / _BYTES_A_SECOND
        cost = _A_MINUTE * Decimal(str(counted)) / 60
        await self._guard.record("openai", MODEL, Usage(), cost, account)

    async def _asked(self, recording: Recording) -> bytes:
        try:
            client = await self._connected()
            media_type = _plain(recording.media_type)
            return await client.transcribe(MODEL, f"recording.{_SUFFIXES[media_type]}", recording.data, media_type)
        except Refused as refusal:
            raise fault_of(refusal.answer, datetime.now(UTC)) from refusal

    async def _connected(self) -> OpenAIClient:
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(_new_client, self._settings, self._timeout)
        return self._client


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _new_client(settings: OpenAISettings, timeout: timedelta) -> OpenAIClient:
    from agent.llm.wire.openai_sdk import OpenAIClient

    return OpenAIClient(settings, timeout)
