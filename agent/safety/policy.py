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
    """One rule; `reason` is read by the model and by people."""

    name: str
    pattern: re.Pattern[str]
    severity: Severity
    action: PolicyAction
    reason: str


def _rule(name: str, pattern: str, severity: Severity, action: PolicyAction, reason: str) -> PolicyRule:
    return PolicyRule(name, re.compile(pattern, re.IGNORECASE), severity, action, reason)


RULES: tuple[PolicyRule, ...] = (
    _rule(
        "system_file_access",
        r"/etc/(?:passwd|shadow)|\.ssh/|\.aws/credentials",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it names a system or credential file",
    ),
    _rule(
        "crypto_private_key",
        r"(?:private\s*key|seed\s*phrase|mnemonic).{0,20}[0-9a-f]{64}",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it holds what looks like a wallet's private key",
    ),
    _rule(
        "sql_pattern",
        r"\b(?:drop\s+table|delete\s+from|insert\s+into|update\s+\w+\s+set)\b",
        Severity.MEDIUM,
        PolicyAction.WARN,
        "it holds an SQL statement",
    ),
    _rule(
        "shell_injection",
        r";\s*rm\s+-rf\b|;\s*curl\b[^\n]{0,2000}?\|\s*sh\b",
        Severity.CRITICAL,
        PolicyAction.BLOCK,
        "it chains a destructive shell command",
    ),
    _rule(
        "excessive_urls",
        r"(?:https?://\S{1,2000}\s+){9,}https?://\S",
        Severity.LOW,
        PolicyAction.WARN,
        "it is a list of many addresses",
    ),
    _rule(
        "encoded_exploit",
        r"base64_decode|eval\(\s*base64|\batob\(",
        Severity.HIGH,
        PolicyAction.SANITIZE,
        "it decodes and runs hidden text",
    ),
    _rule(
        "obfuscated_string",
        r"\S{500,}",
        Severity.MEDIUM,
        PolicyAction.WARN,
        "it holds a very long unbroken string",
    ),
)


def violations(text: str) -> tuple[PolicyRule, ...]:
    """The rules that `text` matches."""
    return tuple(rule for rule in RULES if rule.pattern.search(text))
