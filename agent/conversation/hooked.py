"""A turn's words on their way past the operator's hooks: in, as the final text, and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, assert_never

from agent.conversation import replies
from agent.conversation.envelope import Envelope
from agent.conversation.ports import Hooks
from agent.conversation.settle import Settlement
from agent.hooks.base import InboundEvent, OutboundEvent, Passed, ResponseEvent, Stopped
from agent.loop.agentic_loop import Finish, Responded
from agent.model.ids import UserId
from channels.message import IncomingMessage, OutgoingMessage, ReplyKind

_OUTBOUND = frozenset({ReplyKind.ANSWER, ReplyKind.ERROR, ReplyKind.NOTICE})


class NoHooks:
    """Stands in where there are none."""

    may_change_messages = False
    may_change_replies = False

    def session_started(self, user: UserId, session: str) -> None:
        return None

    def session_ended(self, user: UserId, session: str) -> None:
        return None

    async def inbound(self, event: InboundEvent) -> Passed | Stopped:
        return Passed(event.content)

    async def response(self, event: ResponseEvent) -> Passed | Stopped:
        return Passed(event.content)

    async def outbound(self, event: OutboundEvent) -> Passed | Stopped:
        return Passed(event.content)


class Screen(Protocol):
    """Masks secrets."""

    def hide_secrets(self, text: str) -> str: ...


class ScreenedHooks:
    """Hooks whose words are searched for secrets: they may bring in some that were not there before."""

    def __init__(self, hooks: Hooks, screen: Screen) -> None:
        self._hooks = hooks
        self._screen = screen

    @property
    def may_change_messages(self) -> bool:
        return self._hooks.may_change_messages

    @property
    def may_change_replies(self) -> bool:
        return self._hooks.may_change_replies

    def session_started(self, user: UserId, session: str) -> None:
        self._hooks.session_started(user, session)

    def session_ended(self, user: UserId, session: str) -> None:
        self._hooks.session_ended(user, session)

    async def inbound(self, event: InboundEvent) -> Passed | Stopped:
        return self._screened(event.content, await self._hooks.inbound(event))

    async def response(self, event: ResponseEvent) -> Passed | Stopped:
        return self._screened(event.content, await self._hooks.response(event))

    async def outbound(self, event: OutboundEvent) -> Passed | Stopped:
        return self._screened(event.content, await self._hooks.outbound(event))

    def _screened(self, before: str, result: Passed | Stopped) -> Passed | Stopped:
        match result:
            case Passed(content=content):
                return result if content == before else Passed(self._screen.hide_secrets(content))
            case Stopped(reason=reason):
                return replace(result, reason=self._screen.hide_secrets(reason))
            case unreachable:
                assert_never(unreachable)


async def let_in(hooks: Hooks, envelope: Envelope) -> Envelope | str:
    """The turn with its messages as hooks leave them, or what to tell the person if one was refused."""
    messages: list[IncomingMessage] = []
    for message in envelope.messages:
        event = InboundEvent(envelope.thread.user, message.address.channel, message.text, str(envelope.thread.id))
        match await hooks.inbound(event):
            case Passed(content=content):
                messages.append(message.model_copy(update={"text": content}))
            case Stopped() as stopped:
                return replies.message_refused(stopped)
            case unreachable:
                assert_never(unreachable)
    return replace(envelope, messages=tuple(messages))


async def reword(hooks: Hooks, envelope: Envelope, finish: Finish) -> Finish:
    """The end of the loop with its final text as hooks leave it."""
    if not isinstance(finish.outcome, Responded):
        return finish
    event = ResponseEvent(envelope.thread.user, str(envelope.thread.id), finish.outcome.text)
    match await hooks.response(event):
        case Passed(content=content):
            return replace(finish, outcome=Responded(content or replies.EMPTY_ANSWER))
        case Stopped() as stopped:
            return replace(finish, outcome=Responded(replies.response_refused(stopped)))
        case unreachable:
            assert_never(unreachable)


async def let_out(hooks: Hooks, envelope: Envelope, settlement: Settlement) -> Settlement:
    """What the turn leaves behind with its replies as hooks leave them; questions go out as they are."""
    outgoing = [await _let_out(hooks, envelope, reply) for reply in settlement.replies]
    return replace(settlement, replies=tuple(reply for reply in outgoing if reply.text))


async def _let_out(hooks: Hooks, envelope: Envelope, reply: OutgoingMessage) -> OutgoingMessage:
    if reply.kind not in _OUTBOUND:
        return reply
    event = OutboundEvent(envelope.thread.user, reply.address.channel, reply.text, str(envelope.thread.id))
    match await hooks.outbound(event):
        case Passed(content=content):
            return reply.model_copy(update={"text": content})
        case Stopped():
            return reply.model_copy(update={"text": replies.WITHHELD, "kind": ReplyKind.NOTICE})
        case unreachable:
            assert_never(unreachable)
