"""Routines, and each time one ran. Functions of an open transaction; who may see what is the caller's question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, bindparam, delete, func, select, update

from agent.model import ids
from agent.model.ids import JobId, RoutineId, UserId
from agent.model.routine import Ending, OnSystemEvent, Plan, Routine, Run, RunStatus, Webhook
from agent.store.base import Transaction
from agent.store.sql import insert_ignore
from agent.store.tables import routine_runs, routines
from channels.message import Address

RUNS_KEPT = 200
"""Of each routine, the newest."""
LONGEST_DETAIL = 32_000
LONGEST_SUMMARY = 8_000

_PLAN = TypeAdapter(Plan)
_MICROSECOND = timedelta(microseconds=1)
_LISTENING = (
    select(routines)
    .where(routines.c.kind == "event", routines.c.user_id == bindparam("user"), routines.c.enabled)
    .order_by(routines.c.created_at, routines.c.id)
)
_DUE = (
    select(routines)
    .where(routines.c.wake_at <= bindparam("now"))
    .order_by(routines.c.wake_at.desc())
    .limit(bindparam("count"))
)
_NEXT_WAKE = select(func.min(routines.c.wake_at)).where(routines.c.wake_at > bindparam("now"))
_PENDING = (
    select(routine_runs)
    .where(routine_runs.c.finished_at.is_(None), routine_runs.c.status == RunStatus.PENDING)
    .order_by(routine_runs.c.due_at)
    .limit(bindparam("count"))
)
_OPEN = select(func.count()).select_from(routine_runs).where(routine_runs.c.finished_at.is_(None))


# -- routines ----------------------------------------------------------------------------------------------------
def add(tx: Transaction, routine: Routine) -> bool:
    """Keep a new routine. False if its owner has one of that name."""
    return insert_ignore(tx, routines, {"id": routine.id, "user_id": routine.user, **_columns(routine)})


def change(tx: Transaction, routine: Routine) -> None:
    """Let a routine be as it is here, its counters excepted."""
    values = {name: value for name, value in _columns(routine).items() if name not in _COUNTED}
    tx.connection.execute(update(routines).where(routines.c.id == routine.id).values(values))


def remove(tx: Transaction, routine: RoutineId) -> None:
    """Forget a routine and its runs; one that is running ends for nobody."""
    tx.connection.execute(delete(routine_runs).where(routine_runs.c.routine_id == routine))
    tx.connection.execute(delete(routines).where(routines.c.id == routine))


def get(tx: Transaction, routine: RoutineId) -> Routine | None:
    """A routine by its id."""
    row = tx.connection.execute(select(routines).where(routines.c.id == routine)).mappings().first()
    return None if row is None else _routine(row)


def by_name(tx: Transaction, user: UserId, name: str) -> Routine | None:
    """A person's routine of this name, in whatever case."""
    of_user = select(routines).where(routines.c.user_id == user)
    exact = tx.connection.execute(of_user.where(routines.c.name == name)).mappings().first()
    if exact is not None:
        return _routine(exact)
    folded = tx.connection.execute(of_user.where(func.lower(routines.c.name) == name.lower())).mappings().all()
    return _routine(folded[0]) if len(folded) == 1 else None


def of_user(tx: Transaction, user: UserId) -> Sequence[Routine]:
    """A person's routines, by name."""
    rows = tx.connection.execute(select(routines).where(routines.c.user_id == user).order_by(routines.c.name))
    return [_routine(row) for row in rows.mappings()]


def everybodys(tx: Transaction) -> Sequence[Routine]:
    """All routines, by owner and name."""
    rows = tx.connection.execute(select(routines).order_by(routines.c.user_id, routines.c.name))
    return [_routine(row) for row in rows.mappings()]


def listening(tx: Transaction, user: UserId) -> Sequence[Routine]:
    """A person's enabled routines that wait for a message, the oldest first."""
    return [_routine(row) for row in tx.connection.execute(_LISTENING, {"user": user}).mappings()]


def for_system_event(tx: Transaction, user: UserId, source: str) -> Sequence[Routine]:
    """A person's enabled routines that wait for an event of this source."""
    return _enabled(tx, "system_event", source, user)


def for_webhook(tx: Transaction, path: str) -> Routine | None:
    """The enabled routine behind a webhook's path."""
    return next(iter(_enabled(tx, "webhook", path)), None)


def is_path_taken(tx: Transaction, path: str) -> bool:
    """Whether a routine, enabled or not, has this webhook path."""
    taken = select(routines.c.id).where(routines.c.kind == "webhook", routines.c.topic == path.lower())
    return tx.connection.execute(taken).first() is not None


def _enabled(tx: Transaction, kind: str, topic: str, user: UserId | None = None) -> Sequence[Routine]:
    wanted = select(routines).where(routines.c.kind == kind, routines.c.topic == topic.lower(), routines.c.enabled)
    if user is not None:
        wanted = wanted.where(routines.c.user_id == user)
    rows = tx.connection.execute(wanted.order_by(routines.c.created_at, routines.c.id))
    return [_routine(row) for row in rows.mappings()]


# -- the time table ------------------------------------------------------------------------------------------------
def due(tx: Transaction, now: datetime, count: int) -> Sequence[Routine]:
    """The routines to look at now, those that became due last first: what is late must not hold up what is not."""
    return [_routine(row) for row in tx.connection.execute(_DUE, {"now": now, "count": count}).mappings()]


def next_wake(tx: Transaction, now: datetime) -> datetime | None:
    """When the next one is to be looked at."""
    return tx.connection.execute(_NEXT_WAKE, {"now": now}).scalar()


def advance(
    tx: Transaction, routine: RoutineId, due_at: datetime | None, wake_at: datetime | None, last_run: datetime | None
) -> None:
    """Note when a routine is due next, when to look at it, and when it ran last."""
    tx.connection.execute(
        update(routines).where(routines.c.id == routine).values(due_at=due_at, wake_at=wake_at, last_run_at=last_run)
    )


def note_run(tx: Transaction, routine: RoutineId, at: datetime) -> None:
    """A routine runs that is on no time table, or not for its sake."""
    tx.connection.execute(update(routines).where(routines.c.id == routine).values(last_run_at=at))


def count_end(tx: Transaction, routine: RoutineId, *, failures: int, enabled: bool) -> None:
    """One more run is over. One that is switched off is not looked at again."""
    values: dict[str, object] = {"run_count": routines.c.run_count + 1, "consecutive_failures": failures}
    if not enabled:
        values |= {"enabled": False, "wake_at": None}
    tx.connection.execute(update(routines).where(routines.c.id == routine).values(values))


def switch(tx: Transaction, routine: RoutineId, *, on: bool, due_at: datetime | None, now: datetime) -> None:
    """Switch a routine on, as if it had never failed and due at `due_at`, or off."""
    values: dict[str, object] = {"enabled": on, "wake_at": None, "updated_at": now}
    if on:
        values |= {"due_at": due_at, "wake_at": due_at, "consecutive_failures": 0}
    tx.connection.execute(update(routines).where(routines.c.id == routine).values(values))


def forget_failures(tx: Transaction, routine: RoutineId) -> None:
    """A routine that was switched on again begins anew."""
    tx.connection.execute(update(routines).where(routines.c.id == routine).values(consecutive_failures=0))


# -- runs --------------------------------------------------------------------------------------------------------
def claim(
    tx: Transaction, routine: RoutineId, due_at: datetime, cause: str, detail: str = "", fingerprint: str | None = None
) -> Run | None:
    """A run for this due time, waiting to begin; None if somebody has claimed it."""
    run = Run(ids.run_id(routine, due_at.isoformat()), routine, due_at, cause, RunStatus.PENDING, _cut(detail))
    row = {
        "routine_id": routine,
        "due_at": due_at,
        "id": run.id,
        "cause": cause,
        "detail": run.detail,
        "event_hash": fingerprint,
        "status": run.status,
    }
    return run if insert_ignore(tx, routine_runs, row) else None


def claim_now(
    tx: Transaction, routine: RoutineId, now: datetime, cause: str, detail: str = "", fingerprint: str | None = None
) -> Run:
    """A run for something that happens now; two of one instant are two."""
    while (run := claim(tx, routine, now, cause, detail, fingerprint)) is None:
        now += _MICROSECOND
    return run


def record_missed(tx: Transaction, routine: RoutineId, due_at: datetime, reason: str, now: datetime) -> None:
    """A due time at which nothing ran, and why; nothing if there is a row for it."""
    row = {
        "routine_id": routine,
        "due_at": due_at,
        "id": ids.run_id(routine, due_at.isoformat()),
        "cause": "schedule",
        "status": RunStatus.MISSED,
        "summary": reason,
        "finished_at": now,
    }
    insert_ignore(tx, routine_runs, row)


def pending(tx: Transaction, count: int) -> Sequence[Run]:
    """The runs that wait to begin, the oldest first."""
    return [_run(row) for row in tx.connection.execute(_PENDING, {"count": count}).mappings()]


def running(tx: Transaction) -> Sequence[Run]:
    """The runs that have begun and not ended."""
    rows = tx.connection.execute(
        select(routine_runs).where(routine_runs.c.finished_at.is_(None), routine_runs.c.status == RunStatus.RUNNING)
    ).mappings()
    return [_run(row) for row in rows]


def count_open(tx: Transaction, routine: RoutineId | None = None) -> int:
    """How many runs wait or run, of one routine or of all."""
    return tx.connection.execute(
        _OPEN if routine is None else _OPEN.where(routine_runs.c.routine_id == routine)
    ).scalar_one()


def same_event_at(tx: Transaction, routine: RoutineId, fingerprint: str, since: datetime) -> datetime | None:
    """When a routine last ran for an equal event, if that was after `since`."""
    return tx.connection.execute(
        select(func.max(routine_runs.c.due_at)).where(
            routine_runs.c.routine_id == routine,
            routine_runs.c.due_at > since,
            routine_runs.c.event_hash == fingerprint,
        )
    ).scalar()


def start(tx: Transaction, run: UUID, now: datetime) -> bool:
    """Let a run begin; False if somebody else did, or it is gone."""
    begun = update(routine_runs).where(routine_runs.c.id == run, routine_runs.c.status == RunStatus.PENDING)
    return tx.connection.execute(begun.values(status=RunStatus.RUNNING, started_at=now)).rowcount > 0


def note_job(tx: Transaction, run: UUID, job: JobId) -> None:
    """A run is done by this job."""
    tx.connection.execute(update(routine_runs).where(routine_runs.c.id == run).values(job_id=job))


def finish(tx: Transaction, run: Run, ending: Ending, now: datetime) -> bool:
    """Close a run that is running; False if it was closed before. The oldest of its routine's are forgotten."""
    closed = update(routine_runs).where(routine_runs.c.id == run.id, routine_runs.c.status == RunStatus.RUNNING)
    values = {"status": ending.status, "summary": ending.summary[:LONGEST_SUMMARY], "finished_at": now}
    if not tx.connection.execute(closed.values(values)).rowcount:
        return False
    mine = routine_runs.c.routine_id == run.routine
    oldest = select(routine_runs.c.due_at).where(mine).order_by(routine_runs.c.due_at.desc())
    last_kept = tx.connection.execute(oldest.offset(RUNS_KEPT).limit(1)).scalar()
    if last_kept is not None:
        old = routine_runs.c.due_at <= last_kept
        tx.connection.execute(delete(routine_runs).where(mine, old, routine_runs.c.finished_at.is_not(None)))
    return True


def history(tx: Transaction, routine: RoutineId, limit: int) -> Sequence[Run]:
    """The newest runs of a routine, newest first."""
    rows = tx.connection.execute(
        select(routine_runs)
        .where(routine_runs.c.routine_id == routine)
        .order_by(routine_runs.c.due_at.desc())
        .limit(limit)
    ).mappings()
    return [_run(row) for row in rows]


# -- a chat that got another id --------------------------------------------------------------------------------------
def move_chat(tx: Transaction, channel: str, old_chat: str, new_chat: str) -> None:
    """Let routines that were made in a chat, or tell it of their ends, belong to its new id."""
    for row in tx.connection.execute(select(routines.c.id, routines.c.body)).all():
        if old_chat not in row.body:
            continue
        plan = _PLAN.validate_json(row.body)
        moved = _moved(plan, channel, old_chat, new_chat)
        if moved != plan:
            body = _PLAN.dump_json(moved).decode()
            tx.connection.execute(update(routines).where(routines.c.id == row.id).values(body=body))


def _moved(plan: Plan, channel: str, old_chat: str, new_chat: str) -> Plan:
    def renewed(address: Address | None) -> Address | None:
        if address is None or (address.channel, address.chat_id) != (channel, old_chat):
            return address
        return address.model_copy(update={"chat_id": new_chat})

    origin = renewed(plan.origin.address)
    assert origin is not None  # it was none before
    return replace(
        plan,
        origin=replace(plan.origin, address=origin),
        notify=replace(plan.notify, address=renewed(plan.notify.address)),
    )


_COUNTED = frozenset({"last_run_at", "run_count", "consecutive_failures", "created_at"})


def _columns(routine: Routine) -> dict[str, object]:
    trigger = routine.plan.trigger
    match trigger:
        case Webhook(path=word) | OnSystemEvent(source=word):
            topic: str | None = word.lower()
        case _:
            topic = None
    return {
        "name": routine.name,
        "description": routine.description,
        "enabled": routine.enabled,
        "kind": trigger.kind,
        "topic": topic,
        "body": _PLAN.dump_json(routine.plan).decode(),
        "due_at": routine.due_at,
        "wake_at": routine.wake_at if routine.enabled else None,
        "last_run_at": routine.last_run_at,
        "run_count": routine.run_count,
        "consecutive_failures": routine.consecutive_failures,
        "created_at": routine.created_at,
        "updated_at": routine.updated_at,
    }


def _routine(row: RowMapping) -> Routine:
    return Routine(
        id=RoutineId(row["id"]),
        user=UserId(row["user_id"]),
        name=row["name"],
        description=row["description"],
        enabled=row["enabled"],
        plan=_PLAN.validate_json(row["body"]),
        due_at=row["due_at"],
        wake_at=row["wake_at"],
        last_run_at=row["last_run_at"],
        run_count=row["run_count"],
        consecutive_failures=row["consecutive_failures"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _run(row: RowMapping) -> Run:
    return Run(
        id=row["id"],
        routine=RoutineId(row["routine_id"]),
        due_at=row["due_at"],
        cause=row["cause"],
        status=RunStatus(row["status"]),
        detail=row["detail"],
        summary=row["summary"],
        job=None if row["job_id"] is None else JobId(row["job_id"]),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]} [cut]"
