"""The anthropic SDK, used for what it knows best: addresses, authentication, connections, error classes.

Importing this takes about a second, so the provider does it in a thread, at `warm_up` or at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import anthropic
import httpx2

from agent.llm.errors import AuthenticationFailed, TransientError
from agent.llm.settings import AnthropicSettings
from agent.llm.wire.faults import ErrorAnswer, Refused, fault_of
from agent.llm.wire.http import LIMITS, broken_connections, read_events, time_limits, usable_key

_PATH = "/v1/messages"
_ADDRESS = "https://api.anthropic.com"


class AnthropicClient:
    """Sends finished request bodies. Raises LLMError, or `Refused` for a 400."""

    def __init__(self, settings: AnthropicSettings, timeout: timedelta) -> None:
        key = usable_key(settings.api_key)
        if key is None:
            # Without a key the SDK would look for one in the machine's own files.
            raise AuthenticationFailed("no key is set for anthropic")
        self._timeout = timeout
        self._sdk = anthropic.AsyncAnthropic(
            api_key=key,
            base_url=str(settings.base_url or _ADDRESS),
            timeout=time_limits(timeout),
            max_retries=0,
            http_client=anthropic.DefaultAioHttpClient(limits=LIMITS, timeout=time_limits(timeout)),
        )

    async def post(self, body: bytes) -> bytes:
        """The whole answer to `body`."""
        with translated():
            response = await self._sdk.post(_PATH, cast_to=httpx2.Response, content=body)
            return response.content

    async def stream(self, body: bytes, take: Callable[[bytes], bool]) -> None:
        """Hand the events that answer `body` to `take` until it says that was the last."""
        with translated():
            streamed: bool = True  # typed as bool: the SDK's overload for a literal True does not know the raw response
            response = await self._sdk.post(
                _PATH, cast_to=httpx2.Response, content=body, stream=streamed, stream_cls=anthropic.AsyncStream[object]
            )
            assert isinstance(response, httpx2.Response)
        await read_events(response, self._timeout, take)

    async def models(self) -> bytes:
        """The server's list of models, as it sends it."""
        with translated():
            response = await self._sdk.get("/v1/models?limit=100", cast_to=httpx2.Response)
            return response.content

    async def close(self) -> None:
        await self._sdk.close()


@contextmanager
def translated() -> Iterator[None]:
    """Turn the SDK's exceptions into ours."""
    try:
        with broken_connections("no connection to anthropic"):
            yield
    except anthropic.APIStatusError as error:
        answer = ErrorAnswer("anthropic", error.status_code, _kind(error.body), error.message, error.response.headers)
        if error.status_code == 400:
            raise Refused(answer) from error
        raise fault_of(answer, datetime.now(UTC)) from error
    except anthropic.AnthropicError as error:
        raise TransientError(f"no answer from anthropic ({type(error).__name__})") from error


def _kind(body: object) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("type") or "") if isinstance(error, dict) else ""
