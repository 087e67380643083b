"""Types of single settings: each parses a word of the environment or a value of the file, and says what it allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from config.hosts import HostRule, host_rule


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a setting may be, in words that complete "allowed: ..."."""

    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """Names that differ from the rule: `key` from the field's name, `env` from the section and the key."""

    key: str | None = None
    env: str | None = None


class Word(StrEnum):
    """A setting that is one of some fixed words, in any case."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        folded = value.lower() if isinstance(value, str) else None
        return next((member for member in cls if member.value == folded), None)


class ModelRef(NamedTuple):
    """A model of a provider."""

    provider: str
    model: str


def _split(value: object) -> object:
    """The items of a comma separated text or of a list, as texts, without blank ones."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        return value
    texts = (_text(item) for item in items)
    return tuple(text for item in texts if (text := item.strip() if isinstance(item, str) else item) != "")


def _text(value: object) -> object:
    """A text, also where the file has a bare number: ids are numbers on some platforms."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _seconds(value: object) -> object:
    """A duration from a number of seconds."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a number of seconds")
    seconds = float(value)
    if not abs(seconds) <= _LONGEST_SECONDS:  # written so that NaN is refused, too
        raise ValueError("out of range")
    return timedelta(seconds=seconds)


def _clock_time(value: object) -> object:
    """A time of day from `HH:MM`."""
    if isinstance(value, time):
        return value
    match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("not HH:MM")
    return time(int(match[1]), int(match[2]))


def _zone(value: object) -> object:
    """A time zone from its IANA name."""
    if isinstance(value, ZoneInfo):
        return value
    if not isinstance(value, str):
        raise ValueError("not the name of a time zone")
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError) as error:  # OSError: a folder of the zone database, such as "Europe"
        raise ValueError("no such time zone") from error


def model_refs(value: object) -> tuple[ModelRef, ...]:
    """Pairs from `provider:model`; a model's name may hold further colons. Raises ValueError."""
    items = _split(value)
    if not isinstance(items, tuple):
        raise ValueError("not a list")
    refs = tuple(ModelRef(*(part.strip() for part in str(item).partition(":")[::2])) for item in items)
    if not all(ref.provider and ref.model for ref in refs):
        raise ValueError("not provider:model")
    return refs


def _host_rules(value: object) -> tuple[HostRule, ...]:
    """Rules from their texts. Raises ValueError."""
    items = _split(value)
    if not isinstance(items, tuple):
        raise ValueError("not a list")
    return tuple(item if isinstance(item, HostRule) else host_rule(str(item)) for item in items)


def _url_of(*schemes: str) -> AfterValidator:
    def check(value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in schemes or not parts.hostname or parts.port == 0 or re.search(r"\s", value):
            raise ValueError("not such a URL")
        return value

    return AfterValidator(check)


def _database_url(value: SecretStr) -> SecretStr:
    if urlsplit(value.get_secret_value()).scheme not in ("postgresql", "postgres"):
        raise ValueError("not such a URL")
    return value


_LONGEST_SECONDS = 10 * 365 * 86_400

Words = Annotated[tuple[str, ...], BeforeValidator(_split), Allowed("a comma separated list")]
"""A list of texts, comma separated in the environment."""

Id = Annotated[str, BeforeValidator(_text), Allowed("an id")]
"""A platform's id, always as text."""

Seconds = Annotated[
    timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0)), Allowed("a number of seconds above 0")
]
"""A duration, given as a number of seconds."""

Pause = Annotated[
    timedelta, BeforeValidator(_seconds), Field(ge=timedelta(0)), Allowed("a number of seconds, 0 or more")
]
"""A duration that may be nothing."""

ClockTime = Annotated[time, BeforeValidator(_clock_time), Allowed("a time of day as HH:MM, 00:00 to 23:59")]
"""A time of day in some zone."""

Zone = Annotated[ZoneInfo, BeforeValidator(_zone), Allowed("an IANA time zone such as Europe/Berlin")]
"""A time zone."""

Count = Annotated[int, Field(ge=1)]
"""A whole number, at least one."""

ModelRefs = Annotated[tuple[ModelRef, ...], BeforeValidator(model_refs), Allowed("provider:model, comma separated")]
"""Models of providers, in the order in which they are tried."""

HostRules = Annotated[
    tuple[HostRule, ...],
    BeforeValidator(_host_rules),
    Allowed("names such as example.com, *.example.com or example.com:8443, comma separated"),
]
"""Hosts of the internet that may be asked."""

HttpUrl = Annotated[str, _url_of("http", "https"), Allowed("an http:// or https:// URL")]
"""The address of a web server."""

SocketUrl = Annotated[str, _url_of("ws", "wss"), Allowed("a ws:// or wss:// URL")]
"""The address of a WebSocket."""

DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url), Allowed("a postgresql:// URL")]
"""The address of a database; a secret, since it holds a password."""
