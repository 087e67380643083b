"""Names of servers, and the names under which their credentials are kept."""

from __future__ import annotations

import re

from agent.credentials.names import sign_in_name

SERVER_NAME = re.compile(r"[a-z0-9-]{1,32}")


def token_name(server: str) -> str:
    """The name of a server's token in the credential store."""
    return f"mcp/{server}"


def tokens_name(server: str) -> str:
    """Under what name the tokens of a sign-in are kept."""
    return f"{token_name(server)}/tokens"


def client_name(server: str) -> str:
    """Under what name our registration with a server is kept."""
    return f"{token_name(server)}/client"


def kept_names(server: str) -> tuple[str, ...]:
    """All that signing in leaves in the store."""
    return tokens_name(server), client_name(server), sign_in_name(server)
