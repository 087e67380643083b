"""What can go wrong with a server, and with the file that names them (ConfigUnusable).

ServerError
├── ServerLost         the connection is gone or was refused: try again later
│   └── TokenRefused   a token was not taken that can be renewed: try again at once
├── CredentialNeeded   it wants a credential that is not there or was refused: ask the operator
└── CallFailed         this call failed, the server goes on: tell the model

Messages are for people and for the model. They hold no secrets, no addresses of the machine and no texts of servers
but those of `CallFailed`.
"""

from __future__ import annotations


class ServerError(Exception):
    """Base of the faults of MCP servers."""


class ServerLost(ServerError):
    """There is no connection. The text says why."""


class TokenRefused(ServerLost):
    """The server no longer takes a token whose time is not over."""


class CredentialNeeded(ServerError):
    """A credential has to be entered first."""


class CallFailed(ServerError):
    """The server, or the wait for it, refused one call."""


class ConfigUnusable(Exception):
    """`mcp.json` cannot be read or written, or does not name the server. The text says why and what to do."""
