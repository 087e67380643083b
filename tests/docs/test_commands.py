"""The reference of commands says what the program has, no more and no less."""

from __future__ import annotations

from collections.abc import Iterator

import click

from agent.commands import COMMANDS, NOT_BUILT
from bot.cli import commands as cli
from tests.docs.pages import ROOT, table_rows

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")


def test_chat_commands_of_the_page_are_those_of_the_registry() -> None:
    said = [(row[0], row[1], row[2]) for row in table_rows(section("In a chat"))]
    real = [
        (
            f"`{f'/{command.name} {command.arguments}'.strip()}`",
            ", ".join(f"`/{alias}`" for alias in command.aliases),
            command.help + (" (operator only)" if command.operator_only else ""),
        )
        for command in sorted(COMMANDS, key=lambda each: each.name)
    ]

    assert said == real


def test_commands_that_do_nothing_yet_are_named_as_such() -> None:
    said = section("Not available yet").split("\n\n")[2]

    assert said == ", ".join(f"`/{name}`" for name in sorted(NOT_BUILT)) + "."


def test_shell_commands_of_the_page_are_those_of_the_program() -> None:
    said = [(row[0], row[1]) for row in table_rows(section("In a shell"))]

    assert said == list(usages("optimclaw", cli))


def section(title: str) -> str:
    _, _, rest = PAGE.partition(f"## {title}\n")
    return f"## {title}\n" + rest.partition("\n## ")[0].strip()


def usages(path: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """Each command with what it takes, and the first sentence of its help."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from usages(f"{path} {name}", inner)
        return
    words = [path]
    for each in command.params:
        if isinstance(each, click.Option):
            words.append(f"[{each.opts[0]}]" if each.is_flag else f"[{each.opts[0]} {each.metavar}]")
        elif each.name is not None:
            words.append(each.name.upper())
    yield f"`{' '.join(words)}`", (command.help or "").split("\n")[0]
