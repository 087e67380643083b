"""What must become of a person's conversations, as a model in plain Python, and an LLM that plays along with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from agent.conversation.compaction import MARK
from agent.llm.base import Completion, CompletionRequest, OnText
from agent.llm.errors import RequestRefused, TransientError
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import ToolCall
from tests.support.fake_clock import FakeClock
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, call, calls, say

MOST_UNDO = 20
KEPT_BY_SUMMARY = 5
SECRET_LIFETIME = timedelta(seconds=300)

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
    harsh = ToolCall(f"d{n}", "shell", {"command": f"rm -rf nothing && echo d{n} >> proof.txt"})
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


PLANS = (
    *("text", "text", "read", "several", "risky", "harsh", "mixed", "two rounds"),
    *("fault", "read then fault", "risky then fault", "secret", "secret"),
)
SUMMARIES: tuple[ScriptStep, ...] = (*[say("SUMMARY")] * 4, say(" "), call("echo"), TransientError("500"))


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
    """An open turn. `journal` is what a crash leaves of `added`."""

    token: int
    plan: Plan
    added: list[Seen]
    hold_at: int | None
    journal: list[Seen] | None = None
    open_calls: tuple[ToolCall, ...] = ()
    approved: set[str] = field(default_factory=set)
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
                thread.present, thread.state = thread.undo.pop(), "idle"
            case "/redo" if thread.redo:
                thread.undo.append(thread.present)
                thread.present, thread.state = thread.redo.pop(), "idle"
            case "/resume" if (at := int(command.split()[1])) < len(thread.undo):
                thread.present, thread.state = thread.undo[at], "idle"
                del thread.undo[at:]
                thread.redo.clear()
            case "/clear":
                thread.present, thread.state = (), "idle"
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
        return each.id[0] == "d" or each.name not in self.consents

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
