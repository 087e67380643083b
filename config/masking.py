"""Secrets in texts: what they look like, which ones are known, and how they are masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, SecretStr

MASK: Final = "[REDACTED]"
SHORTEST_SECRET: Final = 8  # a shorter value is a word that may stand anywhere

# A token may follow a line break that is written as an escape, as in the repr of a text.
_START: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
_SHAPES: Final = re.compile(
    "|".join(
        (
            r"(?P<url>(?<=://)[^\s/:@'\"]*:)[^\s/@'\"]+(?=@)",  # a password in a URL
            rf"(?P<header>{_START}(?:bearer|basic)\s+)[A-Za-z0-9._~+/=%-]{{16,}}",  # in an Authorization header
            r"(?<![0-9])[0-9]{6,12}(?::|%3A)[A-Za-z0-9_-]{30,}",  # Telegram: bot id, colon, 35 characters
            rf"{_START}(?:xox[a-z][-.]|xapp-)[A-Za-z0-9.-]{{8,}}",  # Slack
            rf"{_START}sk-[A-Za-z0-9_-]{{16,}}",  # OpenAI, Anthropic and those that copy them
            rf"{_START}[MNO][A-Za-z0-9_-]{{23,27}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,}}",  # Discord
            rf"{_START}(?:gh[opsru]_|github_pat_)[A-Za-z0-9_]{{30,}}",  # GitHub
        )
    ),
    re.IGNORECASE,
)


def mask_shapes(text: str) -> str:
    """The text with everything masked that looks like a token, a password in a URL or a credential header."""
    return _SHAPES.sub(lambda match: f"{match['url'] or match['header'] or ''}{MASK}", text)


def mask_pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern of all these secrets, plain and percent-encoded, the longest first; None if there are none."""
    forms = {
        form
        for secret in secrets
        if len(secret) >= SHORTEST_SECRET
        for form in (secret, quote(secret, safe=""), quote(secret), repr(secret)[1:-1])
    }
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)), re.IGNORECASE)


def secret_values(model: BaseModel) -> Iterator[str]:
    """Every secret below a group of settings, and the password inside a secret that is a URL."""
    for name in type(model).model_fields:
        yield from _secrets_in(getattr(model, name))


def _secrets_in(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            secret = value.get_secret_value()
            yield secret
            if "://" in secret and (password := urlsplit(secret).password):
                yield password
        case BaseModel():
            yield from secret_values(value)
        case dict():
            for item in value.values():
                yield from _secrets_in(item)
