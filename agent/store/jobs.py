"""Jobs: their rows, in the order in which they were asked for, and the changes of state that are allowed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, Select, func, insert, select, update

from agent.errors import InvalidTransition
from agent.model.ids import JobId, ThreadId, UserId
from agent.model.job import (
    MOST_TRANSITIONS,
    Job,
    JobLimits,
    JobListing,
    JobOrigin,
    JobState,
    JobViewer,
    Transition,
    check_transition,
)
from agent.store import facts
from agent.store.base import Transaction
from agent.store.tables import jobs, turns

_ORIGIN = TypeAdapter(JobOrigin)
_TRANSITIONS = TypeAdapter(tuple[Transition, ...])
_SLOTS = "job-slots"
_MOST_LOOKED_AT = 1000


def add(tx: Transaction, job: Job) -> None:
    """Keep a new job."""
    tx.connection.execute(
        insert(jobs),
        {
            "id": job.id,
            "user_id": job.user,
            "thread_id": job.thread,
            "title": job.title,
            "description": job.description,
            "state": job.state,
            "origin": None if job.origin is None else _ORIGIN.dump_json(job.origin).decode(),
            "model": job.model,
            "max_iterations": job.limits.max_iterations,
            "max_tokens": job.limits.max_tokens,
            "allowed_tools": None if job.allowed_tools is None else json.dumps(sorted(job.allowed_tools)),
            "reports": job.reports,
            "facts": json.dumps(dict(job.metadata), ensure_ascii=False),
            "created_at": job.created_at,
        },
    )


def get(tx: Transaction, job: JobId) -> Job | None:
    """A job by its id."""
    row = tx.connection.execute(select(jobs).where(jobs.c.id == job)).mappings().first()
    return None if row is None else _job(row)


def of_thread(tx: Transaction, thread: ThreadId) -> Job | None:
    """The job that a thread belongs to."""
    row = tx.connection.execute(select(jobs).where(jobs.c.thread_id == thread)).mappings().first()
    return None if row is None else _job(row)


def named(tx: Transaction, viewer: JobViewer, digits: str) -> Sequence[Job]:
    """The jobs that somebody sees whose id begins with these hexadecimal digits."""
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    wanted = select(jobs).where(jobs.c.id >= first, jobs.c.id <= last)
    return _seen(tx, viewer, wanted)


def listing(tx: Transaction, viewer: JobViewer, states: Collection[JobState] = (), limit: int = 20) -> JobListing:
    """The newest jobs that somebody sees, and how many there are; `states` empty: in any state."""
    wanted = select(jobs).order_by(jobs.c.number.desc())
    if states:
        wanted = wanted.where(jobs.c.state.in_(states))
    if viewer.chat is not None:  # where a job comes from is not a column of its own
        found = _seen(tx, viewer, wanted.limit(_MOST_LOOKED_AT))
        return JobListing(tuple(found[:limit]), len(found))
    by_state = counts(tx, viewer)
    total = sum(count for state, count in by_state.items() if not states or state in states)
    return JobListing(tuple(_seen(tx, viewer, wanted.limit(limit))), total)


def counts(tx: Transaction, viewer: JobViewer) -> dict[JobState, int]:
    """How many jobs that somebody sees are in each state."""
    if viewer.chat is not None:
        found = _seen(tx, viewer, select(jobs).order_by(jobs.c.number.desc()).limit(_MOST_LOOKED_AT))
        return dict(Counter(job.state for job in found))
    wanted = select(jobs.c.state, func.count()).group_by(jobs.c.state)
    if viewer.user is not None:
        wanted = wanted.where(jobs.c.user_id == viewer.user)
    return {JobState(state): count for state, count in tx.connection.execute(wanted)}


def _seen(tx: Transaction, viewer: JobViewer, wanted: Select[Any]) -> list[Job]:
    if viewer.user is not None:
        wanted = wanted.where(jobs.c.user_id == viewer.user)
    return [job for row in tx.connection.execute(wanted).mappings() if viewer.sees(job := _job(row))]


def waiting(tx: Transaction, user: UserId) -> int:
    """How many jobs of a person wait for a slot."""
    return tx.connection.execute(
        select(func.count()).select_from(jobs).where(jobs.c.state == JobState.PENDING, jobs.c.user_id == user)
    ).scalar_one()


def lock_slots(tx: Transaction) -> None:
    """Keep other processes from giving slots away until this transaction ends: they write the same row first."""
    facts.put(tx, _SLOTS, "")


def slots_held(tx: Transaction) -> int:
    """How many jobs run or hang."""
    held = [state for state in JobState if state.holds_slot]
    return tx.connection.execute(select(func.count()).select_from(jobs).where(jobs.c.state.in_(held))).scalar_one()


def next_pending(tx: Transaction, count: int) -> Sequence[Job]:
    """The jobs that wait longest for a slot, at most `count`."""
    rows = tx.connection.execute(
        select(jobs).where(jobs.c.state == JobState.PENDING).order_by(jobs.c.number).limit(count)
    )
    return [_job(row) for row in rows.mappings()]


def move(tx: Transaction, job: Job, after: JobState, now: datetime, reason: str, **changes: Any) -> Job:
    """Take a job from the state it is known to be in to another one, in the row too.

    Raises InvalidTransition, and changes nothing, where the table of states forbids it or the row has moved on.
    `changes` are other fields that change with it.
    """
    check_transition(job.state, after)
    moved = replace(
        job,
        state=after,
        transitions=(*job.transitions, Transition(job.state, after, now, reason))[-MOST_TRANSITIONS:],
        started_at=job.started_at or (now if after is JobState.IN_PROGRESS else None),
        finished_at=now if after.is_over else None,
        **changes,
    )
    values = {
        "state": moved.state,
        "transitions": _TRANSITIONS.dump_json(moved.transitions).decode(),
        "started_at": moved.started_at,
        "finished_at": moved.finished_at,
    }
    done = tx.connection.execute(
        update(jobs).where(jobs.c.id == job.id, jobs.c.state == job.state).values(**values, **changes)
    )
    if not done.rowcount:
        raise InvalidTransition(job.state, f"go to {after}: it has moved on")
    return moved


def note(tx: Transaction, job: JobId, **values: Any) -> None:
    """Write fields of a job that stays in its state."""
    tx.connection.execute(update(jobs).where(jobs.c.id == job).values(**values))


def hanging(tx: Transaction, now: datetime) -> Sequence[Job]:
    """Jobs in progress that gave no sign of life in time."""
    return _in_state(tx, JobState.IN_PROGRESS, jobs.c.alive_until < now)


def stuck(tx: Transaction) -> Sequence[Job]:
    """Jobs that are stuck."""
    return _in_state(tx, JobState.STUCK)


def extend(tx: Transaction, alive_until: datetime) -> None:
    """Let no job in progress count as hanging before this: after a pause of the whole program."""
    tx.connection.execute(
        update(jobs)
        .where(jobs.c.state == JobState.IN_PROGRESS, jobs.c.alive_until < alive_until)
        .values(alive_until=alive_until)
    )


def not_over(tx: Transaction) -> Sequence[JobId]:
    """The jobs that wait, run or hang."""
    going = [state for state in JobState if not state.is_over]
    return [JobId(each) for each in tx.connection.execute(select(jobs.c.id).where(jobs.c.state.in_(going))).scalars()]


def over_but_running(tx: Transaction) -> Sequence[ThreadId]:
    """Threads of jobs that are over while their turn is open: somebody ended them from another process."""
    over = [state for state in JobState if state.is_over]
    rows = tx.connection.execute(
        select(turns.c.thread_id)
        .join(jobs, jobs.c.thread_id == turns.c.thread_id)
        .where(turns.c.finished_at.is_(None), jobs.c.state.in_(over))
    )
    return [ThreadId(thread) for thread in rows.scalars()]


def running_of(tx: Transaction, user: UserId) -> Sequence[ThreadId]:
    """The threads of a person's jobs in progress, the one asked for first before the others."""
    rows = tx.connection.execute(
        select(jobs.c.thread_id)
        .where(jobs.c.state == JobState.IN_PROGRESS, jobs.c.user_id == user)
        .order_by(jobs.c.number)
    )
    return [ThreadId(thread) for thread in rows.scalars()]


def turns_of(tx: Transaction, thread: ThreadId) -> Sequence[UUID]:
    """The turns of a job, for what they cost."""
    return list(tx.connection.execute(select(turns.c.id).where(turns.c.thread_id == thread)).scalars())


def _in_state(tx: Transaction, state: JobState, *more: Any) -> Sequence[Job]:
    rows = tx.connection.execute(select(jobs).where(jobs.c.state == state, *more).order_by(jobs.c.number))
    return [_job(row) for row in rows.mappings()]


def _job(row: RowMapping) -> Job:
    return Job(
        id=JobId(row["id"]),
        user=UserId(row["user_id"]),
        thread=ThreadId(row["thread_id"]),
        title=row["title"],
        description=row["description"],
        state=JobState(row["state"]),
        origin=None if row["origin"] is None else _ORIGIN.validate_json(row["origin"]),
        model=row["model"],
        limits=JobLimits(row["max_iterations"], row["max_tokens"]),
        allowed_tools=None if row["allowed_tools"] is None else frozenset(json.loads(row["allowed_tools"])),
        reports=row["reports"],
        metadata=json.loads(row["facts"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        deadline=row["deadline"],
        alive_until=row["alive_until"],
        attempts=row["attempts"],
        steps=row["steps"],
        tokens=row["tokens"],
        shown_at=row["shown_at"],
        result=row["result"],
        error=row["error"],
        transitions=_TRANSITIONS.validate_json(row["transitions"]),
    )
