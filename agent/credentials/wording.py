"""What people are told while a credential is asked for. No text here takes a secret."""

from __future__ import annotations

from agent.credentials.names import signed_in_server
from agent.store.credentials import AUTH_TTL


def instructions(name: str, *, replaces: bool = False, goes_to: str = "") -> str:
    """How to hand over the credential that is awaited.

    `replaces`: one of this name is stored already. `goes_to`: the hosts it will be sent to, where that is known.
    """
    if (server := signed_in_server(name)) is not None:
        return f"Ask me to connect {server} again for a new link."
    onward = f", and from there to {goes_to} alone" if goes_to else " only"
    replacing = " It replaces the one that is stored." if replaces else ""
    minutes = AUTH_TTL.total_seconds() // 60
    return (
        f"Please send the credential for {name} as your next message.{replacing} It goes to the credential "
        f"store{onward}; anything else, such as /stop, cancels. The request expires in {minutes:.0f} minutes."
    )


def sign_in_instructions(server: str, link: str) -> str:
    """How to sign in with a browser."""
    minutes = AUTH_TTL.total_seconds() // 60
    return (
        f"To connect {server}, open this link and sign in:\n\n{link}\n\nAt the end the browser shows a page that may "
        "not load. Copy its whole address and send it to me as your next message (the code alone will do too). It is "
        f"used once and not kept. Anything else, such as /stop, cancels. The link works for {minutes:.0f} minutes."
    )


def stored(name: str) -> str:
    """The confirmation, once the credential is durable."""
    if (server := signed_in_server(name)) is not None:
        return f"Thank you. I finish the sign-in to {server} and tell you how it went."
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
