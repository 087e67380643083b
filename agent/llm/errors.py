"""What can go wrong with a model; one class per decision a caller can take.

LLMError
├── TransientError        try again after `retry_after` (or a backoff), then elsewhere
│   └── RateLimitedError  the provider named the wait
├── AuthenticationFailed  the key is refused: tell the operator
├── ModelUnavailable      no such model here: tell the operator
├── ContextTooLong        shorten the conversation and try once more
├── RequestRefused        the provider finds this request invalid: do not send it again
└── BudgetExceeded        our own cost limit forbids the call
"""

from __future__ import annotations

from datetime import timedelta


class LLMError(Exception):
    """Base of all model faults. `detail` is for the log; it never holds keys or conversation text."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class TransientError(LLMError):
    """The call may succeed if repeated."""

    def __init__(self, detail: str, retry_after: timedelta | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class RateLimitedError(TransientError):
    """The provider asked us to slow down."""


class AuthenticationFailed(LLMError):
    """The provider refuses our key."""


class ModelUnavailable(LLMError):
    """The provider does not know the model, or we may not use it."""


class ContextTooLong(LLMError):
    """The conversation does not fit into the model's window."""


class RequestRefused(LLMError):
    """The provider refuses this very request."""


class BudgetExceeded(LLMError):
    """The cost limit is reached; `text` says so to a user, with the time of the reset."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
