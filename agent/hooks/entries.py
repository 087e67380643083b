"""What may stand in a file of hooks: rules and outbound webhooks, as somebody writes them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from agent.hooks.base import DEFAULT_PRIORITY, FailureMode, Point

WEBHOOK_PRIORITY = 300
_SESSION_POINTS = frozenset({Point.SESSION_START, Point.SESSION_END})
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
# Headers that the connection sets, or that carry credentials: a file of hooks is not the place for those.
_FORBIDDEN_HEADERS = frozenset(
    {"host", "connection", "keep-alive", "te", "trailer", "trailers", "transfer-encoding", "upgrade", "expect"}
    | {"cookie", "cookie2", "set-cookie", "forwarded", "via"}
)
_FORBIDDEN_PARTS = ("auth", "token", "secret", "password", "credential", "key", "proxy", "content-", "session")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}$")]
Points = Annotated[frozenset[Point], Field(min_length=1)]
Regex = Annotated[str, Field(min_length=1, max_length=1000)]


class ReplacementEntry(_Entry):
    """Each match of `pattern` becomes `replacement`, in which `$0` to `$9` are groups and `$$` is a dollar."""

    pattern: Regex
    replacement: Annotated[str, Field(max_length=500)]


class RuleEntry(_Entry):
    """`rules`: refuses or changes a text. Without `when_regex` it applies to all of them."""

    name: Name
    points: Points
    priority: int = DEFAULT_PRIORITY
    failure_mode: FailureMode = FailureMode.OPEN
    timeout_ms: Annotated[int, Field(ge=1, le=30_000)] = 5000
    when_regex: Regex | None = None
    reject_reason: Annotated[str | None, Field(min_length=1, max_length=500)] = None
    replacements: Annotated[tuple[ReplacementEntry, ...], Field(max_length=50)] = ()
    prepend: Annotated[str, Field(max_length=10_000)] = ""
    append: Annotated[str, Field(max_length=10_000)] = ""

    @model_validator(mode="after")
    def _does_something(self) -> RuleEntry:
        if not (self.reject_reason or self.replacements or self.prepend or self.append):
            raise ValueError("it does nothing: give it reject_reason, replacements, prepend or append")
        if self.points & _SESSION_POINTS:
            raise ValueError("at the ends of a session there is nothing to refuse or to change")
        return self


def _sendable(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        lower = name.lower()
        if not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable() or len(value) > 1000:
            raise ValueError(f"the header {name[:64]!r} cannot be sent")
        if lower in _FORBIDDEN_HEADERS or any(part in lower for part in _FORBIDDEN_PARTS):
            raise ValueError(f"the header {name!r} must not be set here")
    return headers


class WebhookEntry(_Entry):
    """`outbound_webhooks`: tells another server that something happened, never what was said."""

    name: Name
    points: Points
    url: Annotated[str, Field(max_length=2048)]
    headers: Annotated[dict[str, str], Field(max_length=20), AfterValidator(_sendable)] = {}
    priority: int = WEBHOOK_PRIORITY
    timeout_ms: Annotated[int, Field(ge=1, le=30_000)] = 2000
    max_in_flight: Annotated[int, Field(ge=1, le=256)] = 32
