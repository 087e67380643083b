"""The type of what a transport gives a session; only type checkers look at it, since the library is heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The library names it in the types of its public functions, but exports it from nowhere else.
    from mcp.client._transport import TransportStreams as Streams

    __all__ = ["Streams"]
