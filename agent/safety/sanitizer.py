"""Phrases that try to pass for instructions: what they are, and the text with the critical ones made harmless."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a finding is. Only `CRITICAL` ones change a text."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


@dataclass(frozen=True, slots=True)
class Sanitized:
    """The text to use, and the names of what was found in the original."""

    text: str
    warnings: tuple[str, ...]
    changed: bool


_PHRASES: tuple[tuple[str, Severity], ...] = (
    ("ignore previous", Severity.HIGH),
    ("ignore all previous", Severity.CRITICAL),
    ("disregard", Severity.MEDIUM),
    ("forget everything", Severity.HIGH),
    ("you are now", Severity.HIGH),
    ("act as", Severity.MEDIUM),
    ("pretend to be", Severity.MEDIUM),
    ("system:", Severity.CRITICAL),
    ("assistant:", Severity.HIGH),
    ("user:", Severity.HIGH),
    ("<|", Severity.CRITICAL),
    ("|>", Severity.CRITICAL),
    ("[inst]", Severity.CRITICAL),
    ("[/inst]", Severity.CRITICAL),
    ("new instructions", Severity.HIGH),
    ("updated instructions", Severity.HIGH),
    ("```system", Severity.HIGH),
    ("```bash\nsudo", Severity.MEDIUM),
    ("eval(", Severity.HIGH),
    ("exec(", Severity.HIGH),
    ("\x00", Severity.CRITICAL),
)
_CODED = re.compile(r"base64[:,\s]+[A-Za-z0-9+/=]{50,}", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(r"<\||\|>|\[/?INST\]", re.IGNORECASE)
_ROLE_LINE = re.compile(r"^([ \t]*)((?:system|user|assistant)[ \t]*:)", re.IGNORECASE | re.MULTILINE)


def sanitize(text: str) -> Sanitized:
    """Make special tokens, role lines and NUL bytes of `text` harmless if it has a critical finding; else leave it."""
    folded = text.lower()
    found = [(phrase, severity) for phrase, severity in _PHRASES if phrase in folded]
    if "base64" in folded and _CODED.search(text):
        found.append(("base64 data", Severity.MEDIUM))
    warnings = tuple(repr(phrase)[1:-1] for phrase, _ in found)
    if max((severity for _, severity in found), default=Severity.LOW) < Severity.CRITICAL:
        return Sanitized(text, warnings, changed=False)
    escaped = _SPECIAL_TOKEN.sub(lambda match: "\\" + match[0], text.replace("\x00", ""))
    escaped = _ROLE_LINE.sub(r"\1[ESCAPED] \2", escaped)
    return Sanitized(escaped, warnings, changed=escaped != text)
