"""`optimclaw routine …`: short transactions on the same database, beside a running bot or without one.

A running bot reads the rows again at each look at its time table, so it takes a change within ROUTINES_CRON_INTERVAL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import click

from agent.errors import RoutineRefused
from agent.model.ids import OPERATOR
from agent.model.routine import Cron, Once, Routine, Webhook
from agent.routines import wording
from agent.routines.firing import fire_by_hand
from agent.routines.timetable import first_due
from agent.store import routines
from agent.store.base import Transaction, Work
from agent.store.open import open_store
from bot.routines import secret_of
from config.settings import Settings

T = TypeVar("T")
FAILED = 1


def list_routines(settings: Settings) -> None:
    """Print everybody's routines."""
    found = _on_store(settings, routines.everybodys)
    if not found:
        click.echo("There are no routines.")
    for routine in found:
        click.echo(f"{routine.user}  {wording.line(routine).replace('**', '').replace('`', '')}")


def run_routine(settings: Settings, name: str) -> int:
    """Let a routine run at the bot's next look: 0, or 1 where it cannot."""
    return _act(settings, name, _fire, "It runs at the bot's next look at its time table.")


def enable_routine(settings: Settings, name: str) -> int:
    """Switch a routine on."""
    return _act(settings, name, partial(_switch, True), "It is enabled.")


def disable_routine(settings: Settings, name: str) -> int:
    """Switch a routine off."""
    return _act(settings, name, partial(_switch, False), "It is disabled.")


def show_webhook(settings: Settings, name: str) -> int:
    """Print where a webhook routine is reached, and the secret that signs what is posted there."""
    secret = settings.web.webhook_secret
    if secret is None:
        click.echo("Webhooks are off: set WEBHOOK_SECRET first.", err=True)
        return FAILED
    try:
        routine = _on_store(settings, partial(_named, name))
    except RoutineRefused as refused:
        click.echo(str(refused), err=True)
        return FAILED
    trigger = routine.plan.trigger
    if not isinstance(trigger, Webhook):
        click.echo(f"The routine {routine.name!r} is not set off by a webhook.", err=True)
        return FAILED
    click.echo(f"POST /webhook/{trigger.path}")
    click.echo(f"secret: {secret_of(trigger.path, secret)}")
    return 0


Act = Callable[[Routine, datetime, Transaction], None]


def _act(settings: Settings, name: str, act: Act, said: str) -> int:
    now = datetime.now(UTC)

    def work(tx: Transaction) -> None:
        act(_named(name, tx), now, tx)

    try:
        _on_store(settings, work)
    except RoutineRefused as refused:
        click.echo(str(refused), err=True)
        return FAILED
    click.echo(said)
    return 0


def _fire(routine: Routine, now: datetime, tx: Transaction) -> None:
    fire_by_hand(tx, routine, now, "shell")


def _switch(on: bool, routine: Routine, now: datetime, tx: Transaction) -> None:
    due = first_due(routine.plan.trigger, now)
    if on and due is None and isinstance(routine.plan.trigger, Cron | Once):
        raise RoutineRefused(f"Nothing of the time table of {routine.name!r} is left.")
    routines.switch(tx, routine.id, on=on, due_at=due, now=now)


def _named(name: str, tx: Transaction) -> Routine:
    """The routine of this name: the operator's own first, else the only one."""
    mine = routines.by_name(tx, OPERATOR, name)
    if mine is not None:
        return mine
    found = [routine for routine in routines.everybodys(tx) if routine.name == name]
    if len(found) > 1:
        raise RoutineRefused(f"Several people have a routine named {name!r}; each can act on theirs with /routines.")
    if not found:
        raise RoutineRefused(f"There is no routine named {name!r}; `optimclaw routine list` shows all.")
    return found[0]


def _on_store(settings: Settings, work: Work[T]) -> T:
    async def once() -> T:
        store = open_store(settings.home)
        try:
            return await store.write(work)
        finally:
            await store.close()

    return asyncio.run(once())
