"""The command line: arguments only. What a command needs is imported when it runs, so that `--version` is quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from bot import __version__

if TYPE_CHECKING:
    from bot.plugins import Plugins
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
    settings, plugins = load_all()
    from bot.app import run_bot

    sys.exit(run_bot(settings, plugins, terminal=sys.stdin.isatty()))


@commands.command()
@click.option("-m", "message", metavar="TEXT", help="One message; the answer goes to standard output.")
def chat(message: str | None) -> None:
    """Chat in the terminal only."""
    settings, plugins = load_all()
    from bot.app import run_chat

    sys.exit(run_chat(settings, plugins, message))


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def check(as_json: bool) -> None:
    """Tell what is wrong with this installation, and how to cure it. Changes nothing."""
    settings, plugins = load_all()
    from bot.doctor import run_check

    sys.exit(run_check(settings, plugins, as_json=as_json))


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


@commands.group()
def routine() -> None:
    """Act on what the bot does by itself."""


@routine.command("list")
def routine_list() -> None:
    """List everybody's routines."""
    settings = load()
    from bot.routine_cli import list_routines

    list_routines(settings)


@routine.command("run")
@click.argument("name")
def routine_run(name: str) -> None:
    """Run the routine NAME at the bot's next look at its time table."""
    settings = load()
    from bot.routine_cli import run_routine

    sys.exit(run_routine(settings, name))


@routine.command("enable")
@click.argument("name")
def routine_enable(name: str) -> None:
    """Switch the routine NAME on."""
    settings = load()
    from bot.routine_cli import enable_routine

    sys.exit(enable_routine(settings, name))


@routine.command("disable")
@click.argument("name")
def routine_disable(name: str) -> None:
    """Switch the routine NAME off."""
    settings = load()
    from bot.routine_cli import disable_routine

    sys.exit(disable_routine(settings, name))


@routine.command("webhook")
@click.argument("name")
def routine_webhook(name: str) -> None:
    """Show the address and the secret of the webhook routine NAME."""
    settings = load()
    from bot.routine_cli import show_webhook

    sys.exit(show_webhook(settings, name))


@commands.group()
def job() -> None:
    """Look at background jobs."""


@job.command("list")
@click.option("--state", "narrowed_to", metavar="STATE", default="all", help="Such as active, pending or failed.")
def job_list(narrowed_to: str) -> None:
    """List the newest jobs of everybody, or those in one state."""
    settings = load()
    from bot.job_cli import list_jobs

    sys.exit(list_jobs(settings, narrowed_to))


@job.command("show")
@click.argument("id")
def job_show(id: str) -> None:
    """Show one job; ID may be its first digits."""
    settings = load()
    from bot.job_cli import show_job

    sys.exit(show_job(settings, id))


@job.command("cancel")
@click.argument("id")
def job_cancel(id: str) -> None:
    """Cancel a job. A bot that runs it notices before its next step."""
    settings = load()
    from bot.job_cli import cancel_job

    sys.exit(cancel_job(settings, id))


def load() -> Settings:
    """The settings; with faults all of them are printed and the program ends with 2."""
    return load_all()[0]


def load_all() -> tuple[Settings, Plugins]:
    """The settings, and what plug-ins bring. What is wrong with those stands among the settings' warnings."""
    import os

    from bot.imports import lean_imports

    with lean_imports():
        import structlog  # noqa: F401
    from bot.plugins import installed_plugins, load_plugins
    from config.errors import ConfigError
    from config.load import disabled_plugins, load_settings

    try:
        installed = installed_plugins()
        plugins = load_plugins(installed, disabled_plugins(os.environ, Path.cwd()) if installed else frozenset())
        settings = load_settings(os.environ, extensions=plugins.extensions, cwd=Path.cwd())
        return settings.model_copy(update={"warnings": (*settings.warnings, *plugins.warnings)}), plugins
    except ConfigError as error:
        fail(str(error))


def fail(text: str) -> NoReturn:
    """End with a configuration error."""
    click.echo(text, err=True)
    sys.exit(CONFIGURATION_ERROR)
