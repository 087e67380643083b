"""Names of credentials: one spelling for each, harmless in a chat and in a log."""

from __future__ import annotations

import re
from typing import NewType
from unicodedata import normalize

from agent.credentials.errors import CredentialRefused

CredentialName = NewType("CredentialName", str)

LONGEST_NAME = 64
# No `@`, `:` or brackets: a name is repeated in chats, where it must not become a mention or a link.
_FORM = re.compile(r"\w[\w .+/-]*")


def credential_name(text: str) -> CredentialName:
    """`text` case-folded, with equal-looking forms and runs of spaces made one. Folding twice changes nothing.

    Raises CredentialRefused if it is no name.
    """
    folded = text
    for _ in range(2):  # folding a character may give one that normalizes further
        folded = normalize("NFKC", normalize("NFKC", folded).casefold())
    folded = " ".join(folded.split())
    if len(folded) > LONGEST_NAME or not _FORM.fullmatch(folded):
        raise CredentialRefused(
            f"That is no name for a credential: it takes 1 to {LONGEST_NAME} letters, digits, spaces or . _ - + / "
            "and begins with a letter or a digit."
        )
    return CredentialName(folded)


SIGN_IN_SUFFIX = "/sign-in"


def sign_in_name(server: str) -> CredentialName:
    """What is awaited when a person signs in to an MCP server: kept for the moment it takes to use it."""
    return CredentialName(f"mcp/{server}{SIGN_IN_SUFFIX}")


def signed_in_server(name: str) -> str | None:
    """The server that a name of `sign_in_name` is about; None for every other name."""
    if not name.startswith("mcp/") or not name.endswith(SIGN_IN_SUFFIX):
        return None
    return name.removeprefix("mcp/").removesuffix(SIGN_IN_SUFFIX)
