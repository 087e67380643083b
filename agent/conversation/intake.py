"""The door: every message of every channel comes through here, once, and is durably ours when it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import assert_never
from uuid import uuid4

import structlog
from pydantic import SecretStr

from agent.clock import Clock
from agent.conversation import replies
from agent.conversation.job_questions import Several, answered_by_word
from agent.conversation.ports import CredentialStored, Deliveries, MessageTriggers, Skills, TurnSignals
from agent.conversation.session_manager import SessionManager
from agent.conversation.settle import question_message
from agent.credentials import wording
from agent.credentials.errors import CredentialError
from agent.credentials.store import CredentialStore
from agent.errors import NotYours
from agent.model.approval import Answer, ApprovalState, Decided, NotDecided, PendingApproval, decide
from agent.model.ids import ApprovalId, ThreadId, UserId, user_id
from agent.model.plan import parse_plan
from agent.model.session import BusyMode, Thread, ThreadState
from agent.model.submission import (
    ApprovalResponse,
    Clear,
    Compact,
    ExecApproval,
    Interrupt,
    NewThread,
    Redo,
    Resume,
    Submission,
    SwitchThread,
    Undo,
    UserInput,
    is_bare_word,
    parse_once,
    parse_submission,
)
from agent.safety.access import AccessPolicy, Allowed, Ignored, NeedsPairing, decide_access
from agent.safety.layer import InputAccepted, InputRefused, SafetyLayer
from agent.safety.pairing import LIFETIME
from agent.store import approvals, conversations, credentials, facts, inbox, outbox, pairings, turns
from agent.store.base import Store, Transaction
from agent.store.credentials import PendingAuth, SealedCredential
from agent.store.inbox import Lane
from agent.store.outbox import Parcel
from channels.base import Accepted
from channels.message import IncomingMessage, OutgoingMessage, ReplyKind

log = structlog.get_logger(__name__)

CLOSED = AccessPolicy()
_BUSY = (ThreadState.PROCESSING, ThreadState.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message with what is known of it before any row is read."""

    message: IncomingMessage
    submission: Submission
    verdict: InputAccepted | InputRefused
    policy: AccessPolicy
    now: datetime
    names_skill: bool = False


class Intake:
    """Admits messages. One transaction each: dedupe, access, resolve, and what the submission asks for at the door."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        sessions: SessionManager,
        safety: SafetyLayer,
        policies: Mapping[str, AccessPolicy],
        signals: TurnSignals,
        deliveries: Deliveries,
        vault: CredentialStore,
        stored: CredentialStored,
        commands: frozenset[str],
        busy_mode: BusyMode,
        skills: Skills,
        triggers: MessageTriggers | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._safety = safety
        self._policies = policies
        self._signals = signals
        self._deliveries = deliveries
        self._vault = vault
        self._stored = stored
        self._commands = commands
        self._default_busy_mode = busy_mode
        self._skills = skills
        self._triggers = triggers

    async def accept(self, message: IncomingMessage) -> Accepted:
        """Take a message. It is durable when this returns; the platform may then be told that we have it."""
        if not message.text.strip() and not message.attachments:
            return Accepted()
        if message.metadata.chat_type.is_shared and not message.metadata.addressed_to_bot:
            return Accepted()  # other people's talk: not worth a transaction
        message = self._with_plain_names(message)
        submission = parse_submission(message)
        verdict = self._screen(message)
        policy = self._policies.get(message.address.channel, CLOSED)
        names_skill = isinstance(submission, UserInput) and await self._skills.is_named(submission.content)
        arrival = _Arrival(message, submission, verdict, policy, self._clock.now(), names_skill)
        admitted = await self._store.write(partial(self._admit, arrival))
        match admitted:
            case Accepted():
                return admitted
            case PendingAuth():
                return await self._take_secret(arrival, admitted)
            case unreachable:
                assert_never(unreachable)

    def _with_plain_names(self, message: IncomingMessage) -> IncomingMessage:
        """The message without secrets in what stands beside its words: people are named, and files, as they like."""
        hide = self._safety.hide_secrets
        sender, metadata = message.sender, message.metadata
        changes: dict[str, object] = {}
        if (name := hide(sender.display_name)) != sender.display_name:
            changes["sender"] = sender.model_copy(update={"display_name": name})
        if metadata.chat_title is not None and (title := hide(metadata.chat_title)) != metadata.chat_title:
            changes["metadata"] = metadata.model_copy(update={"chat_title": title})
        if any(each.filename is not None and hide(each.filename) != each.filename for each in message.attachments):
            changes["attachments"] = tuple(
                each.model_copy(update={"filename": each.filename and hide(each.filename)})
                for each in message.attachments
            )
        return message.model_copy(update=changes) if changes else message

    def _screen(self, message: IncomingMessage) -> InputAccepted | InputRefused:
        """Whatever a person typed is screened, commands too: a refused text is stored nowhere."""
        if message.metadata.structured or not message.text.strip():
            return InputAccepted()
        return self._safety.screen_input(message.text)

    # -- inside the transaction -----------------------------------------------------------------------------------
    def _admit(self, arrival: _Arrival, tx: Transaction) -> Accepted | PendingAuth:
        message = arrival.message
        if inbox.is_seen(tx, message.delivery_key):
            return Accepted()
        paired = pairings.is_paired(tx, message.address.channel, message.sender.user_id)
        # Only a list of chats can name one by the id it had before.
        former = (
            conversations.former_chat(tx, message.address.channel, message.address.chat_id)
            if arrival.policy.groups and message.metadata.chat_type.is_shared
            else None
        )
        match decide_access(arrival.policy, message, is_paired=paired, former_chat=former):
            case Ignored(reason=reason):
                log.info("message_ignored", channel=message.address.channel, reason=reason)
                return Accepted(note="You are not allowed to do that here.")
            case NeedsPairing() if message.metadata.is_edit:
                return Accepted()
            case NeedsPairing():
                return self._ask_for_pairing(tx, arrival)
            case Allowed(is_operator=is_operator):
                return self._take(tx, arrival, is_operator=is_operator)
            case unreachable:
                assert_never(unreachable)

    def _ask_for_pairing(self, tx: Transaction, arrival: _Arrival) -> Accepted:
        message, now = arrival.message, arrival.now
        inbox.note(tx, message.delivery_key, now)
        channel, sender = message.address.channel, message.sender
        code = pairings.request(tx, channel, sender.user_id, sender.display_name, now)
        if code is not None:
            minutes = int(LIFETIME.total_seconds() // 60)
            self._say(tx, arrival, replies.PAIRING.format(code=code, channel=channel, minutes=minutes))
        return Accepted()

    def _take(self, tx: Transaction, arrival: _Arrival, *, is_operator: bool) -> Accepted | PendingAuth:
        message, now = arrival.message, arrival.now
        if (taken := self._awaited(tx, arrival, is_operator=is_operator)) is not None:
            return taken
        if isinstance(arrival.verdict, InputRefused):
            inbox.note(tx, message.delivery_key, now)  # the key alone: the text may hold a secret
            self._say(tx, arrival, arrival.verdict.reason, ReplyKind.ERROR)
            return Accepted()
        if message.metadata.is_edit:
            return self._edit(tx, arrival)
        if isinstance(arrival.submission, NewThread):
            return self._begin_anew(tx, arrival, is_operator=is_operator)
        thread = self._sessions.resolve(tx, message, is_operator=is_operator, now=now).thread
        if is_operator and not message.metadata.chat_type.is_shared:
            self._note_private_chat(tx, message)
        match arrival.submission:
            case ExecApproval(request_id=request, approved=approved, always=always):
                user = user_id(message.address.channel, message.sender.user_id, is_operator=is_operator)
                answer = Answer(user, message.address.channel, approved, always and approved, names=request)
                return self._answer_button(tx, arrival, thread, answer)
            case ApprovalResponse(approved=approved, always=always):
                answer = Answer(thread.user, message.address.channel, approved, always)
                return self._answer_word(tx, arrival, thread, answer)
            case Interrupt():
                return self._stop(tx, arrival, thread)
            case SwitchThread(thread_id=wanted):
                return self._switch(tx, arrival, thread, ThreadId(wanted))
            case Undo() | Redo() | Resume() if thread.state in _BUSY:
                inbox.note(tx, message.delivery_key, now)
                self._say(tx, arrival, replies.BUSY)
                return Accepted(thread.id)
            case Clear() if thread.state in _BUSY:
                self._interrupt(tx, arrival, thread)
                return self._enqueue(tx, arrival, thread, Lane.TURN)
            case Undo() | Redo() | Resume() | Clear() | Compact():
                return self._enqueue(tx, arrival, thread, Lane.TURN)
            case UserInput(content=content) if not content.lstrip().startswith("/") or (
                arrival.names_skill or (is_operator and parse_once(content)) or parse_plan(content)
            ):
                return self._take_words(tx, arrival, thread)
            case _:
                return self._enqueue(tx, arrival, thread, Lane.CONTROL)

    # -- credentials ---------------------------------------------------------------------------------------------
    def _awaited(self, tx: Transaction, arrival: _Arrival, *, is_operator: bool) -> PendingAuth | Accepted | None:
        """The credential that this message is, before anything else looks at it. A command ends the wait instead.

        An edit is none: what it changes was written for another purpose.
        """
        if arrival.message.metadata.is_edit:
            return None
        key = self._sessions.key(arrival.message, is_operator=is_operator)
        thread = conversations.current(tx, key)
        pending = credentials.awaited(tx, thread.id) if thread else None
        if pending is None:
            return None
        if not self._may_be_secret(arrival.submission):
            credentials.cancel(tx, pending.thread)
            return None
        if not pending.is_expired(arrival.now):
            return pending
        credentials.cancel(tx, pending.thread)
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        self._say(tx, arrival, wording.expired(pending.name))
        return Accepted()

    def _may_be_secret(self, submission: Submission) -> bool:
        """Whether a message, where a credential is awaited, is taken for it: all but known commands."""
        if not isinstance(submission, UserInput):
            return False
        word, _, _ = submission.content.strip().partition(" ")
        return not (word.startswith("/") and word[1:].lower() in self._commands)

    async def _take_secret(self, arrival: _Arrival, pending: PendingAuth) -> Accepted:
        """Store what was typed, and nothing else of the message; on failure the wait goes on."""
        try:
            sealed = await self._vault.seal(pending.user, pending.name, SecretStr(arrival.message.text))
        except CredentialError as error:
            log.warning("credential_not_stored", error=type(error).__name__)
            text = wording.failed(pending.name, str(error))
            await self._store.write(partial(self._refuse_secret, arrival, pending, text))
            return Accepted()
        await self._store.write(partial(self._keep_secret, arrival, pending, sealed))
        log.info("credential_stored", name=pending.name)
        return Accepted()

    def _keep_secret(self, arrival: _Arrival, pending: PendingAuth, sealed: SealedCredential, tx: Transaction) -> None:
        if inbox.is_seen(tx, arrival.message.delivery_key):
            return
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        if credentials.awaited(tx, pending.thread) != pending:  # cancelled or answered while this one was sealed
            self._say(tx, arrival, wording.expired(pending.name))
            return
        credentials.cancel(tx, pending.thread)
        credentials.put(tx, sealed, arrival.now)
        self._say(tx, arrival, wording.stored(pending.name))
        tx.after_commit(partial(self._stored, pending.user, pending.name, arrival.message.replies_go_to))

    def _refuse_secret(self, arrival: _Arrival, pending: PendingAuth, text: str, tx: Transaction) -> None:
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        if credentials.awaited(tx, pending.thread) == pending:
            credentials.await_secret(tx, pending.thread, pending.name, pending.user, arrival.now)
        self._say(tx, arrival, text, ReplyKind.ERROR)

    # -- ordinary messages and commands -----------------------------------------------------------------------------
    def _take_words(self, tx: Transaction, arrival: _Arrival, thread: Thread) -> Accepted:
        """What a person wrote: a turn of the thread, unless one of their routines listens for it."""
        message = arrival.message
        is_plain = not message.text.lstrip().startswith("/")
        if is_plain and self._triggers is not None and self._triggers.take(tx, thread.user, message, arrival.now):
            inbox.note(tx, message.delivery_key, arrival.now)
            return Accepted(thread.id)
        return self._queue(tx, arrival, thread)

    def _queue(self, tx: Transaction, arrival: _Arrival, thread: Thread) -> Accepted:
        if thread.state is ThreadState.AWAITING_APPROVAL and (pending := approvals.open_of(tx, thread.id)):
            again = question_message(pending, uuid4(), arrival.message.replies_go_to)
            again = again.model_copy(update={"text": replies.still_waiting(pending.tool) + again.text})
            self._post(tx, outbox.add(tx, again, arrival.now))
        elif thread.state is ThreadState.PROCESSING and self._busy_mode(thread) is BusyMode.INTERRUPT:
            self._cut_off(tx, thread)
        return self._enqueue(tx, arrival, thread, Lane.TURN)

    def _busy_mode(self, thread: Thread) -> BusyMode:
        return BusyMode(thread.busy_mode) if thread.busy_mode else self._default_busy_mode

    def _enqueue(self, tx: Transaction, arrival: _Arrival, thread: Thread, lane: Lane) -> Accepted:
        inbox.append(tx, thread.id, lane, arrival.message, arrival.now)
        tx.after_commit(partial(self._signals.wake, thread.id, lane))
        return Accepted(thread.id)

    def _edit(self, tx: Transaction, arrival: _Arrival) -> Accepted:
        """A changed message: it replaces a text that waits, is told to a turn that runs, and never starts anything."""
        message, now = arrival.message, arrival.now
        if not isinstance(arrival.submission, UserInput) or message.text.lstrip().startswith("/"):
            return Accepted()  # a command runs once, whatever becomes of its text
        original = inbox.find(tx, message.original_key)
        if original is None or original.lane is not Lane.TURN or original.thread is None:
            return Accepted()
        if original.waits:
            inbox.replace(tx, message)
            inbox.note(tx, message.delivery_key, now)
        elif original.is_open and inbox.is_news(tx, message):
            inbox.append(tx, original.thread, Lane.TURN, message, now)
        log.info("message_edited", waits=original.waits, running=original.is_open)
        return Accepted(original.thread)

    def _begin_anew(self, tx: Transaction, arrival: _Arrival, *, is_operator: bool) -> Accepted:
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        thread = self._sessions.begin_anew(tx, arrival.message, is_operator=is_operator, now=arrival.now)
        self._say(tx, arrival, replies.NEW_THREAD.format(thread=thread.id))
        return Accepted(thread.id)

    # -- approvals -----------------------------------------------------------------------------------------------
    def _answer_word(self, tx: Transaction, arrival: _Arrival, thread: Thread, answer: Answer) -> Accepted:
        pending = approvals.open_of(tx, thread.id) or answered_by_word(tx, thread.user, arrival.message.replies_go_to)
        if isinstance(pending, Several):
            inbox.note(tx, arrival.message.delivery_key, arrival.now)
            self._say(tx, arrival, replies.SEVERAL_JOBS_ASK)
            return Accepted(thread.id)
        if pending is None:
            if is_bare_word(arrival.message.text):  # "ok" in ordinary talk
                return self._queue(tx, arrival, thread)
            inbox.note(tx, arrival.message.delivery_key, arrival.now)
            self._say(tx, arrival, "There is no open question here.")
            return Accepted(thread.id)
        return self._decide(tx, arrival, pending, answer, say_refusal=True)

    def _answer_button(self, tx: Transaction, arrival: _Arrival, thread: Thread, answer: Answer) -> Accepted:
        pending = approvals.by_id(tx, ApprovalId(answer.names)) if answer.names else None
        if pending is None:
            inbox.note(tx, arrival.message.delivery_key, arrival.now)
            return Accepted(thread.id, note="That question is not open; nothing was run.")
        return self._decide(tx, arrival, pending, answer, say_refusal=False)

    def _decide(
        self, tx: Transaction, arrival: _Arrival, pending: PendingApproval, answer: Answer, *, say_refusal: bool
    ) -> Accepted:
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        match decide(pending, answer, arrival.now):
            case NotDecided(reason=reason):
                if say_refusal:
                    self._say(tx, arrival, reason)
                return Accepted(pending.thread, note=reason)
            case Decided(state=state, remember=remember):
                self.close_question(tx, pending, state, by=answer.user, now=arrival.now, always=remember)
                if remember:
                    session = conversations.ensure_session(tx, answer.user, arrival.now)
                    conversations.consent(tx, session, pending.tool, pending.place, arrival.now)
                return Accepted(pending.thread, note=replies.decision_line(state, always=remember))
            case unreachable:
                assert_never(unreachable)

    def close_question(
        self,
        tx: Transaction,
        pending: PendingApproval,
        state: ApprovalState,
        *,
        by: UserId | str,
        now: datetime,
        always: bool = False,
    ) -> None:
        """Settle a question: its turn goes on, and every prompt that asks it shows what became of it."""
        if not approvals.close(tx, pending.id, state, by, now):
            return
        line = replies.decision_line(state, always=always)
        for prompt in outbox.prompts_of(tx, pending.id):
            if prompt.sent:
                amendment = OutgoingMessage(
                    address=prompt.message.address,
                    kind=ReplyKind.AMENDMENT,
                    text=replies.answered_question(pending, line),
                    edits=prompt.sent[-1],
                )
                self._post(tx, outbox.add(tx, amendment, now))
        tx.after_commit(partial(self._signals.wake, pending.thread, Lane.TURN))

    def _switch(self, tx: Transaction, arrival: _Arrival, here: Thread, wanted: ThreadId) -> Accepted:
        """Lead this place to another thread of the same person, and show the question it may be waiting with."""
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        try:
            thread = self._sessions.switch(tx, arrival.message, here, wanted)
        except NotYours:
            self._say(tx, arrival, replies.NO_SUCH_THREAD, ReplyKind.ERROR)
            return Accepted(here.id)
        self._say(tx, arrival, replies.SWITCHED.format(thread=thread.id, title=thread.title or "no title"))
        if pending := approvals.open_of(tx, thread.id):
            again = question_message(pending, uuid4(), arrival.message.replies_go_to)
            self._post(tx, outbox.add(tx, again, arrival.now))
        return Accepted(thread.id)

    # -- stopping ------------------------------------------------------------------------------------------------
    def _stop(self, tx: Transaction, arrival: _Arrival, thread: Thread) -> Accepted:
        inbox.note(tx, arrival.message.delivery_key, arrival.now)
        was_busy = turns.open_turn(tx, thread.id) is not None
        if not self._interrupt(tx, arrival, thread) and not was_busy:
            self._say(tx, arrival, replies.NOTHING_TO_STOP)
        return Accepted(thread.id)

    def _interrupt(self, tx: Transaction, arrival: _Arrival, thread: Thread) -> int:
        """End what runs, waits or is asked on a thread; says how many waiting messages were dropped, and gives it."""
        dropped = inbox.drop_waiting(tx, thread.id, arrival.now)
        if pending := approvals.open_of(tx, thread.id):
            self.close_question(tx, pending, ApprovalState.CANCELLED, by=thread.user, now=arrival.now)
        else:
            self._cut_off(tx, thread)
        if dropped:
            self._say(tx, arrival, replies.stopped_note((), (), dropped))
        return dropped

    def _cut_off(self, tx: Transaction, thread: Thread) -> None:
        """End the running turn, if there is one; it tells by itself what it had done."""
        if turn := turns.open_turn(tx, thread.id):
            turns.request_stop(tx, turn.id)
            tx.after_commit(partial(self._signals.stop, thread.id))
            tx.after_commit(partial(self._signals.wake, thread.id, Lane.TURN))

    # -- expiry --------------------------------------------------------------------------------------------------
    async def expire_questions(self) -> None:
        """Close every question whose time is over; the person is told by the turn's own reply."""
        await self._store.write(partial(self._expire, self._clock.now()))

    def _expire(self, now: datetime, tx: Transaction) -> None:
        for pending in approvals.due(tx, now):
            self.close_question(tx, pending, ApprovalState.EXPIRED, by="timeout", now=now)

    # -- replies -------------------------------------------------------------------------------------------------
    def _say(self, tx: Transaction, arrival: _Arrival, text: str, kind: ReplyKind = ReplyKind.NOTICE) -> None:
        message = OutgoingMessage(address=arrival.message.replies_go_to, kind=kind, text=text)
        self._post(tx, outbox.add(tx, message, arrival.now))

    def _post(self, tx: Transaction, parcel: Parcel) -> None:
        tx.after_commit(partial(self._deliveries.offer, parcel))

    def _note_private_chat(self, tx: Transaction, message: IncomingMessage) -> None:
        name = private_chat_fact(message.address.channel)
        if facts.get(tx, name) != message.address.chat_id:
            facts.put(tx, name, message.address.chat_id)


def private_chat_fact(channel: str) -> str:
    """The fact that holds the operator's last private chat on a channel."""
    return f"operator-chat:{channel}"
