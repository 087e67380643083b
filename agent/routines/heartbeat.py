"""The heartbeat: goes through a checklist now and then, and speaks only when something needs a person.

Rules and numbers are those of the behaviour we implement (IronClaw's heartbeat), with its silent failures mended.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Protocol, assert_never
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.conversation import prompt, replies
from agent.llm.base import CompletionRequest, FinishReason, LLMProvider
from agent.llm.clean import clean
from agent.llm.errors import BudgetExceeded, LLMError
from agent.llm.messages import UserText
from agent.model.ids import OPERATOR, UserId
from agent.safety.layer import SafetyLayer
from agent.store import facts
from agent.store.base import Store, Transaction
from agent.workspace.errors import DocumentMissing, WorkspaceError
from agent.workspace.identity import Identity
from agent.workspace.scope import OperatorScope, PersonScope, Scope
from agent.workspace.workspace import Workspace
from channels.message import ChatType

log = structlog.get_logger(__name__)

OK_TOKEN = "HEARTBEAT_OK"
MAX_FAILURES = 3
MAX_BACKOFF = 8
SAME_FINDING_QUIET_FOR = timedelta(hours=24)
FIRING = "heartbeat"
AT_A_TIME = 8
_FAILURES = "heartbeat-failures:{user}"
_MAX_TOKENS = 4096
_SECOND = timedelta(seconds=1)
_OK_WITH_AT_MOST = 300  # characters beside the token

_INSTRUCTION = f"""Go through this checklist. If nothing needs attention, answer exactly {OK_TOKEN}. Otherwise \
describe what needs attention, briefly. Do not invent tasks and do not repeat old ones that are not on the list.

{{checklist}}"""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to check, or no budget to check it with."""

    reason: str


@dataclass(frozen=True, slots=True)
class AllClear:
    """Nothing needs attention."""


@dataclass(frozen=True, slots=True)
class NeedsAttention:
    """Something does."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The check could not be done."""

    reason: str


Finding = Skipped | AllClear | NeedsAttention | Failed


@dataclass(frozen=True, slots=True)
class HeartbeatSchedule:
    """When the checklist is due. With `fire_at` once a day at that local time, else each `interval`.

    Quiet hours are local hours: start inclusive, end exclusive, past midnight where start > end; none if equal or
    unset.
    """

    interval: timedelta
    zone: ZoneInfo
    fire_at: time | None = None
    quiet_start: int | None = None
    quiet_end: int | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a checklist of their own."""

    user: UserId
    scope: PersonScope


class Notifier(Protocol):
    """Brings a finding to a private chat."""

    async def notify_operator(self, text: str) -> bool:
        """False if no private chat of the operator is known."""
        ...

    async def notify_person(self, person: Person, text: str) -> bool:
        """False if they cannot be written to."""
        ...


People = Callable[[], Awaitable[Sequence[Person]]]
"""Those who may talk to the bot at the moment, besides the operator."""

Tell = Callable[[str], Awaitable[bool]]


# -- rules -------------------------------------------------------------------------------------------------------
def is_effectively_empty(checklist: str) -> bool:
    """Whether a checklist asks for nothing: comments, headings and empty boxes only."""
    plain = re.sub(r"<!--.*?(?:-->|\Z)", "", checklist, flags=re.DOTALL)
    return all(
        not line or line.startswith("#") or line in ("-", "*", "- [ ]", "- [x]")
        for line in (raw.strip() for raw in plain.splitlines())
    )


def is_quiet(schedule: HeartbeatSchedule, now: datetime) -> bool:
    """Whether the quiet hours hold at `now`."""
    start, end = schedule.quiet_start, schedule.quiet_end
    if start is None or end is None or start == end:
        return False
    hour = now.astimezone(schedule.zone).hour
    return start <= hour < end if start < end else hour >= start or hour < end


def next_due(schedule: HeartbeatSchedule, now: datetime, backoff: int = 1) -> datetime:
    """The next instant strictly after `now` at which a check is due, in UTC; the same in every process.

    A `fire_at` that daylight saving skips falls on the first valid instant after the gap; one that happens twice, on
    the first.
    """
    if schedule.fire_at is not None:
        today = now.astimezone(schedule.zone).date()
        candidates = (
            _instant(datetime.combine(today + timedelta(days=day), schedule.fire_at, schedule.zone))
            for day in range(-1, 3)
        )
        return next(due for due in candidates if due > now)
    step = schedule.interval * backoff
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + ((now - epoch) // step + 1) * step


def _instant(local: datetime) -> datetime:
    """The first instant, in UTC, at which clocks in the zone of `local` show its time, or a later one after a gap."""
    found = local.astimezone(UTC)
    if found.astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None):
        return found
    offset = local.replace(fold=1).utcoffset()  # in a gap fold 1 has the offset behind it (PEP 495)
    before = local.replace(fold=1).astimezone(UTC)
    while found - before > _SECOND:  # zone rules change on whole seconds
        middle = before + (found - before) // _SECOND // 2 * _SECOND
        if middle.astimezone(local.tzinfo).utcoffset() == offset:
            found = middle
        else:
            before = middle
    return found


def read_answer(text: str, *, cut_off: bool = False, token: str = OK_TOKEN) -> AllClear | NeedsAttention | Failed:
    """What a model's answer says. A finding that also mentions the token is still a finding."""
    trimmed = text.strip()
    if not trimmed or cut_off:
        return Failed("the model's answer was cut off" if cut_off else "the model gave no answer")
    bare = re.sub(r"[\W_]+", "", trimmed).upper()
    if bare == token.replace("_", ""):
        return AllClear()
    at_an_end = re.match(rf"\W*{token}\b", trimmed, re.IGNORECASE) or re.search(
        rf"\b{token}\W*\Z", trimmed, re.IGNORECASE
    )
    if at_an_end and len(trimmed) - len(token) <= _OK_WITH_AT_MOST:
        return AllClear()
    return NeedsAttention(re.sub(rf"\W?\b{token}\b\W?", " ", trimmed, flags=re.IGNORECASE).strip())


def _backoff(failures: int) -> int:
    """Of how many due times one is used after this many failures in a row."""
    return int(min(2 ** max(0, failures - MAX_FAILURES + 1), MAX_BACKOFF))


def _claim(due: datetime, tx: Transaction) -> bool:
    return facts.claim_firing(tx, FIRING, due)


# -- the service -------------------------------------------------------------------------------------------------
class HeartbeatRunner:
    """Checks checklists; `run` does it on schedule, for the operator's and then for everybody's own.

    How often a checklist has failed in a row is kept, so that a restart does not tell it anew.
    """

    def __init__(
        self,
        agent_name: str,
        schedule: HeartbeatSchedule,
        *,
        store: Store,
        clock: Clock,
        cheap_llm: LLMProvider,
        llm: LLMProvider,
        workspace: Workspace,
        identity: Identity,
        safety: SafetyLayer,
        notifier: Notifier,
        people: People,
    ) -> None:
        self._agent_name = agent_name
        self._schedule = schedule
        self._store = store
        self._clock = clock
        self._cheap_llm = cheap_llm
        self._llm = llm
        self._workspace = workspace
        self._identity = identity
        self._safety = safety
        self._notifier = notifier
        self._people = people
        self._rounds = 0

    async def run(self) -> None:
        """Check whenever it is due, until cancelled. Each due time is served by one process only."""
        while True:
            due = next_due(self._schedule, self._clock.now(), _backoff(await self._failures_of(OPERATOR)))
            await self._clock.sleep(due - self._clock.now())
            if is_quiet(self._schedule, due):
                log.info("heartbeat_quiet_hours")
            elif await self._store.write(partial(_claim, due)):
                await self.beat()

    async def beat(self) -> None:
        """One scheduled check of each checklist, with its notice if there is something to say."""
        await self._beat(OPERATOR, OperatorScope(), self._notifier.notify_operator)
        self._rounds += 1
        slots = asyncio.Semaphore(AT_A_TIME)

        async def beat(person: Person) -> None:
            async with slots:
                if self._rounds % _backoff(await self._failures_of(person.user)) == 0:
                    await self._beat(person.user, person.scope, partial(self._notifier.notify_person, person))

        async with asyncio.TaskGroup() as group:
            for person in await self._people():
                group.create_task(beat(person))

    async def _beat(self, user: UserId, scope: Scope, tell: Tell) -> None:
        finding = await self._check(scope, self._cheap_llm, unattended=True)
        if not isinstance(finding, Skipped) or user == OPERATOR:
            log.info("heartbeat_checked", user=user, finding=type(finding).__name__)
        match finding:
            case Skipped():
                return
            case AllClear():
                await self._keep_failures(user, 0)
            case NeedsAttention(text=text):
                await self._keep_failures(user, 0)
                await self._tell_once(user, replies.HEARTBEAT_HEADLINE.format(text=text), tell)
            case Failed(reason=reason):
                await self._count_failure(user, reason, tell)
            case unreachable:
                assert_never(unreachable)

    async def check_now(self, scope: Scope) -> str:
        """A check somebody asked for: with the main model, whatever the hour; what to say about it."""
        match await self._check(scope, self._llm, unattended=False):
            case Skipped(reason=reason):
                return f"Nothing was checked: {reason}."
            case AllClear():
                return "All clear: nothing on the checklist needs attention."
            case NeedsAttention(text=text):
                return replies.HEARTBEAT_HEADLINE.format(text=text)
            case Failed(reason=reason):
                return f"The check failed: {reason}. Try again later."
            case unreachable:
                assert_never(unreachable)

    async def _check(self, scope: Scope, llm: LLMProvider, *, unattended: bool) -> Finding:
        try:
            checklist = await self._workspace.read(scope, "HEARTBEAT.md")
        except DocumentMissing:
            checklist = ""
        except WorkspaceError as error:
            log.warning("heartbeat_checklist_unreadable", reason=type(error).__name__)
            return Failed("the checklist (HEARTBEAT.md) cannot be read")
        if is_effectively_empty(checklist):
            return Skipped("the checklist (HEARTBEAT.md) is empty")
        try:
            completion = await llm.complete(replace(await self._request(scope, checklist, llm), unattended=unattended))
        except BudgetExceeded as error:
            may_see_sums = isinstance(scope, OperatorScope)  # what the operator spends is nobody else's business
            return Skipped(error.text if may_see_sums else "the budget for the language model is used up for now")
        except LLMError as error:
            log.warning("heartbeat_model_failed", error=type(error).__name__, detail=error.detail)
            return Failed("the language model did not answer")
        finding = read_answer(clean(completion.text), cut_off=completion.finish is FinishReason.LENGTH)
        if isinstance(finding, NeedsAttention):
            return NeedsAttention(self._safety.hide_secrets(finding.text))
        return finding

    async def _request(self, scope: Scope, checklist: str, llm: LLMProvider) -> CompletionRequest:
        snapshot = await self._identity.snapshot(scope)
        notes = await self._identity.notes(scope, self._schedule.zone)
        facts_ = prompt.PromptFacts(self._agent_name, "", ChatType.PRIVATE, snapshot.text)
        now = self._clock.now().astimezone(self._schedule.zone)
        head = f"[{now:%Y-%m-%d %H:%M %A} {self._schedule.zone.key}]\n"
        told = f"{notes}\n\n" if notes else ""
        half_window = (llm.context_limit or 0) // 2
        return CompletionRequest(
            system=prompt.system_prompt(facts_),
            messages=(UserText(head + told + _INSTRUCTION.format(checklist=checklist)),),
            max_tokens=max(_MAX_TOKENS, min(half_window, _MAX_TOKENS * 2)),
            temperature=0.3,
            account="heartbeat",
        )

    async def _failures_of(self, user: UserId) -> int:
        return int(await self._store.read(partial(facts.get, name=_FAILURES.format(user=user))) or 0)

    async def _keep_failures(self, user: UserId, count: int) -> None:
        if count != await self._failures_of(user):
            await self._store.write(partial(facts.put, name=_FAILURES.format(user=user), value=str(count)))

    async def _count_failure(self, user: UserId, reason: str, tell: Tell) -> None:
        count = await self._failures_of(user) + 1
        await self._keep_failures(user, count)
        if count == MAX_FAILURES:
            await self._tell_once(
                user,
                f"The heartbeat has failed {MAX_FAILURES} times in a row ({reason}). It goes on less often until it "
                "works again.",
                tell,
            )

    async def _tell_once(self, user: UserId, text: str, tell: Tell) -> None:
        told = text if user == OPERATOR else f"{user}\0{text}"
        digest = hashlib.sha256(told.encode()).hexdigest()
        now = self._clock.now()
        is_news = await self._store.write(lambda tx: facts.claim_finding(tx, digest, now, SAME_FINDING_QUIET_FOR))
        if is_news and not await tell(text):
            log.warning("heartbeat_has_no_target", user=user)
            await self._store.write(partial(facts.forget_finding, digest=digest))  # nobody heard of it: it stays news
