"""One turn to handle, with everything that earlier runs of it left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.model.approval import ConsentPlace, Decision
from agent.model.ids import OPERATOR
from agent.model.session import Thread, Turn
from agent.model.submission import parse_once
from agent.store.turns import Journal
from agent.workspace.scope import Scope, scope_of
from channels.message import ChatType, IncomingMessage


@dataclass(frozen=True, slots=True)
class Envelope:
    """A claimed turn. `messages` are the person's own, oldest first; several quick ones make one turn.

    `decisions` are the answers to this turn's questions, by call id.
    """

    thread: Thread
    turn: Turn
    messages: tuple[IncomingMessage, ...]
    journal: Journal
    decisions: Mapping[str, Decision]

    @property
    def message(self) -> IncomingMessage:
        """The newest message: where the reply goes, and to what."""
        return self.messages[-1]

    @property
    def model(self) -> str | None:
        """The model this turn asks for: of a `/once`, else the thread's own; None for the settings'."""
        once = parse_once(self.message.text)
        return once.model if once else self.thread.model

    @property
    def is_operator(self) -> bool:
        return self.thread.user == OPERATOR

    @property
    def chat_type(self) -> ChatType:
        return self.message.metadata.chat_type

    @property
    def scope(self) -> Scope:
        """Whose files this turn may see."""
        message = self.message
        return scope_of(message.address, message.sender.user_id, self.chat_type, is_operator=self.is_operator)

    @property
    def consent_place(self) -> ConsentPlace:
        return ConsentPlace.of(self.message.address, self.chat_type)
