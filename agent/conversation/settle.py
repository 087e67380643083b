"""From the outcome of a turn to what is stored and said. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never
from uuid import UUID

from agent.conversation import prompt, replies
from agent.conversation.envelope import Envelope
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult
from agent.loop.agentic_loop import AwaitsSecret, Exhausted, Failed, Finish, NeedApproval, Responded, Stopped
from agent.loop.context import ReasoningContext
from agent.model import ids
from agent.model.approval import ApprovalState, PendingApproval
from agent.model.session import ThreadEvent, ThreadState, TurnState, next_state
from agent.store.turns import Ending
from channels.message import Address, OutgoingMessage, ReplyKind

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a turn leaves behind: its thread's and its own state, replies, perhaps a question, perhaps journal steps.

    `awaits_secret`: the name of the credential that the person's next message is to be.
    """

    ending: Ending
    replies: tuple[OutgoingMessage, ...]
    question: PendingApproval | None = None
    journal: tuple[ChatMessage, ...] = ()
    awaits_secret: str | None = None


def settle(envelope: Envelope, finish: Finish, now: datetime, expires_in: timedelta) -> Settlement:
    """What the loop's outcome means for the thread."""
    match finish.outcome:
        case Responded(text=text):
            return _answered(envelope, finish.context, text)
        case NeedApproval() as need:
            return _asked(envelope, finish.context, need, now, expires_in)
        case AwaitsSecret(name=name, instructions=instructions):
            return _asked_for_secret(envelope, finish.context, name, instructions)
        case Exhausted(iterations=count):
            return failed(envelope, finish.context, replies.TOO_MANY_ROUNDS.format(count=count))
        case Failed(text=text):
            return failed(envelope, finish.context, text)
        case Stopped():
            return stopped(envelope, finish.context, dropped=0)
        case unreachable:
            assert_never(unreachable)


def answer_id(envelope: Envelope) -> UUID:
    """The id of a turn's answer: also that of the draft that shows it while it is written."""
    return ids.reply_id(envelope.turn.id, "answer")


def failed(envelope: Envelope, context: ReasoningContext, text: str) -> Settlement:
    """The turn ends without an answer; what it did stays in the history, so that nobody repeats it unknowingly."""
    ending = Ending(
        thread_state=next_state(ThreadState.PROCESSING, ThreadEvent.SETTLED),
        turn_state=TurnState.FAILED,
        entries=_closed(context, "Not run: the turn ended before it."),
        error=text,
        title=_title(envelope),
    )
    return Settlement(ending, (_reply(envelope, text, ReplyKind.ERROR),))


def stopped(envelope: Envelope, context: ReasoningContext, *, dropped: int) -> Settlement:
    """A person stopped the turn."""
    open_calls = context.open_calls
    unfinished = [call.name for call in open_calls]
    done = [message.name for message in context.added if isinstance(message, ToolResult) and not message.is_error]
    ending = Ending(
        thread_state=next_state(ThreadState.PROCESSING, ThreadEvent.INTERRUPTED),
        turn_state=TurnState.INTERRUPTED,
        entries=_closed(context, "Interrupted: the user stopped the turn; whether it took effect is not known."),
        error="stopped",
        title=_title(envelope),
    )
    return Settlement(ending, (_reply(envelope, replies.stopped_note(done, unfinished, dropped), ReplyKind.NOTICE),))


def not_released(envelope: Envelope, context: ReasoningContext, state: ApprovalState) -> Settlement:
    """A question ended without a yes: nothing of what waited runs, and the model is not called."""
    note = replies.denied_note([call.name for call in context.open_calls], state)
    is_stop = state is ApprovalState.CANCELLED
    entries = (*_closed(context, replies.denied_result(state)), AssistantTurn(note))
    ending = Ending(
        thread_state=ThreadState.INTERRUPTED if is_stop else ThreadState.IDLE,
        turn_state=TurnState.INTERRUPTED if is_stop else TurnState.COMPLETE,
        entries=entries,
        response=note,
        title=_title(envelope),
    )
    return Settlement(ending, (_reply(envelope, note, ReplyKind.NOTICE),))


def _answered(envelope: Envelope, context: ReasoningContext, text: str) -> Settlement:
    silent = envelope.chat_type.is_shared and prompt.is_silent(text)
    shown = replies.EMPTY_ANSWER if not silent and prompt.is_silent(text) else text
    ending = Ending(
        thread_state=next_state(ThreadState.PROCESSING, ThreadEvent.SETTLED),
        turn_state=TurnState.COMPLETE,
        entries=(*context.added, AssistantTurn(shown)),
        response=shown,
        title=_title(envelope),
    )
    return Settlement(ending, () if silent else (_reply(envelope, shown, ReplyKind.ANSWER),))


def _asked_for_secret(envelope: Envelope, context: ReasoningContext, name: str, instructions: str) -> Settlement:
    """The turn ends with the instructions; the model is not told what comes next."""
    ending = Ending(
        thread_state=next_state(ThreadState.PROCESSING, ThreadEvent.SETTLED),
        turn_state=TurnState.COMPLETE,
        entries=(*_closed(context, "Not run: a credential was asked for first."), AssistantTurn(instructions)),
        response=instructions,
        title=_title(envelope),
    )
    return Settlement(ending, (_reply(envelope, instructions, ReplyKind.ANSWER),), awaits_secret=name)


def _asked(
    envelope: Envelope, context: ReasoningContext, need: NeedApproval, now: datetime, expires_in: timedelta
) -> Settlement:
    identifier = ids.approval_id(envelope.turn.id, need.call.id)
    pending = PendingApproval(
        id=identifier,
        thread=envelope.thread.id,
        turn=envelope.turn.id,
        call_id=need.call.id,
        tool=need.call.name,
        description=need.description,
        display=need.display,
        requested_by=envelope.thread.user,
        channel=envelope.message.address.channel,
        place=envelope.consent_place,
        may_be_always=need.may_be_always,
        created_at=now,
        expires_at=now + expires_in,
    )
    ending = Ending(
        thread_state=next_state(ThreadState.PROCESSING, ThreadEvent.APPROVAL_NEEDED), turn_state=TurnState.WAITING
    )
    question = question_message(pending, ids.reply_id(identifier, "question"), envelope.message.replies_go_to)
    question = question.model_copy(update={"reply_to": _reply_to(envelope)})
    return Settlement(ending, (question,), pending, context.added)


def question_message(pending: PendingApproval, identifier: UUID, address: Address) -> OutgoingMessage:
    """The prompt for a question."""
    return OutgoingMessage(
        id=identifier,
        address=address,
        kind=ReplyKind.APPROVAL,
        text=replies.question(pending),
        choices=replies.approval_choices(str(pending.id), may_be_always=pending.may_be_always),
        approval_id=str(pending.id),
    )


def _closed(context: ReasoningContext, reason: str) -> tuple[ChatMessage, ...]:
    """What the turn added, with a result for every call: a history with an open call is refused by providers."""
    results = [ToolResult(call.id, call.name, reason, is_error=True) for call in context.open_calls]
    return (*context.added, *results)


def _reply(envelope: Envelope, text: str, kind: ReplyKind) -> OutgoingMessage:
    message = envelope.message
    return OutgoingMessage(
        id=answer_id(envelope), address=message.replies_go_to, kind=kind, text=text, reply_to=_reply_to(envelope)
    )


def _reply_to(envelope: Envelope) -> str | None:
    """In a shared chat the reply points at the question; in a private one it is clear."""
    return envelope.message.message_id if envelope.chat_type.is_shared else None


def _title(envelope: Envelope) -> str:
    return " ".join(envelope.messages[0].text.split())[:TITLE_LENGTH]
