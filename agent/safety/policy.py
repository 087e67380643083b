"""Rules about content: what no tool may be given as an argument, and what is worth a warning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from agent.safety.sanitizer import Severity


class PolicyAction(StrEnum):
    """What a rule asks for where it is in force. Outside of tool arguments `BLOCK` is a warning."""

    WARN = "warn"
    SANITIZE = "sanitize"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule; `reason` is read by the model and by people.

    `pattern` is for text in lower case, and tried only where one of `words` occurs: searching for those is much faster.
    """

    name: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    severity: Severity
    action: PolicyAction
    reason: str


def _rule(name: str, words: str, pattern: str, severity: Severity, action: PolicyAction, reason: str) -> PolicyRule:
    return PolicyRule(name, tuple(words.split()), re.compile(pattern), severity, action, reason)


_LONG = 500

RULES: tuple[PolicyRule, ...] = (
    _rule(
        "system_file_access",
        "/etc/ .ssh/ .aws/",
        r"/etc/(?:passwd|shadow)|\.ssh/|\.aws/credentials",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it names a system or credential file",
    ),
    _rule(
        "crypto_private_key",
        "private seed mnemonic",
        r"(?:private\s*key|seed\s*phrase|mnemonic).{0,20}[0-9a-f]{64}",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it holds what looks like a wallet's private key",
    ),
    _rule(
        "sql_pattern",
        "drop delete insert update",
        r"\b(?:drop\s+table|delete\s+from|insert\s+into|update\s+\w+\s+set)\b",
        Severity.MEDIUM,
        PolicyAction.WARN,
        "it holds an SQL statement",
    ),
    _rule(
        "shell_injection",
        ";",
        r";\s*rm\s+-rf\b|;\s*curl\b[^\n]{0,2000}?\|\s*sh\b",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it chains a destructive shell command",
    ),
    _rule(
        "excessive_urls",
        "://",
        r"https?://\S{1,2000}\s+(?:https?://\S{1,2000}\s+){8,}https?://\S",
        Severity.LOW,
        PolicyAction.WARN,
        "it is a list of many addresses",
    ),
    _rule(
        "encoded_exploit",
        "base64 atob(",
        r"base64_decode|eval\(\s*base64|\batob\(",
        Severity.HIGH,
        PolicyAction.SANITIZE,
        "it decodes and runs hidden text",
    ),
    _rule(
        "obfuscated_string",
        "",
        rf"\S{{{_LONG},}}",
        Severity.MEDIUM,
        PolicyAction.WARN,
        "it holds a very long unbroken string",
    ),
)


def violations(text: str) -> tuple[PolicyRule, ...]:
    """The rules that `text` matches."""
    folded = text.lower()
    return tuple(rule for rule in RULES if _is_worth_a_look(rule, folded) and rule.pattern.search(folded))


def _is_worth_a_look(rule: PolicyRule, folded: str) -> bool:
    if rule.words:
        return any(word in folded for word in rule.words)
    return any(len(word) >= _LONG for word in folded.split())
