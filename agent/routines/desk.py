"""Makes, changes, lists and runs a person's routines, for tools and commands alike. Every access is by user.

In a shared chat only those are seen that were made there: the names of the others are nobody else's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import uuid4
from zoneinfo import ZoneInfo

from agent.clock import Clock
from agent.errors import RoutineRefused
from agent.model.ids import RoutineId, UserId
from agent.model.routine import (
    Cron,
    FullJob,
    Guardrails,
    Lightweight,
    Notify,
    Once,
    Origin,
    Plan,
    Routine,
    Run,
    Trigger,
    Webhook,
)
from agent.routines import cron, orders, wording
from agent.routines.firing import Rules, fire_by_hand, fire_system_event
from agent.routines.timetable import first_due
from agent.store import routines
from agent.store.base import Store, Transaction
from agent.tools.base import ToolContext
from agent.tools.builtin.routines import EventEmitArguments, RoutineCreateArguments, RoutineUpdateArguments
from agent.workspace.scope import GroupScope, PersonScope
from channels.message import Address, ChatType

MOST_ROUTINES = 100
"""Of one person."""
_NONE = "There are no routines."


class Places(Protocol):
    """Where notices can go."""

    @property
    def channels(self) -> Sequence[str]: ...

    async def find(self, channel: str, target: str) -> Address | None: ...

    async def operator(self, channel: str | None) -> Sequence[Address]: ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for routines, and where: in a shared chat they see those that were made there."""

    user: UserId
    address: Address
    is_shared: bool
    zone: ZoneInfo

    @classmethod
    def of(cls, context: ToolContext) -> Asker:
        return cls(context.user, context.address, context.is_shared, context.zone)

    def sees(self, routine: Routine) -> bool:
        """Whether a routine of theirs may be shown here."""
        made_at = routine.plan.origin.address
        return not self.is_shared or (made_at.channel, made_at.chat_id) == (self.address.channel, self.address.chat_id)


class RoutineDesk:
    """`agent.tools.builtin.routines.RoutineDesk`, and the same for commands. Raises RoutineRefused and StoreError."""

    def __init__(
        self,
        rules: Rules,
        default_cooldown: timedelta,
        *,
        store: Store,
        clock: Clock,
        places: Places,
        is_secret: Callable[[str], bool],
        takes_webhooks: bool,
        nudge: Callable[[], None],
    ) -> None:
        self._rules = rules
        self._default_cooldown = default_cooldown
        self._store = store
        self._clock = clock
        self._places = places
        self._is_secret = is_secret
        self._takes_webhooks = takes_webhooks
        self._nudge = nudge

    # -- making and changing -------------------------------------------------------------------------------------
    async def create(self, arguments: RoutineCreateArguments, context: ToolContext) -> str:
        """Keep a new routine; says when it runs first, and where its results go."""
        if self._is_secret(f"{arguments.name}\n{arguments.prompt}\n{arguments.description}"):
            raise RoutineRefused("The text holds what looks like a key, token or password: a routine must not.")
        orders.check_bounds(arguments)
        now = self._clock.now()
        name = orders.read_name(arguments.name)
        trigger = orders.read_trigger(arguments, orders.Moment(now, context.zone))
        if isinstance(trigger, Webhook):
            self._check_webhook(context)
        plan = Plan(
            trigger=trigger,
            action=orders.read_action(arguments, name),
            guardrails=orders.read_guardrails(arguments, self._default_cooldown),
            notify=Notify(await self._target(arguments, context)),
            origin=_origin(context, orders.read_zone(arguments.timezone, context.zone)),
        )
        due = first_due(trigger, now)
        routine = Routine(
            id=RoutineId(uuid4()),
            user=context.user,
            name=name,
            description=arguments.description,
            enabled=True,
            plan=plan,
            due_at=due,
            wake_at=due,
            last_run_at=None,
            run_count=0,
            consecutive_failures=0,
            created_at=now,
            updated_at=now,
        )
        await self._store.write(partial(self._add, routine))
        return _confirmation(routine)

    def _add(self, routine: Routine, tx: Transaction) -> None:
        trigger = routine.plan.trigger
        if len(routines.of_user(tx, routine.user)) >= MOST_ROUTINES:
            raise RoutineRefused(f"There are {MOST_ROUTINES} routines already; delete some first.")
        if isinstance(trigger, Webhook) and routines.is_path_taken(tx, trigger.path):
            raise RoutineRefused(f"The webhook path {trigger.path!r} is taken; choose another.")
        if routines.by_name(tx, routine.user, routine.name) is not None or not routines.add(tx, routine):
            raise RoutineRefused(
                f"There is a routine named {routine.name!r} already. Choose another name, or change or delete that one."
            )
        tx.after_commit(self._nudge)

    async def change(self, arguments: RoutineUpdateArguments, context: ToolContext) -> str:
        """Change a routine."""
        if self._is_secret(f"{arguments.prompt or ''}\n{arguments.description or ''}"):
            raise RoutineRefused("The text holds what looks like a key, token or password: a routine must not.")
        changed = await self._store.write(partial(self._change, arguments, Asker.of(context)))
        return f"Changed. {wording.line(changed)}"

    def _change(self, arguments: RoutineUpdateArguments, asker: Asker, tx: Transaction) -> Routine:
        now = self._clock.now()
        routine = _found(tx, asker, arguments.name)
        plan = routine.plan
        trigger = _new_trigger(plan.trigger, arguments, now, asker.zone)
        plan = replace(plan, trigger=trigger, action=_new_action(plan.action, arguments.prompt))
        if arguments.timezone is not None:
            plan = replace(plan, origin=replace(plan.origin, zone=orders.read_zone(arguments.timezone, asker.zone).key))
        enabled = routine.enabled if arguments.enabled is None else arguments.enabled
        changed = replace(
            routine,
            plan=plan,
            enabled=enabled,
            description=routine.description if arguments.description is None else arguments.description,
            updated_at=now,
        )
        return self._keep(tx, routine, changed, now)

    def _keep(self, tx: Transaction, before: Routine, after: Routine, now: datetime) -> Routine:
        """Keep a changed routine. Its next time is computed anew where it was switched on or has another time table."""
        if after.enabled and (not before.enabled or after.plan.trigger != before.plan.trigger):
            due = first_due(after.plan.trigger, now)
            if due is None and isinstance(after.plan.trigger, Cron | Once):
                raise RoutineRefused(f"Nothing of the time table of {after.name!r} is left; give it another schedule.")
            after = replace(after, due_at=due, wake_at=due)
        routines.change(tx, after)
        if after.enabled and not before.enabled:
            routines.forget_failures(tx, after.id)
            after = replace(after, consecutive_failures=0)
        tx.after_commit(self._nudge)
        return after

    async def switch(self, name: str, asker: Asker, *, on: bool) -> Routine:
        """Enable or disable a routine."""
        return await self._store.write(partial(self._switch, name, asker, on))

    def _switch(self, name: str, asker: Asker, on: bool, tx: Transaction) -> Routine:
        routine = _found(tx, asker, name)
        now = self._clock.now()
        return self._keep(tx, routine, replace(routine, enabled=on, updated_at=now), now)

    async def delete(self, name: str, context: ToolContext) -> str:
        return await self.remove(name, Asker.of(context))

    async def remove(self, name: str, asker: Asker) -> str:
        """Forget a routine and its runs."""
        return await self._store.write(partial(_remove, name, asker))

    # -- running -------------------------------------------------------------------------------------------------
    async def fire(self, name: str, context: ToolContext) -> str:
        return await self.run_now(name, Asker.of(context))

    async def run_now(self, name: str, asker: Asker) -> str:
        """Let a routine run in the background, without regard to its cooldown."""
        run = await self._store.write(partial(self._fire, name, asker))
        return f"It runs now (run {run.id}); its result is sent to its conversation."

    def _fire(self, name: str, asker: Asker, tx: Transaction) -> Run:
        run = fire_by_hand(tx, _found(tx, asker, name), self._clock.now())
        tx.after_commit(self._nudge)
        return run

    async def emit(self, arguments: EventEmitArguments, context: ToolContext) -> str:
        """Tell the person's routines of an event."""
        fired = await self._store.write(partial(self._emit, arguments, context.user))
        return json.dumps({"fired_routines": len(fired)})

    def _emit(self, arguments: EventEmitArguments, user: UserId, tx: Transaction) -> Sequence[Run]:
        now = self._clock.now()
        fired = fire_system_event(
            tx, user, arguments.event_source, arguments.event_type, arguments.payload, now, self._rules
        )
        if fired:
            tx.after_commit(self._nudge)
        return fired

    # -- looking -------------------------------------------------------------------------------------------------
    async def visible(self, asker: Asker) -> Sequence[Routine]:
        """The routines of the one who asks, as far as they may be shown where they ask."""
        found = await self._store.read(partial(routines.of_user, user=asker.user))
        return [routine for routine in found if asker.sees(routine)]

    async def listing(self, context: ToolContext) -> str:
        """The routines, one a line."""
        found = await self.visible(Asker.of(context))
        return "\n".join(f"- {wording.line(routine)}" for routine in found) or _NONE

    async def history(self, name: str, limit: int, context: ToolContext) -> str:
        """The last runs of a routine, newest first."""

        def read(tx: Transaction) -> tuple[Routine, Sequence[Run]]:
            routine = _found(tx, Asker.of(context), name)
            return routine, routines.history(tx, routine.id, limit)

        return wording.history(*await self._store.read(read))

    # -- where notices go -----------------------------------------------------------------------------------------
    async def _target(self, arguments: RoutineCreateArguments, context: ToolContext) -> Address | None:
        channel = (arguments.notify_channel or "").strip().lower()
        target = (arguments.notify_user or "").strip()
        if not channel and not target:
            return None
        channel = channel or context.address.channel
        if (channel, target) in ((context.address.channel, ""), (context.address.channel, context.address.chat_id)):
            return None
        if not context.is_operator or context.is_shared:
            raise RoutineRefused(
                "Only the operator, in a private chat, may send a routine's results elsewhere; leave out "
                "'notify_channel' and 'notify_user': they come to this conversation."
            )
        if channel not in self._places.channels:
            raise RoutineRefused(
                f"There is no channel {channel[:40]!r} here; on are {', '.join(self._places.channels)}."
            )
        found = (
            await self._places.find(channel, target)
            if target
            else next(iter(await self._places.operator(channel)), None)
        )
        if found is None:
            raise RoutineRefused(f"Nobody can be reached there on {channel}: name 'notify_user'.")
        return found

    def _check_webhook(self, context: ToolContext) -> None:
        if not self._takes_webhooks:
            raise RoutineRefused("Webhooks are off: the operator has to set WEBHOOK_SECRET first.")
        if not context.is_operator:
            raise RoutineRefused("Only the operator may make webhook routines.")


def _found(tx: Transaction, asker: Asker, name: str) -> Routine:
    routine = routines.by_name(tx, asker.user, " ".join(name.split()))
    if routine is not None and asker.sees(routine):
        return routine
    names = [each.name for each in routines.of_user(tx, asker.user) if asker.sees(each)]
    known = f" There are: {', '.join(names[:20])}." if names else " There are none."
    raise RoutineRefused(f"There is no routine named {name[:60]!r} (not found).{known}")


def _remove(name: str, asker: Asker, tx: Transaction) -> str:
    routine = _found(tx, asker, name)
    routines.remove(tx, routine.id)
    return f"The routine {routine.name!r} is deleted."


def _origin(context: ToolContext, zone: ZoneInfo) -> Origin:
    match context.scope:
        case GroupScope(member=member):
            sender = member or ""
        case PersonScope(user_id=sender):
            pass
        case _:
            sender = context.address.chat_id
    chat_type = ChatType.GROUP if context.is_shared else ChatType.PRIVATE
    return Origin(context.address, chat_type, sender, zone.key)


def _new_trigger(trigger: Trigger, arguments: RoutineUpdateArguments, now: datetime, default: ZoneInfo) -> Trigger:
    if arguments.schedule is None and arguments.timezone is None:
        return trigger
    match trigger:
        case Cron(expression=expression, zone=zone, until=until):
            new_zone = orders.read_zone(arguments.timezone, ZoneInfo(zone))
            found = orders.read_schedule(arguments.schedule or expression, new_zone, now)
            return replace(found, until=until)
        case Once(at=at) if arguments.schedule is None:
            return Once(at, orders.read_zone(arguments.timezone, default).key)
        case _ if arguments.schedule is not None:
            raise RoutineRefused("Only a routine with a cron schedule can get another one; delete it and make it anew.")
        case _:
            return trigger


def _new_action(action: Lightweight | FullJob, prompt: str | None) -> Lightweight | FullJob:
    if prompt is None:
        return action
    return replace(action, prompt=prompt) if isinstance(action, Lightweight) else replace(action, description=prompt)


def _confirmation(routine: Routine) -> str:
    plan = routine.plan
    parts = [f"Routine {routine.name!r} is made (id {routine.id})."]
    if routine.due_at is not None:
        parts.append(f"It runs next on {wording.moment(routine.due_at, plan.origin.zone)}.")
    else:
        parts.append(f"It runs on: {wording.when(plan.trigger)}.")
    if _is_denser_than(plan.trigger, routine.due_at, plan.guardrails.cooldown):
        parts.append(_resting(plan.guardrails))
    if isinstance(plan.trigger, Webhook):
        parts.append("`optimclaw routine webhook` shows its address and secret in a shell.")
    where = plan.notify.address
    parts.append(
        "Results come to this conversation."
        if where is None
        else f"Results go to {where.channel} chat {where.chat_id}."
    )
    return " ".join(parts)


def _is_denser_than(trigger: Trigger, due: datetime | None, cooldown: timedelta) -> bool:
    """Whether the cooldown leaves out the second time of a time table."""
    if due is None or not isinstance(trigger, Cron):
        return False
    following = cron.next_fire(trigger.expression, due, ZoneInfo(trigger.zone))
    return following is not None and following - due < cooldown


def _resting(guardrails: Guardrails) -> str:
    seconds = guardrails.cooldown.total_seconds()
    return f"Times within {seconds:g} s of a run are left out (cooldown_secs)."
