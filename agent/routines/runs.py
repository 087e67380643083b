"""What one run of a routine is told, and how its end is told."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from agent.model.ids import OPERATOR
from agent.model.routine import Ending, Notify, Routine, RunStatus, plain_name, state_path
from agent.workspace.scope import Scope, scope_of

OK_TOKEN = "ROUTINE_OK"
NEUTRAL_FAILURE = "It could not be done this time. Whoever made the routine finds the reason in its history."
"""All that a shared chat is told: what went wrong may be about the machine, the model or the budget."""
SWITCHED_OFF = (
    "It has failed {count} times in a row and is switched off now. Switch it on again with `/routines enable {name}`."
)
SHUT_OUT = "not run: its owner may not talk to the bot any more, so it is switched off"
INTERRUPTED = "the bot stopped while it ran; what it had begun may be half done"

_ICONS = {RunStatus.OK: "✅", RunStatus.ATTENTION: "🔔"}
_WORDS = {
    RunStatus.OK: "done, nothing to report",
    RunStatus.ATTENTION: "needs attention",
    RunStatus.FAILED: "failed",
    RunStatus.MISSED: "not run",
}

_INSTRUCTION = f"""This is a routine that runs by itself; nobody can be asked anything. If there is nothing to report, \
answer exactly {OK_TOKEN}. Otherwise answer with what is to be said: your answer is sent as it stands."""
_STATE = "To know something the next time, write it with memory_write, target {path!r} and append false."


def scope_of_routine(routine: Routine) -> Scope:
    """Whose files its runs may see: those of the conversation in which it was made, no others."""
    origin = routine.plan.origin
    return scope_of(origin.address, origin.sender, origin.chat_type, is_operator=routine.user == OPERATOR)


def zone_of(routine: Routine, default: ZoneInfo) -> ZoneInfo:
    """The zone its owner lives in; one that is stored and no longer known is passed over."""
    try:
        return ZoneInfo(routine.plan.origin.zone)
    except (KeyError, ValueError, OSError):
        return default


def question(
    prompt: str,
    *,
    name: str,
    now: datetime,
    notes: str,
    documents: str,
    state: str,
    cause: str,
    may_write_state: bool,
) -> str:
    """The message that a run sends to the model. `documents` and `cause` are marked as data already."""
    assert now.tzinfo is not None
    parts = [f"[{now:%Y-%m-%d %H:%M %A} {now.tzinfo}; routine {plain_name(name)}]", prompt]
    if documents:
        parts.append(f"# Context\n\n{documents}")
    if state:
        parts.append(f"# Previous State\n\n{state}")
    if cause:
        parts.append(f"# What set it off\n\n{cause}")
    if notes:
        parts.append(notes)
    parts.append(_INSTRUCTION)
    if may_write_state:
        parts.append(_STATE.format(path=state_path(name)))
    return "\n\n".join(parts)


def is_told(notify: Notify, status: RunStatus) -> bool:
    """Whether its owner wants to hear of such an end."""
    match status:
        case RunStatus.OK:
            return notify.on_success
        case RunStatus.ATTENTION:
            return notify.on_attention
        case _:
            return notify.on_failure


def notice(routine: Routine, ending: Ending, *, is_shared: bool) -> str:
    """The text of a notice. In a shared chat a fault is one neutral sentence."""
    head = f"{_ICONS.get(ending.status, '❌')} **Routine '{plain_name(routine.name)}'**: {_WORDS[ending.status]}"
    is_fault = ending.status in (RunStatus.FAILED, RunStatus.MISSED)
    summary = NEUTRAL_FAILURE if is_fault and is_shared else ending.summary
    return f"{head}\n\n{summary}" if summary else head


def switched_off_line(routine: Routine, failures: int) -> str:
    """What is added to the notice of the failure that was one too many."""
    return SWITCHED_OFF.format(count=failures, name=plain_name(routine.name))
