"""All slash commands: one line each."""

from __future__ import annotations

from agent.commands.base import Command
from agent.commands.conversation import CONVERSATION_COMMANDS
from agent.commands.feedback import FEEDBACK_COMMANDS
from agent.commands.heartbeat import HEARTBEAT
from agent.commands.info import INFO_COMMANDS, help_command
from agent.commands.jobs import JOB_COMMANDS
from agent.commands.model import MODEL_COMMANDS
from agent.commands.record import RECORD_COMMANDS
from agent.commands.routines import ROUTINES
from agent.commands.skills import SKILLS
from agent.commands.tools import TOOLS

_LISTED: tuple[Command, ...] = (
    *INFO_COMMANDS,
    *CONVERSATION_COMMANDS,
    *MODEL_COMMANDS,
    *RECORD_COMMANDS,
    *FEEDBACK_COMMANDS,
    TOOLS,
    SKILLS,
    HEARTBEAT,
    ROUTINES,
    *JOB_COMMANDS,
)

COMMANDS: tuple[Command, ...] = (help_command(_LISTED), *_LISTED)
