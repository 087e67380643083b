"""What can go wrong with built tools.

BuildError
├── BuildRefused        it may not be built so: correct it as the message says; nothing was registered
└── ToolsUnavailable    the disk or the database refused; what there was before is still there

Messages are written for the model and for people. They name tools, never a path of the host.
"""

from __future__ import annotations


class BuildError(Exception):
    """Base of the faults of built tools."""


class BuildRefused(BuildError):
    """A tool that may not be built as asked."""


class ToolsUnavailable(BuildError):
    """The folder of the built tools cannot be read or written. `reason` is the system's own word for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The folder of built tools could not be used: {reason}. Nothing was changed.")
        self.reason = reason
