"""What secrets look like: one rule for each kind of key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What a match means for the text around it."""

    BLOCK = "block"  # the whole text is withheld
    REDACT = "redact"  # the match is replaced
    WARN = "warn"  # noted only


@dataclass(frozen=True, slots=True)
class LeakRule:
    """One shape of secret.

    `pattern` begins with a literal, which the regex engine finds at the speed of a substring search. What has to stand
    before it, if it varies in length, is `before`, tried only there. A rule that ignores case has no such literal, and
    is tried only where `word` occurs.
    """

    name: str
    pattern: re.Pattern[str]
    before: re.Pattern[str] | None = None
    action: Action = Action.BLOCK
    word: str = ""


BEFORE_LENGTH = 48  # as far back as any `before` reaches


def _key(name: str, head: str, rest: str, action: Action = Action.BLOCK) -> LeakRule:
    # A key starts where no letter or digit stands before it, so that "task-" does not begin an "sk-" key.
    return LeakRule(name, re.compile(rf"{head}(?<![A-Za-z0-9]{head}){rest}", re.ASCII), None, action)


def _tail(name: str, before: str, rest: str) -> LeakRule:
    return LeakRule(name, re.compile(rest, re.ASCII), re.compile(rf"(?<![A-Za-z0-9]){before}\Z", re.ASCII))


def _header(name: str, pattern: str, word: str) -> LeakRule:
    compiled = re.compile(rf"(?<![A-Za-z0-9]){pattern}", re.ASCII | re.IGNORECASE)
    return LeakRule(name, compiled, None, Action.REDACT, word)


_DATABASES = "postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle|clickhouse|cockroachdb"
_CREDENTIAL = r"[A-Za-z0-9._~+/=-]{20,}"

# Shapes as their issuers document them, with the least length of a real key, so that prose never matches.
RULES: tuple[LeakRule, ...] = (
    _key("anthropic_key", r"sk-ant-api", r"[A-Za-z0-9_-]{90,}"),
    _key("anthropic_oauth", "sk-ant-oat", r"[A-Za-z0-9]{2}-[A-Za-z0-9_-]{50,}"),
    _key("openrouter_key", r"sk-or-v1-", r"[A-Za-z0-9]{40,}"),
    _key("openai_key", r"sk-", r"(?:(?:proj|svcacct|admin|ant)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})"),
    _key("groq_key", r"gsk_", r"[A-Za-z0-9]{30,}"),
    _key("aws_access_key", r"A[KS]IA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _key("github_token", r"gh[pousr]_", r"[A-Za-z0-9]{36,}"),
    _key("github_pat", r"github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _key("stripe_secret_key", r"sk_(?:live|test)_", r"[A-Za-z0-9]{24,}"),
    _key("stripe_restricted_key", r"rk_(?:live|test)_", r"[A-Za-z0-9]{24,}"),
    _key("session_token", r"sess_", r"[A-Za-z0-9]{32,}"),
    LeakRule("private_key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")),
    _key("google_api_key", r"AIza", r"[0-9A-Za-z_-]{35}"),
    _key("slack_token", r"xox[baprse]", r"(?:\.xox[bp])?-[0-9A-Za-z-]{10,}"),
    _key("slack_app_token", r"xapp-", r"[0-9A-Za-z-]{10,}"),
    _key("twilio_key", r"SK", r"[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    _key("sendgrid_key", r"SG\.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _tail("telegram_bot_token", r"(?:bot)?[0-9]{8,12}", r":AA[A-Za-z0-9_-]{30,}"),
    # Base64 of the bot's numeric id (hence the first letter), a time stamp, a signature.
    _tail("discord_bot_token", r"[MNO][A-Za-z0-9]{22,27}", r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    _tail(
        "database_password",
        rf"(?i:{_DATABASES})(?:\+[A-Za-z0-9]{{1,16}})?",
        r"://[^\s:/@'\"<>]{0,128}:(?!\[REDACTED\]@)[^\s/@'\"<>]{1,256}@[^\s'\"<>]{1,256}",
    ),
    _header("bearer_token", r"Bearer[ \t]+" + _CREDENTIAL, "bearer"),
    _header(
        "authorization_header",
        r"authorization[\"']?[ \t]*[:=][ \t]*[\"']?[A-Za-z][A-Za-z0-9-]*[ \t]+" + _CREDENTIAL,
        "authorization",
    ),
    _key("hex_64", r"", r"[0-9a-fA-F]{64}(?![0-9A-Za-z])", action=Action.WARN),
)
