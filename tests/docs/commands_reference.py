"""Writes the table of chat commands in docs/reference/commands.md from the registry.

python -m tests.docs.commands_reference
"""

from __future__ import annotations

import re

from agent.commands import COMMANDS
from agent.commands.base import Command
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "commands.md"
HEAD = "| command | also | does |\n|---|---|---|\n"


def table() -> str:
    """The table, with its heading."""
    return HEAD + "".join(map(_row, sorted(COMMANDS, key=lambda command: command.name)))


def with_table(page: str, new: str) -> str:
    """The page with another table in the place of its own."""
    return re.sub(rf"{re.escape(HEAD)}(?:\|.*\n)*", lambda _: new, page)


def _row(command: Command) -> str:
    words = f"/{command.name} {command.arguments}".strip().replace("|", "\\|")
    aliases = ", ".join(f"`/{alias}`" for alias in command.aliases)
    who = " (operator only)" if command.operator_only else ""
    return f"| `{words}` | {aliases} | {command.help}{who} |\n"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), table()), "utf-8")
