"""The openai SDK, used for what it knows best: addresses, authentication, connections, error classes.

Importing this takes about 0.4 s, so the provider does it in a thread, at `warm_up` or at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import httpx2
import openai

from agent.llm.errors import TransientError
from agent.llm.settings import OpenAISettings
from agent.llm.wire.faults import ErrorAnswer, Refused, fault_of
from agent.llm.wire.http import LIMITS, broken_connections, read_events, time_limits, usable_key

_PATH = "/chat/completions"
_EMBEDDINGS = "/embeddings"
_ADDRESS = "https://api.openai.com/v1"
_NO_KEY = "none"  # the SDK wants a key; servers that need none ignore it


class OpenAIClient:
    """Sends finished request bodies. Raises LLMError, or `Refused` for a 400 that names a parameter."""

    def __init__(self, settings: OpenAISettings, timeout: timedelta) -> None:
        self._timeout = timeout
        self._sdk = openai.AsyncOpenAI(
            api_key=usable_key(settings.api_key) or _NO_KEY,
            base_url=str(settings.base_url or _ADDRESS),
            timeout=time_limits(timeout),
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(limits=LIMITS, timeout=time_limits(timeout)),
        )

    async def post(self, body: bytes) -> bytes:
        """The whole answer to `body`."""
        return await self._post(_PATH, body)

    async def embeddings(self, body: bytes) -> bytes:
        """The answer to a request for vectors."""
        return await self._post(_EMBEDDINGS, body)

    async def draw(self, body: bytes) -> bytes:
        """The answer to a request for a picture."""
        return await self._post("/images/generations", body)

    async def redraw(self, fields: Mapping[str, str], picture: bytes, media_type: str) -> bytes:
        """The answer to a request for a changed picture."""
        with translated():
            response = await self._sdk.post(
                "/images/edits",
                cast_to=httpx2.Response,
                body=dict(fields),
                files=[("image", (f"picture.{media_type.partition('/')[2]}", picture, media_type))],
                options={"headers": {"Content-Type": "multipart/form-data"}},
            )
            return response.content

    async def transcribe(self, model: str, filename: str, recording: bytes, media_type: str) -> bytes:
        """The answer to a request for the words of a recording."""
        with translated():
            response = await self._sdk.post(
                "/audio/transcriptions",
                cast_to=httpx2.Response,
                body={"model": model, "response_format": "json"},
                files=[("file", (filename, recording, media_type))],
                options={"headers": {"Content-Type": "multipart/form-data"}},
            )
            return response.content

    async def stream(self, body: bytes, take: Callable[[bytes], bool]) -> None:
        """Hand the events that answer `body` to `take` until it says that was the last."""
        with translated():
            streamed: bool = True  # typed as bool: the SDK's overload for a literal True does not know the raw response
            response = await self._sdk.post(
                _PATH, cast_to=httpx2.Response, content=body, stream=streamed, stream_cls=openai.AsyncStream[object]
            )
            assert isinstance(response, httpx2.Response)
        await read_events(response, self._timeout, take)

    async def models(self) -> bytes:
        """The server's list of models, as it sends it."""
        with translated():
            response = await self._sdk.get("/models", cast_to=httpx2.Response)
            return response.content

    async def close(self) -> None:
        await self._sdk.close()

    async def _post(self, path: str, body: bytes) -> bytes:
        with translated():
            response = await self._sdk.post(path, cast_to=httpx2.Response, content=body)
            return response.content


@contextmanager
def translated() -> Iterator[None]:
    """Turn the SDK's exceptions into ours."""
    try:
        with broken_connections("no connection to openai"):
            yield
    except openai.APIStatusError as error:
        answer = ErrorAnswer(
            "openai", error.status_code, error.code or error.type or "", error.message, error.response.headers
        )
        if error.status_code == 400:
            raise Refused(answer, str(error.param or "")) from error
        raise fault_of(answer, datetime.now(UTC)) from error
    except openai.OpenAIError as error:
        raise TransientError(f"no answer from openai ({type(error).__name__})") from error
