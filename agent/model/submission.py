"""What a chat message means: a closed union, and a parser that never fails and knows no context."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from channels.message import IncomingMessage


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back the last turn of the conversation."""


@dataclass(frozen=True, slots=True)
class Redo:
    """Bring back what the last undo took."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Stop what runs or waits in this thread."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Shorten the context now."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Empty the thread."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Run the checklist now."""


@dataclass(frozen=True, slots=True)
class Summarize:
    """Summarise the conversation."""


@dataclass(frozen=True, slots=True)
class Suggest:
    """Suggest what to do next."""


@dataclass(frozen=True, slots=True)
class NewThread:
    """Begin a new thread in this place."""


@dataclass(frozen=True, slots=True)
class SwitchThread:
    """Go on in another thread of one's own."""

    thread_id: UUID


@dataclass(frozen=True, slots=True)
class ListThreads:
    """List one's own threads and checkpoints."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go back to a checkpoint."""

    checkpoint_id: UUID


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Show one job, or how things stand when `job_id` is None. The id is as typed, in lower case."""

    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobCancel:
    """Cancel a job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class PairingClaim:
    """Let the person in who was given `code` on `channel`; both in lower case."""

    channel: str
    code: str


@dataclass(frozen=True, slots=True)
class Expected:
    """Say what a wrong answer should have been."""

    description: str


@dataclass(frozen=True, slots=True)
class Quit:
    """Stop the bot."""


@dataclass(frozen=True, slots=True)
class ApprovalResponse:
    """An approval word. With nothing pending it is ordinary chat, unless it came with a slash."""

    approved: bool
    always: bool = False


@dataclass(frozen=True, slots=True)
class ExecApproval:
    """A tapped button or a page's form. `approved=False` with `always=True` is a denial."""

    request_id: UUID
    approved: bool
    always: bool


@dataclass(frozen=True, slots=True)
class SystemCommand:
    """A command that changes no thread. `apply_now`: `--now` stood anywhere among the words."""

    command: str
    args: tuple[str, ...] = ()
    apply_now: bool = False


@dataclass(frozen=True, slots=True)
class UserInput:
    """Everything else, as typed."""

    content: str


Submission = (
    Undo
    | Redo
    | Interrupt
    | Compact
    | Clear
    | Heartbeat
    | Summarize
    | Suggest
    | NewThread
    | SwitchThread
    | ListThreads
    | Resume
    | JobStatus
    | JobCancel
    | PairingClaim
    | Expected
    | Quit
    | ApprovalResponse
    | ExecApproval
    | SystemCommand
    | UserInput
)

PAIRING_CHANNELS = frozenset({"telegram", "slack", "discord"})
NOW_FLAG = "--now"

_EXACT: Mapping[str, Submission] = {
    "/undo": Undo(),
    "/redo": Redo(),
    "/interrupt": Interrupt(),
    "/stop": Interrupt(),
    "/compact": Compact(),
    "/clear": Clear(),
    "/heartbeat": Heartbeat(),
    "/summarize": Summarize(),
    "/summary": Summarize(),
    "/suggest": Suggest(),
    "/thread new": NewThread(),
    "/new": NewThread(),
    "/help": SystemCommand("help"),
    "/?": SystemCommand("help"),
    "/version": SystemCommand("version"),
    "/tools": SystemCommand("tools"),
    "/ping": SystemCommand("ping"),
    "/debug": SystemCommand("debug"),
    "/restart": SystemCommand("restart"),
    "/quit": Quit(),
    "/exit": Quit(),
    "/shutdown": Quit(),
    "/status": JobStatus(),
    "/progress": JobStatus(),
    "/list": JobStatus(),
    "/resume": ListThreads(),
}
_WORDY = frozenset({"/skills", "/reasoning", "/model"})
_APPROVAL_WORDS: Mapping[str, ApprovalResponse] = (
    dict.fromkeys(("yes", "y", "approve", "ok", "/approve", "/yes", "/y"), ApprovalResponse(approved=True))
    | dict.fromkeys(
        ("always", "a", "yes always", "approve always", "/always", "/a"), ApprovalResponse(approved=True, always=True)
    )
    | dict.fromkeys(("no", "n", "deny", "reject", "cancel", "/deny", "/no", "/n"), ApprovalResponse(approved=False))
)
_HEX = "[0-9a-f]"
_HYPHENATED = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_UUID = re.compile(rf"(?:urn:uuid:)?{_HYPHENATED}|\{{{_HYPHENATED}\}}|{_HEX}{{32}}", re.IGNORECASE)
_CLAIM = re.compile(r"/?approve (\S+) (\S+)")
_CODE = re.compile(r"[a-hj-np-z2-9]{8}")  # the pairing alphabet: no I, O, 0, 1


def parse_submission(message: IncomingMessage) -> Submission:
    """What `message` means. A typed JSON approval is text: only adapters may hand in the structured form."""
    submission = parse_text(message.text)
    if isinstance(submission, ExecApproval) and not message.metadata.structured:
        return UserInput(message.text)
    return submission


def parse_text(text: str) -> Submission:
    """What a text means, by the first rule that matches; `UserInput` with the untouched text if none does."""
    trimmed = text.strip()
    lower = trimmed.lower()
    if exact := _EXACT.get(lower) or _EXACT.get(_without_flag(lower)):
        return exact
    for rule in _RULES:
        if (found := rule(trimmed, lower)) is not None:
            return found
    return UserInput(text)


@dataclass(frozen=True, slots=True)
class Once:
    """A message for one model, whichever the thread uses otherwise."""

    model: str
    text: str


def parse_once(text: str) -> Once | None:
    """`/once MODEL text`, or None."""
    match = re.fullmatch(r"/once\s+(\S+)\s+(\S.*)", text.strip(), re.IGNORECASE | re.DOTALL)
    return Once(match[1], match[2]) if match else None


def is_bare_word(text: str) -> bool:
    """Whether an approval word stands without a slash, so that it may be ordinary talk."""
    return not text.strip().startswith("/")


def parse_uuid(text: str) -> UUID | None:
    """The UUID in one of the four usual spellings, or None."""
    return UUID(text.removeprefix("urn:uuid:")) if _UUID.fullmatch(text) else None


def _without_flag(lower: str) -> str:
    """A command without `--now`, which may stand anywhere behind its name."""
    if not lower.startswith("/") or NOW_FLAG not in lower:
        return ""
    return " ".join(word for word in lower.split() if word != NOW_FLAG)


def _expected(trimmed: str, lower: str) -> Submission | None:
    description = trimmed[len("/expected ") :].strip()
    return Expected(description) if lower.startswith("/expected ") and description else None


def _wordy(trimmed: str, lower: str) -> Submission | None:
    words = trimmed.split()
    if not words or words[0].lower() not in _WORDY:
        return None
    args = tuple(word for word in words[1:] if word != NOW_FLAG)
    return SystemCommand(words[0][1:].lower(), args, apply_now=NOW_FLAG in words)


def _job(trimmed: str, lower: str) -> Submission | None:
    word, _, rest = lower.partition(" ")
    job = rest.strip()
    if not job:
        return None
    match word:
        case "/status" | "/progress":
            return JobStatus(job)
        case "/cancel":
            return JobCancel(job)
        case _:
            return None


def _claim(trimmed: str, lower: str) -> Submission | None:
    match = _CLAIM.fullmatch(lower)
    if match and match[1] in PAIRING_CHANNELS and _CODE.fullmatch(match[2]):
        return PairingClaim(match[1], match[2])
    return None


def _by_id(trimmed: str, lower: str) -> Submission | None:
    word, _, rest = lower.partition(" ")
    identifier = parse_uuid(rest.strip())
    if identifier is None:
        return None
    match word:
        case "/thread":
            return SwitchThread(identifier)
        case "/resume":
            return Resume(identifier)
        case _:
            return None


def _structured(trimmed: str, lower: str) -> Submission | None:
    if not trimmed.startswith("{"):
        return None
    try:
        outer = json.loads(trimmed, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    if not isinstance(outer, dict) or set(outer) != {"ExecApproval"} or not isinstance(outer["ExecApproval"], dict):
        return None
    inner = outer["ExecApproval"]
    request, approved, always = inner.get("request_id"), inner.get("approved"), inner.get("always")
    if not isinstance(request, str) or not isinstance(approved, bool) or not isinstance(always, bool):
        return None
    identifier = parse_uuid(request)
    return ExecApproval(identifier, approved, always) if identifier else None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _approval_word(trimmed: str, lower: str) -> Submission | None:
    return _APPROVAL_WORDS.get(lower)


_RULES: tuple[Callable[[str, str], Submission | None], ...] = (
    _expected,
    _wordy,
    _job,
    _claim,
    _by_id,
    _structured,
    _approval_word,
)
