"""Random lives of one person's conversations, step by step beside a small model of what must become of them.

Each step is checked against the rows of the database, the requests that the model saw, and the lines that risky tools
wrote. `python -m tests.scenarios.test_thread_machine EXAMPLES STEPS` runs it for longer.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar
from uuid import UUID, uuid4

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from agent.model import ids
from agent.store.codec import load_message
from agent.store.open import DATABASE_NAME, create
from channels.message import IncomingMessage, ReplyKind
from tests.support.bot import OWNER, Bot
from tests.support.builders import make_message
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.scripted_llm import ScriptStep
from tests.support.thread_model import PLANS, SUMMARIES, PlannedLLM, Seen, ThreadModel, World, plan_of, seen

T = TypeVar("T")
STRANGER = "2"
QUESTION_LIFETIME = timedelta(hours=24)
TICK = timedelta(seconds=5)
VARIABLES = {
    "LLM_MAX_RETRIES": "0",
    "LLM_CIRCUIT_BREAKER": "false",
    "SECRETS_MASTER_KEY": "a master key of more than 32 characters",
}


class ThreadMachine(RuleBasedStateMachine):
    """One person, one chat, several conversations, one process after the other."""

    template: ClassVar[Path]
    """A home whose database has its schema: making it anew would take most of an example's time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=self.template.parent)
        self.home = Path(self.folder.name) / "home"
        shutil.copytree(self.template, self.home)
        self.loop = asyncio.Runner()
        self.llm, self.clock = PlannedLLM(), FakeClock()
        self.world = World(self.clock, self.llm)
        self.channels: list[MemoryChannel] = []
        self.delivered: list[IncomingMessage] = []
        self.forgiven: set[int] = set()
        self.secrets: set[str] = set()
        self.has_credential = False
        self.count = 0
        self.start()
        self.rows = sqlite3.connect(self.home / DATABASE_NAME, isolation_level=None)
        self.threads: list[ThreadModel] = []
        self.new()

    def teardown(self) -> None:
        self.wait(self.bot.crash())
        self.loop.close()
        self.rows.close()
        kept = b"".join(path.read_bytes() for path in self.home.rglob("*") if path.is_file())
        self.folder.cleanup()
        assert not [secret for secret in self.secrets if secret.encode() in kept]

    @rule(seed=st.integers(0, 9_999_999))
    def step(self, seed: int) -> None:
        """One of the things that can happen, by chance. A number for each step lets every other step be left out."""
        chance = Random(f"{seed} after {self.count}")  # the same number means something else later
        actions, weights = zip(*self.possible(chance), strict=True)
        (action,) = chance.choices(actions, weights)
        note(f"{action.func.__name__}{action.args}")
        action()
        self.check()
        self.clock.advance(TICK)

    def possible(self, chance: Random) -> Iterator[tuple[partial[None], int]]:
        """What can happen now, with its weight."""
        turn = self.here.turn
        any_number = chance.randrange(1000)
        hold = chance.choice((None, None, None, 0, 1))
        yield partial(self.write, chance.choice(PLANS), hold), 16 if self.here.awaits_until is None else 6
        yield partial(self.chat, chance.randint(2, 5)), 3
        yield partial(self.answer_with_word, chance.choice(("yes", "y", "always", "always", "no"))), 8 if turn else 1
        if self.world.questions:
            recent = chance.choice((0, 0, 0, 1, any_number))
            yield (
                partial(self.press, recent, chance.choice(("y", "a", "n", "yn", "nya")), chance.random() < 0.8),
                8 if turn else 2,
            )
        yield partial(self.stop), 3 if turn else 1
        yield partial(self.go_back, chance.choice(("/undo", "/undo", "/redo"))), 5
        yield partial(self.resume, any_number), 2
        yield partial(self.clear), 1
        yield partial(self.compact, chance.choice(SUMMARIES)), 3
        yield partial(self.new), 1
        yield partial(self.switch, any_number, chance.random() < 0.8), 3
        yield partial(self.revoke), 1
        if self.llm.held:
            yield partial(self.model_goes_on, any_number), 8
        elif turn is None and self.here.awaits_until is None:
            yield partial(self.write_and_crash_at_once), 1
        yield partial(self.crash), 3
        yield partial(self.a_day_passes), 1 if self.here.awaits_until is None else 6
        yield partial(self.redeliver, any_number), 2

    # -- what a person does ---------------------------------------------------------------------------------------
    def write(self, kind: str, hold: int | None) -> None:
        self.count += 1
        text = f"q{self.count}; please"
        if not self.takes_secret(text):
            self.llm.plans[self.count] = plan = plan_of(kind, self.count)
            if hold is not None and hold < len(plan):
                self.llm.hold[self.count] = hold
            self.world.say(self.here, text)
        self.deliver(text)

    def chat(self, count: int) -> None:
        for _ in range(count):
            self.write("text", None)
            self.check()

    def answer_with_word(self, word: str) -> None:
        self.ends_wait()
        question = self.here.turn.question if self.here.turn else None
        if question is None:
            self.world.say(self.here, word)
        else:
            self.world.decide(question, word[0])
        self.deliver(word)

    def press(self, which: int, words: str, is_theirs: bool) -> None:
        """Taps on buttons, right after each other."""
        question = self.world.questions[-1 - which % len(self.world.questions)]
        if is_theirs:
            self.ends_wait()
            self.world.decide(question, words[0])
        taps = [{"request_id": str(question.id), "approved": word in "ya", "always": word == "a"} for word in words]
        texts = [json.dumps({"ExecApproval": tap}) for tap in taps]
        self.deliver(*texts, user=OWNER if is_theirs else STRANGER, structured=True)

    def stop(self) -> None:
        self.ends_wait()
        self.world.stop(self.here)
        self.deliver("/stop")

    def go_back(self, command: str) -> None:
        self.ends_wait()
        if self.here.turn is None:
            self.world.say(self.here, command)
        self.deliver(command)

    def resume(self, at: int) -> None:
        self.ends_wait()
        points = [UUID(point) for point, _ in self.points(self.here, "undo")]
        identifier = points[at % len(points)] if points and at % 5 else uuid4()
        if self.here.turn is None and identifier in points:
            self.world.say(self.here, f"/resume {points.index(identifier)}")
        self.deliver(f"/resume {identifier}")

    def clear(self) -> None:
        self.ends_wait()
        if self.here.turn is not None:
            self.world.stop(self.here)
        self.world.say(self.here, "/clear")
        self.deliver("/clear")

    def compact(self, summary: ScriptStep) -> None:
        self.ends_wait()
        self.llm.summary = summary
        self.world.say(self.here, "/compact")
        self.deliver("/compact")

    def new(self) -> None:
        if self.threads:
            self.ends_wait()
        accepted = self.deliver("/new")
        assert accepted is not None
        self.here = ThreadModel(accepted)
        self.threads.append(self.here)

    def switch(self, which: int, is_theirs: bool) -> None:
        wanted = self.threads[which % len(self.threads)]
        if is_theirs:
            self.ends_wait()
            self.here = wanted
        self.deliver(f"/thread {wanted.id}", user=OWNER if is_theirs else STRANGER)

    def revoke(self) -> None:
        self.ends_wait()
        self.world.consents.clear()
        self.deliver("/tools revoke all")

    # -- what happens by itself -----------------------------------------------------------------------------------
    def model_goes_on(self, which: int) -> None:
        held = [each for each in self.threads if each.turn and each.turn.is_held]
        thread = held[which % len(held)]
        assert thread.turn is not None
        self.llm.held.pop(thread.turn.token).set()
        self.world.go_on(thread, thread.turn)

    def crash(self) -> None:
        self.restart()
        for thread in self.threads:
            self.world.restart(thread)

    def write_and_crash_at_once(self) -> None:
        self.count += 1
        self.forgiven.add(self.count)  # the model may have been asked before
        self.llm.plans[self.count] = plan_of("read", self.count)
        self.world.say(self.here, f"q{self.count}; please")
        self.deliver(f"q{self.count}; please")
        self.restart()

    def a_day_passes(self) -> None:
        due = [question for question in self.world.questions if question.is_open]
        self.wait(self.clock.wait_for_sleeper(timedelta(minutes=10)))  # else it may sleep on from what it knew before
        self.clock.advance(QUESTION_LIFETIME)
        for question in due:
            self.world.decide(question, "x")
        self.wait(self.expired())

    def redeliver(self, which: int) -> None:
        message = self.delivered[which % len(self.delivered)]
        self.wait(self.bot.deliver(message))

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

    def deliver(self, *texts: str, user: str = OWNER, structured: bool = False) -> UUID | None:
        """Messages that come together, and the thread of the last one."""
        messages = [make_message(text, user=user, chat_id=OWNER, structured=structured) for text in texts]
        self.delivered += messages

        async def all_of_them() -> UUID | None:
            return (await asyncio.gather(*map(self.bot.deliver, messages)))[-1].thread_id

        return self.wait(all_of_them())

    def takes_secret(self, text: str) -> bool:
        """Whether what is typed now is a credential, and what becomes of it."""
        until, self.here.awaits_until = self.here.awaits_until, None
        if until is not None:
            self.secrets.add(text)
            self.has_credential |= self.clock.now() < until
        return until is not None

    def ends_wait(self) -> None:
        self.here.awaits_until = None

    async def expired(self) -> None:
        async with asyncio.timeout(5):
            while self.select("SELECT 1 FROM approvals WHERE state = 'open' AND expires_at <= ?", self.microseconds()):
                await asyncio.sleep(0.001)

    def microseconds(self) -> int:
        return (self.clock.now() - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def select(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
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
        """Whether nothing is left to do but what waits for a held round or an answer, as the rows of one moment say."""
        held = len(self.llm.held)
        return self.select(_REST) == [(held, 0)] and held == len(self.llm.held)

    def compare(self, thread: ThreadModel) -> None:
        key = thread.id.hex
        bodies = dict(self.select("SELECT position, body FROM entries WHERE thread_id = ? ORDER BY position", key))
        ((state, view, entry_count, turn_count),) = self.select(
            "SELECT state, view, entry_count, turn_count FROM threads WHERE id = ?", key
        )
        told = {at: seen(load_message(body)) for at, body in bodies.items()}

        def history(text: str) -> list[Seen]:
            spans = [part.split("-") for part in text.split()]
            return [told[at] for start, end in spans for at in range(int(start), int(end))]

        assert list(told) == list(range(entry_count))
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
            turn.question.id = UUID(questions[0][0])
        waiting = self.select(
            "SELECT body FROM inbox WHERE thread_id = ? AND handled_at IS NULL AND turn_id IS NULL ORDER BY seq", key
        )
        assert [json.loads(body)["text"].split()[0] for (body,) in waiting] == [w.split()[0] for w in thread.waiting]
        awaited = self.select("SELECT 1 FROM pending_auths WHERE thread_id = ?", key)
        assert bool(awaited) == (thread.awaits_until is not None)

    def compare_all(self) -> None:
        answers = self.select("SELECT id FROM outbox WHERE state != 'failed'")
        finished = self.select("SELECT id FROM turns WHERE finished_at IS NOT NULL")
        assert {ids.reply_id(UUID(turn), "answer").hex for (turn,) in finished} <= {str(each) for (each,) in answers}
        posts = [p.message for c in self.channels for p in c.posted if p.message.kind is not ReplyKind.AMENDMENT]
        assert all(times == 1 for times in Counter(message.id for message in posts).values())
        keys = self.select("SELECT delivery_key FROM inbox")
        assert {key for (key,) in keys} == {message.delivery_key for message in self.delivered}
        assert not self.select("SELECT 1 FROM steps JOIN turns ON turns.id = turn_id WHERE finished_at IS NOT NULL")

        lines = [line for path in self.home.rglob("proof.txt") for line in path.read_text().split()]
        assert sorted(lines) == sorted(self.world.effects)
        yes = {call for (call,) in self.select("SELECT call_id FROM approvals WHERE state = 'approved'")}
        assert {line for line in lines if line.startswith("d")} <= yes
        assert {tool for (tool,) in self.select("SELECT tool FROM consents")} == self.world.consents
        assert bool(self.select("SELECT 1 FROM credentials")) == self.has_credential

        asked, wanted = (
            Counter(each for each in requests if each[0] not in self.forgiven)
            for requests in (self.llm.asked, self.world.requests)
        )
        assert asked == wanted

    def points(self, thread: ThreadModel, kind: str) -> list[tuple[str, str]]:
        found = self.select(
            "SELECT id, view FROM checkpoints WHERE thread_id = ? AND kind = ? ORDER BY number", thread.id.hex, kind
        )
        return [(identifier, view) for identifier, view in found]


_REST = """
SELECT (SELECT count(*) FROM turns WHERE state = 'running' AND NOT stop_requested), (
    SELECT count(*) FROM outbox WHERE finished_at IS NULL
) + (
    SELECT count(*) FROM turns WHERE state = 'running' AND stop_requested
    OR state = 'waiting' AND id NOT IN (SELECT turn_id FROM approvals WHERE state = 'open')
) + (
    SELECT count(*) FROM inbox WHERE handled_at IS NULL AND turn_id IS NULL AND (
        lane = 'control' OR thread_id NOT IN (SELECT thread_id FROM turns WHERE finished_at IS NULL))
)
"""
"""Turns that run, and rows that somebody is about to do something about."""


def run(examples: int, steps: int) -> None:
    """Live that many lives of that many steps, the same ones each time."""
    memory = Path("/dev/shm")  # a disk's sync takes most of the time of a step
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:

        class Machine(ThreadMachine):
            template = Path(folder) / "template"

        Machine.template.mkdir()
        create(Machine.template / DATABASE_NAME)
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=True,
                database=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_conversations_do_what_their_model_says() -> None:
    run(examples=20, steps=40)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
