"""What can go wrong with the web server.

WebError
├── AddressTaken   the address cannot be bound: the operator must change a setting
└── Refused        a request is answered with an error: its status, a code for programs and a text for people
"""

from __future__ import annotations

from collections.abc import Mapping


class WebError(Exception):
    """Base of the web server's faults."""


class AddressTaken(WebError):
    """The server cannot listen where the settings say. The text names the cure."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"The web page cannot listen on {host}:{port}: {reason}. "
            "Stop what uses that address, choose another WEB_PORT (or PORT), or set WEB_ENABLED=false."
        )
        self.host = host
        self.port = port


class Refused(WebError):
    """A request is not served. `code` is a constant for programs, `message` says what to do instead."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
