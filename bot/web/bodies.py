"""Request bodies: bounded, in time, and parsed once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bot.web.errors import Refused

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT = timedelta(seconds=20)

M = TypeVar("M", bound=BaseModel)


def _clean(text: str) -> str:
    # Postgres refuses NUL in text; nobody types it.
    text = text.replace("\x00", "")
    if not text.strip():
        raise ValueError("it must not be empty")
    return text


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("an IANA time zone is expected, such as Europe/Berlin") from error
    return name


class Body(BaseModel):
    """A JSON object that refuses unknown fields and is strict about types."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SendBody(Body):
    """`POST /api/chat/send`. `thread_id` `new` begins another conversation; without it the main one continues."""

    content: Annotated[str, AfterValidator(_clean)]
    thread_id: UUID | Literal["new"] | None = None
    timezone: Annotated[str, Field(max_length=64), AfterValidator(_known_zone)] | None = None


class ApprovalAction(StrEnum):
    """The answers to an approval question."""

    APPROVE = "approve"
    ALWAYS = "always"
    DENY = "deny"


class ApprovalBody(Body):
    """`POST /api/chat/approval`."""

    request_id: UUID
    action: ApprovalAction
    thread_id: UUID | None = None


async def read_body(request: web.Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Refused with 413 as soon as it is known to be larger, with 408 when it does not come."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT.total_seconds()):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError as error:
        raise Refused(408, "timeout", "The request body did not arrive in time; send it again.") from error
    return bytes(body)


async def read_json(request: web.Request, model: type[M]) -> M:
    """The body as `model`; any fault is a 400 that says what is allowed."""
    if request.content_type != "application/json":
        raise Refused(400, "bad_content_type", "Send the body as JSON, with Content-Type: application/json.")
    return parse_json(await read_body(request), model)


def parse_json(body: bytes, model: type[M]) -> M:
    """A body as `model`; any fault is a 400 that says what is allowed."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Refused(
            400, "bad_request", f"{_faults(error)} Allowed fields: {', '.join(model.model_fields)}."
        ) from error


def _faults(error: ValidationError) -> str:
    """Each fault once, without repeating what was sent."""
    faults: dict[str, str] = {}
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        faults.setdefault(str(fault["loc"][0]) if fault["loc"] else "body", fault["msg"])
    return " ".join(f"{name}: {text}." for name, text in faults.items())


def _too_large(limit: int) -> Refused:
    return Refused(413, "too_large", f"A request may have {limit} bytes at most; send less.")
