"""Secrets of every kind the bot knows, and the forms in which somebody may smuggle them. None is real."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from html import escape
from urllib.parse import quote, quote_plus

_LETTERS = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"


def _some(length: int, letters: str = _LETTERS) -> str:
    return (letters * (length // len(letters) + 1))[:length]


BY_SHAPE: Mapping[str, str] = {
    "anthropic_key": "sk-ant-api03-" + _some(90),
    "anthropic_oauth": "sk-ant-oat01-" + _some(60),
    "openrouter_key": "sk-or-v1-" + _some(64, "0123456789abcdef"),
    "openai_key": "sk-proj-" + _some(40),
    "groq_key": "gsk_" + _some(52),
    "aws_access_key": "AKIA" + _some(16, "IOSFODNN7EXAMPLE"),
    "github_token": "ghp_" + _some(36),
    "github_pat": f"github_pat_{_some(22)}_{_some(59)}",
    "stripe_secret_key": "sk_live_" + _some(24),
    "stripe_restricted_key": "rk_live_" + _some(24),
    "session_token": "sess_" + _some(40),
    "private_key": f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{_some(60)}\n-----END RSA PRIVATE KEY-----",
    "google_api_key": "AIza" + _some(35),
    "slack_token": "xoxb-" + _some(24, "1234567890-"),
    "slack_app_token": "xapp-1-" + _some(24),
    "twilio_key": "SK" + _some(32, "0123456789abcdef"),
    "sendgrid_key": f"SG.{_some(22)}.{_some(43)}",
    "telegram_bot_token": "123456789:AA" + _some(33),
    "discord_bot_token": f"M{_some(23)}.{_some(6)}.{_some(27)}",
    "database_password": "postgres://shop:" + _some(12) + "@db.example.com/shop",
    "bearer_token": "Bearer " + _some(30),
    "authorization_header": "Authorization: Custom " + _some(30),
}
"""One secret for each rule of `agent.safety.leak_rules` that is more than a warning, by the rule's name."""

CONFIGURED = "conf1gured/Secret+with=signs&more~and.dots_0123"
"""A secret of the settings that has no shape of its own."""

CONFIGURED_LINES = "conf1gured-first-line\nconf1gured-second-line"
"""One that has a line end in it, such as a key file has."""

ONE_LINE = tuple(name for name, secret in BY_SHAPE.items() if "\n" not in secret)
"""Those that can stand in one line: of a key file the header alone is the secret."""

_HIDDEN = (
    "\u200b",
    "\u00ad",
    "\u2060",
    "\ufeff",
    "\u202e",
    "\u2028",
    "\u3164",
    "\u2800",
    "\U000e0020",
    "\ufe0f",
    "\u180b",
)
_CONTROLS = ("\x00", "\x01", "\x0b", "\x0c", "\x1c", "\x7f", "\x85")
_LINE_ENDS = ("\n", "\r\n", "\n    ", "\r", "\n\n\t")


def _between(what: str) -> Callable[[str], str]:
    return lambda secret: what.join((secret[:9], secret[9:18], secret[18:]))


def _everywhere(what: str) -> Callable[[str], str]:
    return lambda secret: what.join(secret)


def _letters(form: str) -> Callable[[str], str]:
    return lambda secret: "".join(form.format(ord(letter)) for letter in secret)


BREAKS: Mapping[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    **{f"{gap!a} inside": _between(gap) for gap in (*_HIDDEN, *_CONTROLS, *_LINE_ENDS)},
    "a zero width space after each letter": _everywhere("\u200b"),
    "a line end after each letter": _everywhere("\n"),
    "JSON escapes": _letters("\\u{:04x}"),
    "JSON escapes in capitals": _letters("\\u{:04X}"),
    "one JSON escape": lambda secret: f"\\u{ord(secret[0]):04x}{secret[1:]}",
    "JavaScript escapes": _letters("\\x{:02x}"),
    "URL coded": _letters("%{:02x}"),
    "HTML coded": _letters("&#{};"),
    "HTML coded in hexadecimal": _letters("&#x{:x};"),
    "in a JSON string": lambda secret: json.dumps({"note": secret}),
    "in a URL": lambda secret: f"https://evil.example/?d={quote(secret, safe='')}",
}
"""Ways to write a secret that a reader undoes at a glance, by name. For secrets of one line without blanks."""

CODINGS: Mapping[str, Callable[[str], str]] = {
    **{
        f"base64 {shift} letters in": lambda secret, shift=shift: base64.b64encode(  # type: ignore[misc]  # a default
            b"x" * shift + secret.encode() + b"yz"
        ).decode()
        for shift in range(3)
    },
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "base64 in lines": lambda secret: base64.encodebytes((secret * 3).encode()).decode(),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "hexadecimal in capitals": lambda secret: secret.encode().hex().upper(),
    "a URL's query": quote_plus,
    "a URL's path": quote,
    "JSON": json.dumps,
    "HTML": escape,
    "Python": repr,
}
"""Codings of which one secret is known: undone for the settings' own secrets alone."""
