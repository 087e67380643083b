"""Random lives of one person's conversations, step by step beside a small model of what must become of them.

Each step is checked against the rows of the database, the requests that the model saw, and the lines that risky tools
wrote. `python -m tests.scenarios.test_thread_machine EXAMPLES STEPS` runs it for longer.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from agent.conversation.compaction import MARK
from agent.llm.base import Completion, CompletionRequest, OnText
from agent.llm.errors import RequestRefused, TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model import ids
from agent.model.ids import TurnId
from agent.model.tool_call import ToolCall
from agent.store.codec import load_message
from agent.store.open import DATABASE_NAME, create
from channels.message import IncomingMessage, ReplyKind
from tests.support.bot import OWNER, Bot
from tests.support.builders import make_message
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, call, calls, say

T = TypeVar("T")
STRANGER = "2"
MOST_UNDO = 20
KEPT_BY_SUMMARY = 5
SECRET_LIFETIME = timedelta(seconds=300)
QUESTION_LIFETIME = timedelta(hours=24)
TICK = timedelta(seconds=5)
VARIABLES = {
    "LLM_MAX_RETRIES": "0",
    "LLM_CIRCUIT_BREAKER": "false",
    "SECRETS_MASTER_KEY": "a master key of more than 32 characters",
}

Seen = tuple[object, ...]
"""A message of a history, with what is of interest of it."""


# -- what the scripted model does -----------------------------------------------------------------------------------
class Fault(Exception):
    """The model fails here."""


Round = tuple[ToolCall, ...] | str | type[Fault]
Plan = tuple[Round, ...]


def plan_of(kind: str, n: int) -> Plan:
    """The model's rounds in turn `n`."""
    reads, more = ToolCall(f"e{n}", "echo", {"message": "hi"}), ToolCall(f"f{n}", "echo", {"message": "ho"})
    risky, again = (ToolCall(f"{x}{n}", "shell", {"command": f"echo {x}{n} >> proof.txt"}) for x in "rs")
    harsh = ToolCall(f"d{n}", "shell", {"command": f"echo d{n} >> proof.txt; rm -rf nothing-there"})
    unknown, broken = ToolCall(f"u{n}", "no_such_tool", {}), ToolCall(f"b{n}", "echo", {}, malformed='{"mess')
    auth, answer = ToolCall(f"a{n}", "tool_auth", {"name": "service"}), f"answer {n}."
    return {
        "text": (answer,),
        "read": ((reads,), answer),
        "several": ((reads, unknown, more), (broken,), answer),
        "risky": ((risky,), answer),
        "harsh": ((harsh,), answer),
        "mixed": ((risky, reads, harsh), answer),
        "two rounds": ((reads, risky), (again,), answer),
        "fault": (Fault,),
        "read then fault": ((reads,), Fault),
        "risky then fault": ((risky,), Fault),
        "secret": ((auth, risky), answer),
    }[kind]


PLANS = ("text", "text", "read", "several", "risky", "harsh", "mixed", "two rounds")
PLANS += ("fault", "read then fault", "risky then fault", "secret", "secret")


def tokens_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\bq(\d+);", text)))


def seen(message: ChatMessage) -> Seen:
    match message:
        case UserText(text=text):
            return ("stand-in",) if text.startswith(MARK) else ("user", *tokens_of(text))
        case AssistantTurn(text=text, calls=asked) if asked:
            return ("asks", text, *(each.id for each in asked))
        case AssistantTurn(text=text):
            return ("says", text if text.startswith("answer") else "a note")
        case ToolResult(call_id=call_id, is_error=is_error):
            return ("result", call_id, is_error)


def assert_sound(messages: Sequence[ChatMessage]) -> None:
    """What every provider demands of a history."""
    awaited: list[str] = []
    used: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResult):
            assert awaited
            assert awaited.pop(0) == message.call_id
            continue
        assert not awaited, "a call without its result"
        assert message.text.strip() or (isinstance(message, AssistantTurn) and message.calls), "an empty message"
        if isinstance(message, AssistantTurn):
            awaited = [each.id for each in message.calls]
            assert used.isdisjoint(awaited), "a call id stands twice"
            used.update(awaited)
    assert not awaited
    assert not isinstance(messages[-1], AssistantTurn)


class PlannedLLM(ScriptedLLM):
    """Answers by the plan of the newest message, however often it is asked; holds a round back where it was told to."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[int, Plan] = {}
        self.hold: dict[int, int] = {}
        self.held: dict[int, asyncio.Event] = {}
        self.summary: ScriptStep = say("SUMMARY")
        self.asked: list[tuple[int, tuple[Seen, ...]]] = []

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        assert_sound(request.messages)
        if request.account == "compaction":
            return await self._answer(self.summary, request)
        start = max(n for n, m in enumerate(request.messages) if isinstance(m, UserText))
        token = (tokens_of(request.messages[start].text) or (0,))[-1]
        self.asked.append((token, tuple(map(seen, request.messages))))
        done = sum(isinstance(message, AssistantTurn) for message in request.messages[start:])
        if self.hold.get(token) == done:
            del self.hold[token]
            await self._wait(token)
        match self.plans.get(token, ("answer.",))[done]:
            case str() as text:
                return say(text)
            case tuple() as wanted:
                return calls(*wanted)
            case _:
                raise RequestRefused("no")

    async def _wait(self, token: int) -> None:
        self.held[token] = released = asyncio.Event()
        try:
            await released.wait()
        finally:
            self.held.pop(token, None)


# -- what must become of it -----------------------------------------------------------------------------------------
@dataclass
class Question:
    """A question that was asked, and whether it is still open."""

    call: ToolCall
    thread: ThreadModel
    id: UUID | None = None
    is_open: bool = True

    @property
    def may_be_always(self) -> bool:
        return not self.call.id.startswith("d")


@dataclass
class TurnModel:
    """An open turn. `journal` is what a crash leaves of `added`; `consents` are those it began or went on with."""

    token: int
    plan: Plan
    added: list[Seen]
    hold_at: int | None
    journal: list[Seen] | None = None
    open_calls: tuple[ToolCall, ...] = ()
    approved: set[str] = field(default_factory=set)
    consents: frozenset[str] = frozenset()
    question: Question | None = None
    is_held: bool = False

    @property
    def rounds(self) -> int:
        return sum(message[0] in ("asks", "says") for message in self.added)

    @property
    def kept(self) -> list[Seen]:
        """What is left of the turn when it is cut off."""
        return list(self.journal or self.added[:1])


History = tuple[tuple[int, Seen], ...]
"""Messages with the number of their turn; a stand-in has -1."""


@dataclass
class ThreadModel:
    """A conversation."""

    id: UUID
    state: str = "idle"
    turns: int = 0
    present: History = ()
    undo: list[History] = field(default_factory=list)
    redo: list[History] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    turn: TurnModel | None = None
    awaits_until: datetime | None = None


class World:
    """All conversations of the person, and what they allowed."""

    def __init__(self, clock: FakeClock, llm: PlannedLLM) -> None:
        self.clock = clock
        self.llm = llm
        self.consents: set[str] = set()
        self.effects: list[str] = []
        self.requests: list[tuple[int, tuple[Seen, ...]]] = []
        self.questions: list[Question] = []
        self.stored: set[str] = set()

    def say(self, thread: ThreadModel, text: str) -> None:
        thread.waiting.append(text)
        self.serve(thread)

    def serve(self, thread: ThreadModel) -> None:
        """Let the thread go on as far as it goes."""
        while thread.turn is None and thread.waiting:
            if (first := thread.waiting[0]).startswith("/"):
                thread.waiting.pop(0)
                self.change(thread, first)
                continue
            texts: list[str] = []
            while thread.waiting and not thread.waiting[0].startswith("/") and len(texts) < 20:
                texts.append(thread.waiting.pop(0))
            tokens = tokens_of("\n".join(texts))
            token = tokens[-1] if tokens else 0
            plan = self.llm.plans.get(token, ("answer.",))
            thread.turn = TurnModel(token, plan, [("user", *tokens)], self.llm.hold.get(token))
            thread.turns += 1
            self.run(thread, thread.turn)

    def change(self, thread: ThreadModel, command: str) -> None:
        """A command on a thread that rests."""
        match command.partition(" ")[0]:
            case "/undo" if thread.undo:
                thread.redo.append(thread.present)
                thread.present = thread.undo.pop()
            case "/redo" if thread.redo:
                thread.undo.append(thread.present)
                thread.present = thread.redo.pop()
            case "/resume" if (at := int(command.split()[1])) < len(thread.undo):
                thread.present = thread.undo[at]
                del thread.undo[at:]
                thread.redo.clear()
            case "/clear":
                thread.present = ()
                thread.undo.clear()
                thread.redo.clear()
            case "/compact" if self.llm.summary == say("SUMMARY"):
                turns = list(dict.fromkeys(owner for owner, _ in thread.present if owner >= 0))
                if len(turns) > KEPT_BY_SUMMARY:
                    kept = turns[-KEPT_BY_SUMMARY:]
                    thread.present = ((-1, ("stand-in",)), *(each for each in thread.present if each[0] in kept))

    def run(self, thread: ThreadModel, turn: TurnModel) -> None:
        """A turn, from where it stands to where it waits or ends."""
        thread.state = "processing"
        turn.consents = frozenset(self.consents)
        self.iterate(thread, turn)

    def iterate(self, thread: ThreadModel, turn: TurnModel) -> None:
        while True:
            if not turn.open_calls:
                self.requests.append((turn.token, (*(m for _, m in thread.present), *turn.added)))
                if turn.rounds == turn.hold_at:
                    turn.hold_at, turn.is_held = None, True
                    return
                if self.ends(thread, turn):
                    return
            elif self.call(thread, turn):
                return

    def go_on(self, thread: ThreadModel, turn: TurnModel) -> None:
        """A held round is released."""
        turn.is_held = False
        if not self.ends(thread, turn):
            self.iterate(thread, turn)

    def ends(self, thread: ThreadModel, turn: TurnModel) -> bool:
        """The model's next round; whether the turn ends with it."""
        match turn.plan[turn.rounds]:
            case str() as text:
                self.settle(thread, [*turn.added, ("says", text)], "idle")
                return True
            case tuple() as wanted:
                turn.added.append(("asks", "", *(each.id for each in wanted)))
                turn.open_calls = wanted
                return False
            case _:
                self.settle(thread, turn.kept, "idle")
                return True

    def call(self, thread: ThreadModel, turn: TurnModel) -> bool:
        """Run the open calls as far as nobody must be asked; whether the turn waits or ends with that."""
        results: list[Seen] = []
        effects = 0
        asked: ToolCall | None = None
        for each in turn.open_calls:
            if self.must_ask(turn, each):
                asked = each
                break
            results.append(("result", each.id, each.id[0] in "ub"))
            if each.name == "shell":
                self.effects.append(each.id)
            effects += each.name in ("shell", "tool_auth")
        waits_for_secret = any(message[1] == f"a{turn.token}" for message in results)
        turn.added += results
        left = turn.open_calls = turn.open_calls[len(results) :]
        if waits_for_secret:
            thread.awaits_until = self.clock.now() + SECRET_LIFETIME
            self.settle(thread, [*turn.added, *_not_run(left), ("says", "a note")], "idle")
            return True
        if effects or asked:
            turn.journal = list(turn.added)
        if asked:
            turn.question = Question(asked, thread)
            self.questions.append(turn.question)
            thread.state = "awaiting_approval"
        return asked is not None

    def must_ask(self, turn: TurnModel, each: ToolCall) -> bool:
        if each.id[0] not in "rsda" or each.id in turn.approved:
            return False
        return each.id[0] == "d" or each.name not in turn.consents

    def decide(self, question: Question, word: str) -> None:
        """An answer of the person who was asked: y, a or n; or x for nobody's in time, c for a stop."""
        if not question.is_open:
            return
        question.is_open = False
        thread, turn = question.thread, question.thread.turn
        assert turn is not None
        turn.question = None
        if word not in "ya":
            entries = [*turn.added, *_not_run(turn.open_calls), ("says", "a note")]
            self.settle(thread, entries, "interrupted" if word == "c" else "idle")
            return
        if word == "a" and question.may_be_always:
            self.consents.add(question.call.name)
        turn.approved.add(question.call.id)
        self.run(thread, turn)

    def stop(self, thread: ThreadModel) -> None:
        thread.waiting.clear()
        if (turn := thread.turn) is None:
            return
        if turn.question is not None:
            self.decide(turn.question, "c")
        else:
            self.settle(thread, turn.kept, "interrupted")

    def restart(self, thread: ThreadModel) -> None:
        """The process died and another one found the rows."""
        if (turn := thread.turn) is not None and turn.question is None:
            turn.added, turn.is_held = turn.kept, False
            self.run(thread, turn)

    def settle(self, thread: ThreadModel, entries: Sequence[Seen], state: str) -> None:
        number = thread.turns - 1
        thread.undo = [*thread.undo, thread.present][-MOST_UNDO:]
        thread.redo.clear()
        thread.present += tuple((number, entry) for entry in entries)
        thread.state, thread.turn = state, None
        self.serve(thread)


def _not_run(open_calls: Iterable[ToolCall]) -> Iterator[Seen]:
    return (("result", each.id, True) for each in open_calls)


# -- the machine ----------------------------------------------------------------------------------------------------
class ThreadMachine(RuleBasedStateMachine):
    """One person, one chat, several conversations, one process after the other."""

    def __init__(self, template: Path) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=template.parent)
        self.home = Path(self.folder.name) / "home"
        shutil.copytree(template, self.home)
        self.loop = asyncio.Runner()
        self.llm, self.clock = PlannedLLM(), FakeClock()
        self.world = World(self.clock, self.llm)
        self.channels: list[MemoryChannel] = []
        self.delivered: list[IncomingMessage] = []
        self.forgiven: set[int] = set()
        self.count = 0
        self.start()
        self.rows = sqlite3.connect(self.home / DATABASE_NAME, isolation_level=None)
        self.threads: list[ThreadModel] = []
        self.new()

    def teardown(self) -> None:
        self.wait(self.bot.crash())
        self.loop.close()
        self.rows.close()
        kept = b"".join(path.read_bytes() for path in self.home.glob(f"{DATABASE_NAME}*"))
        assert not [secret for secret in self.world.stored if secret.encode() in kept]
        self.folder.cleanup()

    # -- what a person does ---------------------------------------------------------------------------------------
    @rule(kind=st.sampled_from(PLANS), hold=st.sampled_from((None, None, 0, 1)))
    def write(self, kind: str, hold: int | None) -> None:
        self.count += 1
        text = f"q{self.count}; please"
        if not self.takes_secret(text):
            self.llm.plans[self.count] = plan = plan_of(kind, self.count)
            if hold is not None and hold < len(plan):
                self.llm.hold[self.count] = hold
            self.world.say(self.here, text)
        self.deliver(text)
        self.check()

    @rule(count=st.integers(2, 6))
    def chat(self, count: int) -> None:
        for _ in range(count):
            self.write("text", None)

    @rule(word=st.sampled_from(("yes", "y", "always", "no")))
    def answer_with_word(self, word: str) -> None:
        self.ends_wait()
        if turn := self.here.turn:
            question = turn.question
        else:
            question = None
        if question is None:
            self.world.say(self.here, word)
        else:
            self.world.decide(question, word[0])
        self.deliver(word)
        self.check()

    @precondition(lambda self: self.world.questions)
    @rule(which=st.integers(0, 4), word=st.sampled_from("yyan"), is_theirs=st.sampled_from((True, True, False)))
    def press(self, which: int, word: str, is_theirs: bool) -> None:
        question = self.world.questions[-1 - which % len(self.world.questions)]
        approved = {
            "request_id": str(question.id),
            "approved": word in "ya",
            "always": word == "a",
        }
        if is_theirs:
            self.ends_wait()
            self.world.decide(question, word)
        self.deliver(json.dumps({"ExecApproval": approved}), user=OWNER if is_theirs else STRANGER, structured=True)
        self.check()

    @rule()
    def stop(self) -> None:
        self.ends_wait()
        self.world.stop(self.here)
        self.deliver("/stop")
        self.check()

    @rule(command=st.sampled_from(("/undo", "/undo", "/redo")))
    def go_back(self, command: str) -> None:
        self.ends_wait()
        if self.here.turn is None:
            self.world.say(self.here, command)
        self.deliver(command)
        self.check()

    @rule(at=st.integers(0, 20))
    def resume(self, at: int) -> None:
        self.ends_wait()
        points = [UUID(point) for point, _ in self.points(self.here, "undo")]
        identifier = points[at % len(points)] if points and at % 5 else uuid4()
        if self.here.turn is None and identifier in points:
            self.world.say(self.here, f"/resume {points.index(identifier)}")
        self.deliver(f"/resume {identifier}")
        self.check()

    @rule()
    def clear(self) -> None:
        self.ends_wait()
        if self.here.turn is not None:
            self.world.stop(self.here)
        self.world.say(self.here, "/clear")
        self.deliver("/clear")
        self.check()

    @rule(summary=st.sampled_from((say("SUMMARY"), say("SUMMARY"), say(" "), call("echo"), TransientError("500"))))
    def compact(self, summary: ScriptStep) -> None:
        self.ends_wait()
        self.llm.summary = summary
        self.world.say(self.here, "/compact")
        self.deliver("/compact")
        self.check()

    @rule()
    def new(self) -> None:
        if self.threads:
            self.ends_wait()
        accepted = self.deliver("/new")
        assert accepted is not None
        self.here = ThreadModel(accepted)
        self.threads.append(self.here)
        self.check()

    @rule(which=st.integers(0, 3), user=st.sampled_from((OWNER, OWNER, OWNER, STRANGER)))
    def switch(self, which: int, user: str) -> None:
        wanted = self.threads[which % len(self.threads)]
        if user == OWNER:
            self.ends_wait()
            self.here = wanted
        self.deliver(f"/thread {wanted.id}", user=user)
        self.check()

    @rule()
    def revoke(self) -> None:
        self.ends_wait()
        self.world.consents.clear()
        self.deliver("/tools revoke all")
        self.check()

    # -- what happens by itself -----------------------------------------------------------------------------------
    @precondition(lambda self: self.llm.held)
    @rule(which=st.integers(0, 2))
    def model_goes_on(self, which: int) -> None:
        held = [each for each in self.threads if each.turn and each.turn.is_held]
        thread = held[which % len(held)]
        assert thread.turn is not None
        self.llm.held.pop(thread.turn.token).set()
        self.world.go_on(thread, thread.turn)
        self.check()

    @rule()
    def crash(self) -> None:
        self.restart()
        for thread in self.threads:
            self.world.restart(thread)
        self.check()

    @precondition(lambda self: self.here.turn is None and self.here.awaits_until is None and not self.llm.held)
    @rule()
    def write_and_crash_at_once(self) -> None:
        self.count += 1
        self.forgiven.add(self.count)  # the model may have been asked before
        self.llm.plans[self.count] = plan_of("read", self.count)
        self.world.say(self.here, f"q{self.count}; please")
        self.deliver(f"q{self.count}; please")
        self.restart()
        self.check()

    @rule()
    def a_day_passes(self) -> None:
        due = [q for q in self.world.questions if q.is_open]
        self.clock.advance(QUESTION_LIFETIME)
        for question in due:
            self.world.decide(question, "x")
        self.wait(self.expired())
        self.check()

    @rule(which=st.integers(0, 200))
    def redeliver(self, which: int) -> None:
        message = self.delivered[which % len(self.delivered)]
        self.wait(self.bot.deliver(message))
        self.check()

    # -- the means ------------------------------------------------------------------------------------------------
    def wait(self, work: Coroutine[object, object, T]) -> T:
        return self.loop.run(work)

    def start(self) -> None:
        self.bot = Bot(self.home, self.llm, variables=VARIABLES, clock=self.clock)
        self.wait(self.bot.__aenter__())
        self.channels.append(self.bot.telegram)

    def restart(self) -> None:
        self.wait(self.bot.crash())
        self.start()

    def deliver(self, text: str, *, user: str = OWNER, structured: bool = False) -> UUID | None:
        message = make_message(text, user=user, chat_id=OWNER, structured=structured)
        self.delivered.append(message)
        return self.wait(self.bot.deliver(message)).thread_id

    def takes_secret(self, text: str) -> bool:
        """Whether what is typed now is a credential, and what becomes of it."""
        until, self.here.awaits_until = self.here.awaits_until, None
        if until is not None:
            self.world.stored.add(text)
        return until is not None

    def ends_wait(self) -> None:
        self.here.awaits_until = None

    async def expired(self) -> None:
        async with asyncio.timeout(5):
            while self.select("SELECT 1 FROM approvals WHERE state = 'open' AND expires_at <= ?", self.microseconds()):
                await asyncio.sleep(0.002)
                self.clock.advance(TICK)  # whoever had not gone to sleep yet when the day passed

    def microseconds(self) -> int:
        return (self.clock.now() - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def select(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        return self.rows.execute(statement, values).fetchall()

    # -- what must hold -------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Wait until all is done that can be done, then compare."""
        self.wait(self.quiet())
        self.rows.execute("BEGIN")
        try:
            for thread in self.threads:
                self.compare(thread)
            self.compare_all()
        finally:
            self.rows.execute("COMMIT")
        self.clock.advance(TICK)

    async def quiet(self) -> None:
        try:
            async with asyncio.timeout(10):
                while not self.is_quiet():
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"no rest: {self.select('SELECT state, stop_requested FROM turns')}") from None
        if not self.llm.held:
            await self.bot.rest()

    def is_quiet(self) -> bool:
        running = self.select("SELECT stop_requested FROM turns WHERE state = 'running'")
        return (
            len(running) == len(self.llm.held) and not any(stopped for (stopped,) in running) and not self.select(_WORK)
        )

    def compare(self, thread: ThreadModel) -> None:
        key = thread.id.hex
        bodies = dict(self.select("SELECT position, body FROM entries WHERE thread_id = ? ORDER BY position", key))
        ((state, view, entry_count, turn_count),) = self.select(
            "SELECT state, view, entry_count, turn_count FROM threads WHERE id = ?", key
        )
        told = {at: seen(load_message(str(body))) for at, body in bodies.items()}

        def history(text: object) -> list[Seen]:
            spans = [part.split("-") for part in str(text).split()]
            return [told[at] for start, end in spans for at in range(int(start), int(end))]

        assert list(told) == list(range(int(str(entry_count))))
        assert (state, turn_count) == (thread.state, thread.turns)
        assert history(view) == [m for _, m in thread.present]
        for kind, points in (("undo", thread.undo), ("redo", thread.redo)):
            assert [history(text) for _, text in self.points(thread, kind)] == [[m for _, m in p] for p in points]

        turn = thread.turn
        open_turns = self.select("SELECT state FROM turns WHERE thread_id = ? AND finished_at IS NULL", key)
        assert open_turns == ([] if turn is None else [("waiting" if turn.question else "running",)])
        questions = self.select("SELECT id, call_id FROM approvals WHERE thread_id = ? AND state = 'open'", key)
        assert [call_id for _, call_id in questions] == ([turn.question.call.id] if turn and turn.question else [])
        if turn and turn.question:
            turn.question.id = UUID(str(questions[0][0]))
        waiting = self.select(
            "SELECT body FROM inbox WHERE thread_id = ? AND handled_at IS NULL AND turn_id IS NULL ORDER BY seq", key
        )
        assert [json.loads(str(body))["text"].split()[0] for (body,) in waiting] == [
            w.split()[0] for w in thread.waiting
        ]
        awaited = self.select("SELECT 1 FROM pending_auths WHERE thread_id = ?", key)
        assert bool(awaited) == (thread.awaits_until is not None)

    def compare_all(self) -> None:
        answers = self.select("SELECT id FROM outbox WHERE state != 'failed'")
        finished = self.select("SELECT id FROM turns WHERE finished_at IS NOT NULL")
        assert {ids.reply_id(UUID(str(turn)), "answer").hex for (turn,) in finished} <= {
            str(each) for (each,) in answers
        }
        posts = [p.message for c in self.channels for p in c.posted if p.message.kind is not ReplyKind.AMENDMENT]
        assert all(times == 1 for times in Counter(message.id for message in posts).values())
        keys = self.select("SELECT delivery_key FROM inbox")
        assert {key for (key,) in keys} == {message.delivery_key for message in self.delivered}
        assert not self.select("SELECT 1 FROM steps JOIN turns ON turns.id = turn_id WHERE finished_at IS NOT NULL")

        lines = [line for path in self.home.rglob("proof.txt") for line in path.read_text().split()]
        assert sorted(lines) == sorted(self.world.effects)
        yes = {call for (call,) in self.select("SELECT call_id FROM approvals WHERE state = 'approved'")}
        assert {line for line in lines if line.startswith("d")} <= yes
        consents = {tool for (tool,) in self.select("SELECT tool FROM consents")}
        assert consents == self.world.consents

        asked, wanted = (
            Counter(each for each in requests if each[0] not in self.forgiven)
            for requests in (self.llm.asked, self.world.requests)
        )
        assert asked == wanted

    def points(self, thread: ThreadModel, kind: str) -> list[tuple[str, str]]:
        found = self.select(
            "SELECT id, view FROM checkpoints WHERE thread_id = ? AND kind = ? ORDER BY number", thread.id.hex, kind
        )
        return [(str(identifier), str(view)) for identifier, view in found]


_WORK = """
SELECT 1 FROM outbox WHERE finished_at IS NULL
UNION ALL SELECT 1 FROM inbox WHERE handled_at IS NULL AND turn_id IS NULL AND (
    lane = 'control' OR thread_id NOT IN (SELECT thread_id FROM turns WHERE finished_at IS NULL))
UNION ALL SELECT 1 FROM turns WHERE state = 'waiting' AND id NOT IN (
    SELECT turn_id FROM approvals WHERE state = 'open')
"""
"""Rows that somebody is about to do something about."""


def run(examples: int, steps: int) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        template = Path(folder) / "template"
        open_store_once(template)
        run_state_machine_as_test(
            partial(ThreadMachine, template),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def open_store_once(home: Path) -> None:
    """An empty home whose schema is there: making it anew would take most of an example's time."""
    home.mkdir()
    create(home / DATABASE_NAME)


def test_conversations_do_what_their_model_says() -> None:
    run(examples=25, steps=40)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
