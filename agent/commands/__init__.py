"""All slash commands: one line each."""

from __future__ import annotations

from agent.commands.base import Command
from agent.commands.heartbeat import HEARTBEAT
from agent.commands.info import INFO_COMMANDS, help_command
from agent.commands.tools import TOOLS

_LISTED: tuple[Command, ...] = (*INFO_COMMANDS, TOOLS, HEARTBEAT)

COMMANDS: tuple[Command, ...] = (help_command(_LISTED), *_LISTED)

NOT_BUILT = frozenset(
    {"undo", "redo", "compact", "clear", "summarize", "summary", "suggest", "thread", "resume", "skills", "reasoning"}
    | {"restart", "list", "jobs", "job", "create", "cancel", "expected", "approve", "plan", "usage", "why", "once"}
)
"""Commands that the grammar knows and that do nothing yet, beyond saying so."""
