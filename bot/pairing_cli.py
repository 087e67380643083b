"""`optimclaw pairing …`: short transactions on the same database, beside a running bot or without one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TypeVar, assert_never

import click

from agent.safety.pairing import Approved, LockedOut, UnknownCode
from agent.store import pairings
from agent.store.base import Work
from agent.store.open import open_store
from config.settings import Settings

T = TypeVar("T")


def list_pairings(settings: Settings) -> None:
    """Print who was let in and who asks to be."""
    now = datetime.now(UTC)
    found = _on_store(settings, lambda tx: pairings.listing(tx, now))
    if not found:
        click.echo("Nobody has been let in by pairing, and nobody asks to be.")
    for each in found:
        state = f"since {each.approved_at:%Y-%m-%d}" if each.approved_at else f"asks with code {each.code}"
        click.echo(f"{each.channel}  {each.user_id}  {each.name}  {state}")


def approve(settings: Settings, channel: str, code: str) -> int:
    """Let somebody in: 0, or 1 where the code is unknown."""
    outcome = _on_store(settings, lambda tx: pairings.approve(tx, channel, code, datetime.now(UTC)))
    match outcome:
        case Approved(user_id=user):
            click.echo(f"{channel}: {user} may talk to the bot now.")
            return 0
        case UnknownCode():
            click.echo(
                f"{channel}: no open request has that code. Codes are good for 15 minutes; `optimclaw pairing list` "
                "shows those that wait.",
                err=True,
            )
            return 1
        case LockedOut(until=until):
            click.echo(f"Too many wrong codes; try again after {until:%H:%M:%S} UTC.", err=True)
            return 1
        case unreachable:
            assert_never(unreachable)


def revoke(settings: Settings, channel: str, user: str) -> int:
    """Shut the door again: 0, or 1 where the person was not let in."""
    if _on_store(settings, lambda tx: pairings.revoke(tx, channel, user)):
        click.echo(f"{channel}: {user} may not talk to the bot any more.")
        return 0
    click.echo(f"{channel}: {user} was not let in by pairing.", err=True)
    return 1


def _on_store(settings: Settings, work: Work[T]) -> T:
    async def once() -> T:
        store = open_store(settings.home)
        try:
            return await store.write(work)
        finally:
            await store.close()

    return asyncio.run(once())
