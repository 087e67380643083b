"""The reference of commands says what the program has, no more and no less."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bot.cli import commands as cli
from tests.docs.commands_reference import PAGE, table, with_table
from tests.docs.pages import table_rows


def test_chat_commands_of_the_page_are_those_of_the_registry() -> None:
    assert table() in PAGE.read_text("utf-8"), "run: python -m tests.docs.commands_reference"


def test_rewriting_the_table_leaves_the_rest_of_the_page() -> None:
    page = PAGE.read_text("utf-8")

    assert with_table(with_table(page, "-"), table()) != page
    assert with_table(page, table()) == page


def test_shell_commands_of_the_page_are_those_of_the_program() -> None:
    shell, _, _ = PAGE.read_text("utf-8").partition("## In a chat")
    said = [(row[0], row[1]) for row in table_rows(shell)]

    assert said == list(usages("optimclaw", cli))


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
