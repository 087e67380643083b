"""Finds the command behind a submission, or behind a `/word` that no submission claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import assert_never

from agent.commands.base import Command
from agent.model.submission import (
    NOW_FLAG,
    ApprovalResponse,
    Clear,
    Compact,
    ExecApproval,
    Expected,
    Heartbeat,
    Interrupt,
    JobCancel,
    JobStatus,
    ListThreads,
    NewThread,
    PairingClaim,
    Quit,
    Redo,
    Resume,
    Submission,
    Suggest,
    Summarize,
    SwitchThread,
    SystemCommand,
    Undo,
    UserInput,
)


@dataclass(frozen=True, slots=True)
class Routed:
    """A command's name in lower case, and its words as typed."""

    name: str
    args: tuple[str, ...] = ()
    apply_now: bool = False


def route(submission: Submission) -> Routed:
    """The command a submission stands for. Natural language never gets here."""
    match submission:
        case SystemCommand(command=name, args=args, apply_now=apply_now):
            return Routed(name, args, apply_now)
        case JobStatus(job_id=job):
            return Routed("status", (job,) if job else ())
        case JobCancel(job_id=cancelled):
            return Routed("cancel", (cancelled,))
        case PairingClaim(channel=channel, code=code):
            return Routed("approve", (channel, code))
        case SwitchThread(thread_id=thread):
            return Routed("thread", (str(thread),))
        case Resume(checkpoint_id=checkpoint):
            return Routed("resume", (str(checkpoint),))
        case Expected(description=text):
            return Routed("expected", (text,))
        case UserInput(content=content):
            words = [word for word in content.split() if word != NOW_FLAG]
            name = words[0].removeprefix("/").lower() if words else ""
            return Routed(name, tuple(words[1:]), NOW_FLAG in content.split())
        case Undo() | Redo() | Compact() | Clear() | Heartbeat() | Summarize() | Suggest() | ListThreads() | Quit():
            return Routed(_NAMES[type(submission)])
        case Interrupt() | NewThread() | ApprovalResponse() | ExecApproval():
            return Routed("")  # handled at the door
        case unreachable:
            assert_never(unreachable)


_NAMES: dict[type, str] = {
    Undo: "undo",
    Redo: "redo",
    Compact: "compact",
    Clear: "clear",
    Heartbeat: "heartbeat",
    Summarize: "summarize",
    Suggest: "suggest",
    ListThreads: "resume",
    Quit: "quit",
}


def find(commands: Sequence[Command], name: str) -> Command | None:
    """The command of this name or alias."""
    return next((each for each in commands if name == each.name or name in each.aliases), None)


def unknown(commands: Sequence[Command], name: str) -> str:
    """What to say of a word that is no command."""
    names = [word for command in commands for word in (command.name, *command.aliases)]
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" Did you mean /{near[0]}?" if near else ""
    return f"Unknown command /{name[:40]}.{hint} /help lists all commands."
