"""Invented secrets, one for each rule, put together at run time so that no scanner takes them for real ones."""

from __future__ import annotations

from agent.safety.leak_rules import Action

_ALNUM = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA"
_LONG = _ALNUM * 5

SECRETS: dict[str, str] = {
    "anthropic_key": "sk-ant-" + "api03-" + _LONG[:95],
    "anthropic_oauth": "sk-ant-" + "oat01-" + _LONG[:60],
    "openrouter_key": "sk-or-" + "v1-" + _LONG[:48],
    "openai_key": "sk-" + "proj-" + _LONG[:40],
    "openai_key plain": "sk-" + _LONG[:20],
    "groq_key": "gsk" + "_" + _LONG[:30],
    "aws_access_key": "AK" + "IA" + "ABCDEFGHIJKLMN23",
    "github_token": "gh" + "p_" + _LONG[:36],
    "github_pat": "github_" + "pat_" + _LONG[:22] + "_" + _LONG[:59],
    "stripe_secret_key": "sk_" + "live_" + _LONG[:24],
    "stripe_restricted_key": "rk_" + "test_" + _LONG[:24],
    "session_token": "se" + "ss_" + _LONG[:32],
    "private_key rsa": "-----BEGIN " + "RSA PRIVATE KEY-----",
    "private_key": "-----BEGIN " + "PRIVATE KEY-----",
    "private_key openssh": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "private_key ec": "-----BEGIN " + "EC PRIVATE KEY-----",
    "private_key dsa": "-----BEGIN " + "DSA PRIVATE KEY-----",
    "google_api_key": "AI" + "za" + _LONG[:35],
    "slack_token": "xo" + "xb-" + "1234567890-abcdef",
    "slack_app_token": "xa" + "pp-" + "1-A0123456789-abcdef",
    "twilio_key": "S" + "K" + "0123456789abcdef" * 2,
    "sendgrid_key": "S" + "G." + _LONG[:22] + "." + _LONG[:43],
    "telegram_bot_token": "123456789" + ":AA" + _LONG[:33],
    "discord_bot_token": "MTIzNDU2Nzg5MDEyMzQ1Njc4" + ".GabcdE." + _LONG[:38],
    "database_password": "postgresql+asyncpg" + "://bot:" + "hunter22@db.example/bot",
    "bearer_token": "Bea" + "rer " + _LONG[:24],
    "authorization_header": "Authori" + "zation: Basic " + _LONG[:24],
}
REDACTED_ONLY = frozenset({"bearer_token", "authorization_header"})


def action_of(name: str) -> Action:
    return Action.REDACT if name in REDACTED_ONLY else Action.BLOCK
