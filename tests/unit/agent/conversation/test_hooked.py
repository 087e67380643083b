"""What hooks do to a turn's words on their way in and out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from agent.conversation import hooked, replies
from agent.conversation.envelope import Envelope
from agent.conversation.settle import Settlement, settle
from agent.hooks.base import InboundEvent, OutboundEvent, Passed, ResponseEvent, Stopped
from agent.llm.messages import AssistantTurn
from agent.loop.agentic_loop import Exhausted, Finish, NeedApproval, Responded
from agent.loop.context import ReasoningContext
from agent.model.ids import UserId
from agent.model.tool_call import ToolCall
from channels.message import ReplyKind
from tests.support.builders import NOON, make_message
from tests.unit.agent.conversation.test_settle import DAY, make_envelope

EMPTY = ReasoningContext("", (), ())


@dataclass
class Answers:
    """Hooks that give these answers and note what they saw."""

    answer: Passed | Stopped
    saw: list[InboundEvent | OutboundEvent | ResponseEvent] = field(default_factory=list)
    may_change_messages: bool = True
    may_change_replies: bool = True

    def session_started(self, user: UserId, session: str) -> None:
        raise AssertionError("a turn begins no session")

    def session_ended(self, user: UserId, session: str) -> None:
        raise AssertionError("a turn ends no session")

    async def inbound(self, event: InboundEvent) -> Passed | Stopped:
        self.saw.append(event)
        return self.answer

    async def response(self, event: ResponseEvent) -> Passed | Stopped:
        self.saw.append(event)
        return self.answer

    async def outbound(self, event: OutboundEvent) -> Passed | Stopped:
        self.saw.append(event)
        return self.answer


def two_messages() -> Envelope:
    return replace(make_envelope(), messages=(make_message("one"), make_message("two")))


async def test_each_message_goes_past_the_hooks_and_is_replaced() -> None:
    hooks = Answers(Passed("changed"))

    admitted = await hooked.let_in(hooks, two_messages())

    assert isinstance(admitted, Envelope)
    assert [message.text for message in admitted.messages] == ["changed", "changed"]
    assert [event.content for event in hooks.saw] == ["one", "two"]


async def test_a_refused_message_is_told_with_the_reason_and_who_refused() -> None:
    assert await hooked.let_in(Answers(Stopped("no ads")), two_messages()) == "[Message rejected: no ads]"
    blocked = await hooked.let_in(Answers(Stopped("time-out", by_fault=True)), two_messages())
    assert blocked == "[Message blocked by hook policy: time-out]"


async def test_the_final_text_is_replaced_or_filtered_and_that_is_the_answer() -> None:
    finish = Finish(Responded("secret plan"), EMPTY)

    assert (await hooked.reword(Answers(Passed("plan")), make_envelope(), finish)).outcome == Responded("plan")
    filtered = await hooked.reword(Answers(Stopped("policy")), make_envelope(), finish)
    assert filtered.outcome == Responded("[Response filtered: policy]")
    assert (await hooked.reword(Answers(Passed("")), make_envelope(), finish)).outcome == Responded(
        replies.EMPTY_ANSWER
    )


async def test_only_an_answer_is_reworded() -> None:
    finish = Finish(Exhausted(3), EMPTY)

    assert await hooked.reword(Answers(Passed("x")), make_envelope(), finish) is finish


def answered() -> Settlement:
    return settle(make_envelope(), Finish(Responded("hello"), EMPTY), NOON, DAY)


async def test_a_reply_that_a_hook_withholds_is_no_silence() -> None:
    out = await hooked.let_out(Answers(Stopped("no")), make_envelope(), answered())

    assert [(reply.text, reply.kind) for reply in out.replies] == [(replies.WITHHELD, ReplyKind.NOTICE)]
    assert out.replies[0].id == answered().replies[0].id
    assert out.ending.entries[-1] == AssistantTurn("hello")


async def test_a_reply_emptied_by_a_hook_is_not_sent() -> None:
    assert (await hooked.let_out(Answers(Passed("")), make_envelope(), answered())).replies == ()


async def test_a_question_goes_out_as_it_is() -> None:
    need = NeedApproval(ToolCall(str(UUID(int=5)), "shell"), "Runs.", {"command": "ls"}, may_be_always=True)
    asked = settle(make_envelope(), Finish(need, EMPTY), NOON, DAY)
    hooks = Answers(Passed("changed"))

    assert (await hooked.let_out(hooks, make_envelope(), asked)).replies == asked.replies
    assert not hooks.saw
