"""What reading attachments needs from what lies above it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from agent.llm.speech import Recording
from channels.message import Attachment


class Unfetched(StrEnum):
    """Why a platform did not hand a file over."""

    REFUSED = "refused"
    AWAY = "away"


class Fetcher(Protocol):
    """Reads files from the platforms they were sent on."""

    async def fetch(self, channel: str, attachment: Attachment, limit_bytes: int) -> bytes | Unfetched:
        """The content of a file that came with a message on this channel. Does not raise."""
        ...


class Listener(Protocol):
    """Writes down what is said in recordings."""

    def takes(self, media_type: str) -> bool: ...

    async def transcribe(self, recording: Recording, account: str) -> str:
        """The words of a recording that it takes; `account` is what the call is for. Raises LLMError."""
        ...
