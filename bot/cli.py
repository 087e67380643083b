"""The command line: arguments only. What a command needs is imported when it runs, so that `--version` is quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from bot import __version__

if TYPE_CHECKING:
    from config.settings import Settings

CONFIGURATION_ERROR = 2


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="optimclaw")
@click.pass_context
def commands(context: click.Context) -> None:
    """One AI agent that people reach from Telegram, Slack, Discord, a terminal and a web page."""
    if context.invoked_subcommand is None:
        context.invoke(run)


@commands.command()
def run() -> None:
    """Start all enabled channels, the web page and the agent (the default)."""
    settings = load()
    from bot.app import run_bot

    sys.exit(run_bot(settings, terminal=sys.stdin.isatty()))


@commands.command()
@click.option("-m", "message", metavar="TEXT", help="One message; the answer goes to standard output.")
def chat(message: str | None) -> None:
    """Chat in the terminal only."""
    settings = load()
    from bot.app import run_chat

    sys.exit(run_chat(settings, message))


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def check(as_json: bool) -> None:
    """Tell what is wrong with this installation, and how to cure it. Changes nothing."""
    settings = load()
    from bot.doctor import run_check

    sys.exit(run_check(settings, as_json=as_json))


@commands.group()
def pairing() -> None:
    """Say who may talk to the bot."""


@pairing.command("list")
def pairing_list() -> None:
    """List who was let in and who asks to be."""
    settings = load()
    from bot.pairing_cli import list_pairings

    list_pairings(settings)


@pairing.command("approve")
@click.argument("channel")
@click.argument("code")
def pairing_approve(channel: str, code: str) -> None:
    """Let the person in who was given CODE on CHANNEL."""
    settings = load()
    from bot.pairing_cli import approve

    sys.exit(approve(settings, channel.lower(), code))


@pairing.command("revoke")
@click.argument("channel")
@click.argument("user")
def pairing_revoke(channel: str, user: str) -> None:
    """Shut the door for USER on CHANNEL again."""
    settings = load()
    from bot.pairing_cli import revoke

    sys.exit(revoke(settings, channel.lower(), user))


def load() -> Settings:
    """The settings; with faults all of them are printed and the program ends with 2."""
    import os

    from bot.imports import lean_imports

    with lean_imports():
        import structlog  # noqa: F401
    from agent.llm.settings import PROVIDER_SETTINGS
    from channels.settings import CHANNEL_SETTINGS
    from config.errors import ConfigError
    from config.load import Extensions, load_settings

    try:
        extensions = Extensions(channels=CHANNEL_SETTINGS, providers=PROVIDER_SETTINGS)
        return load_settings(os.environ, extensions=extensions, cwd=Path.cwd())
    except ConfigError as error:
        fail(str(error))


def fail(text: str) -> NoReturn:
    """End with a configuration error."""
    click.echo(text, err=True)
    sys.exit(CONFIGURATION_ERROR)
