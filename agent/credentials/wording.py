"""What people are told while a credential is asked for. No text here takes a secret."""

from __future__ import annotations

from agent.store.credentials import AUTH_TTL


def instructions(name: str, *, replaces: bool = False) -> str:
    """How to hand over the credential that is awaited. `replaces`: one of this name is stored already."""
    replacing = " It replaces the one that is stored." if replaces else ""
    minutes = AUTH_TTL.total_seconds() // 60
    return (
        f"Please send the credential for {name} as your next message.{replacing} It goes to the credential store only; "
        f"anything else, such as /stop, cancels. The request expires in {minutes:.0f} minutes."
    )


def stored(name: str) -> str:
    """The confirmation, once the credential is durable."""
    return (
        f"The credential for {name} is stored, encrypted. It is not part of our conversation. "
        "You may want to delete your message from the chat."
    )


def failed(name: str, reason: str) -> str:
    """The credential was not stored and is awaited still; `reason` is the text of a CredentialError."""
    return f"The credential for {name} was not stored. {reason}\n\n{instructions(name)}"


def expired(name: str) -> str:
    """A text came after the time was over: it may be a secret, so it is thrown away."""
    return (
        f"The request for the credential for {name} has expired. Your message was neither stored nor read. "
        "Ask me to connect the service again, then send the credential."
    )
