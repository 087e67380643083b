"""What goes wrong with jobs.

AgentError
└── JobRefused   a job cannot be taken as it was asked for; the text says why, to whoever asked
"""

from __future__ import annotations

from agent.errors import AgentError


class JobRefused(AgentError):
    """The wish for a job was not taken."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
