"""What can go wrong with a document.

WorkspaceError
├── PathRefused          no document of the one who asks: use the path that the message proposes
├── DocumentMissing      there is nothing at that path
├── DocumentUnreadable   it is there, but no UTF-8 text
├── DocumentTooLarge     it is over its limit: nothing was written
└── WorkspaceUnavailable the disk refused: nothing was written

Messages are written for the model and for people; they name documents, never a path of the host.
"""

from __future__ import annotations


class WorkspaceError(Exception):
    """Base of the workspace's faults."""


class PathRefused(WorkspaceError):
    """A path that names no document the asker may use so."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"Path {path!r} is refused: {reason}.")
        self.path = path


class DocumentMissing(WorkspaceError):
    """Nothing is stored at the path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} was not found.")
        self.path = path


class DocumentUnreadable(WorkspaceError):
    """The file is no text."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} is not a UTF-8 text file.")
        self.path = path


class DocumentTooLarge(WorkspaceError):
    """The document is, or would become, larger than allowed. Sizes are in bytes."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(
            f"{path!r} is too large: {size:,} bytes, the limit is {limit:,}. Nothing was read or written. "
            "Shorten it, or use another file."
        )
        self.path = path
        self.size = size
        self.limit = limit


class WorkspaceUnavailable(WorkspaceError):
    """The file system refused. `reason` is the system's own word for it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path!r} could not be used: {reason}. Nothing was written.")
        self.path = path
        self.reason = reason
