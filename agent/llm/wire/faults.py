"""What an answer that is an error means for us, as one rule for all providers.

The provider's message is read to tell errors apart, and goes no further: it may quote the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from agent.llm.errors import (
    AuthenticationFailed,
    ContextTooLong,
    LLMError,
    ModelUnavailable,
    RateLimitedError,
    RequestRefused,
    TransientError,
)

LONGEST_WAIT = timedelta(hours=1)
UNREADABLE_WAIT = timedelta(seconds=60)

# Codes and phrases of OpenAI, Anthropic, OpenRouter, vLLM, llama-server, Ollama.
_TOO_LONG = re.compile(
    r"context_length_exceeded|string_above_max_length|request_too_large|exceed_context_size"
    r"|maximum context length|context (?:length|window|size|limit)|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|exceeds? the (?:available|maximum|model).{0,40}(?:context|tokens)",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient_quota|billing|credit balance|insufficient credits|exceeded your current quota", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model_not_found|not a valid model|model .{0,80}(?:does not exist|not found)|no such model|unknown model",
    re.IGNORECASE,
)
# Anthropic API, "Errors": the type of an error event inside a stream, and the status it stands for.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as a provider reported it. `status` is None inside a stream, where only a type or code is given."""

    provider: str
    status: int | None
    kind: str = ""
    message: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Refused(Exception):
    """A 400, with what the server says of it: perhaps a parameter this model takes under another name, or not at all.

    Never leaves the provider: `answer` may quote the conversation.
    """

    def __init__(self, answer: ErrorAnswer, param: str = "") -> None:
        super().__init__("400")
        self.answer = answer
        self.param = param


def fault_of(answer: ErrorAnswer, now: datetime) -> LLMError:
    """The fault that says what the caller can do about `answer`."""
    status = answer.status or _status_of(answer.kind)
    evidence = f"{answer.kind} {answer.message}"
    detail = f"{answer.provider} answered {status or 'an error'}{_label(answer.kind)}"
    wait = retry_after(answer.headers, now)
    if status == 413 or (status in (400, 422, None) and _TOO_LONG.search(evidence)):
        return ContextTooLong(detail)
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(evidence)):
        return AuthenticationFailed(f"{detail}: the account's quota or credit is used up")
    if status == 404 or (status in (400, 403) and _NO_MODEL.search(evidence)):
        return ModelUnavailable(f"{detail}: no such model or address")
    if status in (401, 403):
        return AuthenticationFailed(detail)
    if status == 429:
        return RateLimitedError(detail, wait)
    if status is None or status in (408, 409, 425) or status >= 500 or status < 400:
        return TransientError(detail, wait)
    return RequestRefused(detail)


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """The wait a provider asks for: seconds or an HTTP date, never negative, never over an hour; None if it asks none.

    A header that cannot be read still asks for a wait: a minute.
    """
    raw = headers.get("retry-after")
    if raw is None:
        return None
    wait = _seconds(raw)
    if wait is None:
        wait = _until(raw, now)
    if wait is None:
        return UNREADABLE_WAIT
    return min(max(wait, timedelta()), LONGEST_WAIT)


def _seconds(raw: str) -> timedelta | None:
    try:
        return timedelta(seconds=min(float(raw), LONGEST_WAIT.total_seconds()))
    except (ValueError, OverflowError):
        return None


def _until(raw: str, now: datetime) -> timedelta | None:
    try:
        instant = parsedate_to_datetime(raw)
    except ValueError:
        return None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - now


def _status_of(kind: str) -> int | None:
    if kind.isdigit() and 400 <= int(kind) <= 599:  # OpenRouter puts the status into the code
        return int(kind)
    return _STATUS_OF_TYPE.get(kind)


def _label(kind: str) -> str:
    return f" ({kind})" if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", kind) else ""
