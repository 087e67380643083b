"""The wording of every reply that is not the model's. Errors say what happened, what was kept, and what to do next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta

from agent.hooks.base import Stopped
from agent.model.approval import ApprovalState, PendingApproval
from agent.model.tool_call import JsonValue
from channels.message import Choice

EMPTY_ANSWER = "I have no answer to that. Please try to say it in another way."
WITHHELD = "I have an answer, but it is withheld by a policy of this installation."
NOTHING_TO_STOP = "Nothing is running here, so there is nothing to stop."
TOO_MANY_ROUNDS = (
    "I stopped after {count} rounds of tool calls without reaching an answer. What was done is kept in this "
    "conversation. Say how to go on, or ask for a smaller step."
)
MODEL_AWAY = (
    "The language model is not answering at the moment. Your message is kept in this conversation; "
    "please send it again in a few minutes."
)
MODEL_REFUSES_KEY = (
    "The language model refuses our access. Your message is kept. The operator has to check the key and the model "
    "(`optimclaw check`)."
)
MODEL_REFUSES_REQUEST = (
    "The language model did not accept this request. Your message is kept. Try to say it in another way, or begin "
    "anew with /new."
)
BUDGET_USED_UP = (
    "My budget for the language model is used up for now. Your message is kept in this conversation; please send it "
    "again later."
)
CONTEXT_TOO_LONG = (
    "This is longer than the model can take, even without our earlier conversation: your message, what I read for it, "
    "or the documents I am told of each time, such as MEMORY.md. Nothing is lost. Ask for a smaller part; if short "
    "messages fail too, those documents have to be shortened."
)
SOMETHING_BROKE = (
    "Something went wrong on my side while I worked on this. Your message is kept. Please try again; if it happens "
    "again, the operator finds the reason in the log."
)
BUSY = "A turn is running or waiting for an answer here. Stop it first with /stop, then try again."
SWITCHED = "Switched to conversation {thread} ({title})."
NO_SUCH_THREAD = "Error: thread not found. /resume lists your conversations."
NEW_THREAD = "A new conversation begins here. The earlier one is kept (id {thread})."
SEVERAL_JOBS_ASK = "More than one of your jobs waits for an answer here: please tap the buttons below its question."
QUIT_REFUSED = "Only the operator may stop the bot. /stop ends what runs in this conversation."
QUITTING = "Shutting down."
RESTART_REFUSED = "Only the operator may restart the bot. /stop ends what runs in this conversation."
RESTART_IMPOSSIBLE = "This bot cannot start itself again here. Stop it with /quit and start it by hand."
RESTARTING = "Restarting. What is committed is kept; what runs goes on afterwards."
CUT_OFF = "\n\n_(The answer was cut off at the model's length limit.)_"
PAIRING = (
    "This bot talks to people its operator knows. To be let in, pass this code on to the operator: **{code}**\n\n"
    "They approve it with `optimclaw pairing approve {channel} {code}`. The code is good for {minutes} minutes."
)
LONGEST_KEPT = 1500
"""Characters of an answered question that stay in the chat; a longer one shows the decision alone."""
HEARTBEAT_HEADLINE = "🔔 **Heartbeat Alert**\n\n{text}"


def message_refused(stopped: Stopped) -> str:
    """What the person is told whose message a hook did not let in."""
    kind = "blocked by hook policy" if stopped.by_fault else "rejected"
    return f"[Message {kind}: {stopped.reason}]"


def response_refused(stopped: Stopped) -> str:
    """What stands in place of an answer that a hook did not let pass."""
    return f"[Response {'blocked by hook policy' if stopped.by_fault else 'filtered'}: {stopped.reason}]"


def question(pending: PendingApproval) -> str:
    """The question before a risky call: the tool, what it does, and exactly what will run, uncut.

    In a shared chat it also says whose answer counts, and that it has to be a reply: other talk there is not heard.
    """
    is_shared = pending.place.is_shared
    reply = "Only the person who asked for this can answer. Reply to this message with" if is_shared else "Reply"
    if pending.may_be_always:
        how = f"{reply} **yes** to run it once, **always** to allow this tool from now on, or **no**."
    else:
        how = f"{reply} **yes** to run it once, or **no**. (It is asked every time: **always** counts as yes.)"
    return f"**Approval needed: {pending.tool}**\n\n{_what_will_run(pending)}\n\n{how}"


def answered_question(pending: PendingApproval, line: str) -> str:
    """An answered prompt: what was asked, without the invitation to answer, and what became of it."""
    what = _what_will_run(pending)
    return f"**{pending.tool}**\n\n{what}\n\n{line}" if len(what) <= LONGEST_KEPT else f"**{pending.tool}**\n\n{line}"


def parameters(pending: PendingApproval) -> str:
    """What will run, as plain text: the one argument there is, or each with its name."""
    shown = [(name, _plain(value)) for name, value in pending.display.items()]
    if len(shown) == 1:
        return shown[0][1]
    return "\n".join(f"{name}: {value}" for name, value in shown)


def approval_choices(approval_id: str, *, may_be_always: bool) -> tuple[Choice, ...]:
    """Buttons for a question."""
    always = (Choice(label="Always", data=f"apr:{approval_id}:a"),) if may_be_always else ()
    return (
        Choice(label="Yes", data=f"apr:{approval_id}:y"),
        *always,
        Choice(label="No", data=f"apr:{approval_id}:n"),
    )


def decision_line(state: ApprovalState, *, always: bool = False) -> str:
    """What became of a question, for the prompt that asked it."""
    match state:
        case ApprovalState.APPROVED:
            return "✅ Approved, and allowed from now on." if always else "✅ Approved."
        case ApprovalState.DENIED:
            return "❌ Denied. Nothing was run."
        case ApprovalState.EXPIRED:
            return "⌛ Expired without an answer. Nothing was run."
        case ApprovalState.CANCELLED:
            return "⏹ Cancelled. Nothing was run."
        case ApprovalState.OPEN:
            return ""


def denied_result(state: ApprovalState) -> str:
    """What the model is told of a call that was not released: who decided, and that it did not run."""
    match state:
        case ApprovalState.EXPIRED:
            return "Not run: nobody answered the approval question in time."
        case ApprovalState.CANCELLED:
            return "Not run: the user stopped the turn before answering."
        case _:
            return "Not run: the user denied it. Do not try it again unless they ask."


def denied_note(tools: Sequence[str], state: ApprovalState) -> str:
    """What the user is told when a question ends without a yes."""
    names = ", ".join(tools)
    match state:
        case ApprovalState.EXPIRED:
            return (
                f"The approval question for {names} has expired without an answer. Nothing was run. "
                "Ask again if you still want it."
            )
        case ApprovalState.CANCELLED:
            return f"Stopped. {names} was not run."
        case _:
            return f"Understood, {names} was not run. We can go on; tell me what you would like instead."


def still_waiting(tool: str) -> str:
    """In front of a question that is shown again."""
    return f"I am still waiting for your answer about {tool}; your new message comes after it.\n\n"


def stopped_note(done: Sequence[str], not_done: Sequence[str], dropped: int) -> str:
    """What a stop did and did not undo."""
    parts = ["Stopped."]
    if done:
        parts.append(f"Already done and not undone: {', '.join(done)}.")
    if not_done:
        parts.append(f"Not finished: {', '.join(not_done)}.")
    if dropped:
        parts.append(f"{dropped} waiting message{'s' if dropped > 1 else ''} dropped; send again what still matters.")
    return " ".join(parts)


def within(duration: timedelta) -> str:
    """A duration in the largest unit that fits."""
    seconds = int(duration.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} second{'s' if seconds != 1 else ''}"


def _what_will_run(pending: PendingApproval) -> str:
    blocks = [f"{name}:\n{_fenced(_plain(value))}" for name, value in pending.display.items()]
    return "\n\n".join([pending.description, *blocks])


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _fenced(text: str) -> str:
    """A code block that the text cannot close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
