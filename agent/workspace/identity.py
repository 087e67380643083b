"""What the agent is told of itself and of whom it serves: which documents, in which order, for whom."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Protocol
from zoneinfo import ZoneInfo

import structlog

from agent.clock import Clock
from agent.workspace.errors import DocumentMissing, WorkspaceError
from agent.workspace.paths import AGENT_FILES, canonical
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from agent.workspace.workspace import DocumentState, daily_path

log = structlog.get_logger(__name__)

_MOST_CHARACTERS = 20_000  # of one document in the prompt; a MEMORY.md may grow to 1 MB
_MOST_SCOPES = 256
_SEPARATOR = "\n\n---\n\n"
_FIRST_RUN = "This is the first conversation. Follow the steps below before anything else."


class Documents(Protocol):
    """What the identity needs of the workspace."""

    async def read(self, scope: Scope, path: str) -> str: ...

    async def states(self, scope: Scope, paths: Sequence[str]) -> tuple[DocumentState, ...]: ...


@dataclass(frozen=True, slots=True)
class IdentitySnapshot:
    """The identity documents as one text. `stamp` differs after a person edited one of them, not after the bot did."""

    text: str
    stamp: str


def identity_documents(scope: Scope) -> tuple[str, ...]:
    """The documents of the prompt, in order. Those of a shared chat are the agent's and the chat's own alone."""
    match scope:
        case OperatorScope():
            return ("BOOTSTRAP.md", "AGENTS.md", "SOUL.md", "USER.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md")
        case PersonScope():
            return ("AGENTS.md", "SOUL.md", "USER.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md")
        case GroupScope(member_file=None):
            return ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md")
        case GroupScope(member_file=member_file):
            return ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md", str(member_file))


def is_private(path: str) -> bool:
    """Whether a path of the workspace's root may be seen by its owner alone: all but the agent's own documents."""
    return str(canonical(PurePosixPath(path))) not in AGENT_FILES


def is_blank(text: str) -> bool:
    """Whether a document says nothing: only blanks and comments."""
    return not re.sub(r"<!--.*?(-->|\Z)", "", text, flags=re.DOTALL).strip()


class Identity:
    """Reads the identity documents and keeps them while their files stay as they are."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._kept: OrderedDict[Scope, tuple[tuple[DocumentState, ...], IdentitySnapshot]] = OrderedDict()

    async def snapshot(self, scope: Scope) -> IdentitySnapshot:
        """The scope's identity as it stands. An unreadable document is left out and logged."""
        names = identity_documents(scope)
        states = await self._documents.states(scope, names)
        kept = self._kept.get(scope)
        if kept is not None and kept[0] == states:
            self._kept.move_to_end(scope)
            return kept[1]
        present = [name for name, state in zip(names, states, strict=True) if state.version]
        sections = [_section(name, text) for name in present if not is_blank(text := await self._text(scope, name))]
        editions = "\n".join(state.edition for state in states)
        snapshot = IdentitySnapshot(_SEPARATOR.join(sections), sha256(editions.encode()).hexdigest()[:16])
        self._kept[scope] = (states, snapshot)
        self._kept.move_to_end(scope)
        if len(self._kept) > _MOST_SCOPES:
            self._kept.popitem(last=False)
        return snapshot

    async def notes(self, scope: Scope, zone: ZoneInfo) -> str:
        """Today's and yesterday's notes in the person's zone; nothing for a shared chat."""
        if isinstance(scope, GroupScope):
            return ""
        today = self._clock.now().astimezone(zone)
        days = (("today", today), ("yesterday", today - timedelta(days=1)))
        found = [(word, day, await self._text(scope, daily_path(day))) for word, day in days]
        return "\n\n".join(
            f"## Notes of {word}, {day:%Y-%m-%d}\n\n{_tail(text)}" for word, day, text in found if not is_blank(text)
        )

    async def _text(self, scope: Scope, name: str) -> str:
        try:
            return await self._documents.read(scope, name)
        except DocumentMissing:
            return ""
        except WorkspaceError as error:
            log.warning("identity_document_skipped", document=name, reason=type(error).__name__)
            return ""


def _section(name: str, text: str) -> str:
    head = f"{_FIRST_RUN}\n\n" if name == "BOOTSTRAP.md" else ""
    text = text.strip()
    if len(text) > _MOST_CHARACTERS:
        rest = len(text) - _MOST_CHARACTERS
        text = f"{text[:_MOST_CHARACTERS]}\n[cut here: {rest:,} more characters; memory_read {name!r} shows all]"
    return f"## {name}\n\n{head}{text}"


def _tail(text: str) -> str:
    text = text.strip()
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"[older notes of the day are left out]\n{text[-_MOST_CHARACTERS:]}"
