"""Rules that keep a loop from going in circles: nudges, cut-off calls, the same failure again and again. Pure.

Numbers and word lists are those of the behaviour we implement (IronClaw's loop).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.llm.messages import ToolResult
from agent.model.tool_call import ToolCall

MAX_NUDGES = 2
MAX_TRUNCATIONS = 3
WARN_AFTER_FAILURES = 3
STOP_AFTER_FAILURES = 5

NUDGE = (
    "[system note] You said you would act but made no tool call. If you meant to act, call the tool now; "
    "otherwise answer."
)
CUT_OFF = (
    "[system note] Your answer reached its length limit in the middle of a tool call, so none of its calls was run. "
    "Work in smaller steps: shorter arguments, one call at a time."
)
REPEATED = "[system note] The same call has failed {count} times. Do not repeat it; try another way or explain."
LAST_ROUND = "[system note] This is your last chance to use tools. After it you have to answer with what you know."


@dataclass(frozen=True, slots=True)
class Guards:
    """What the loop remembers between iterations."""

    nudges: int = 0
    truncations: int = 0
    failure: str = ""
    failures: int = 0

    def nudged(self) -> Guards:
        return replace(self, nudges=self.nudges + 1)

    def cut_off(self) -> Guards:
        return replace(self, truncations=self.truncations + 1)

    def after_batch(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Guards:
        """The guards after a batch: a success, or another failure, starts the count of failures anew.

        Cut-off calls are forgotten after a success only: a batch that failed is no sign that calls arrive whole.
        """
        if not results or not all(result.is_error for result in results):
            return Guards()
        fingerprint = _fingerprint(calls)
        count = self.failures + 1 if fingerprint == self.failure else 1
        return replace(self, nudges=0, failure=fingerprint, failures=count)


def _fingerprint(calls: Sequence[ToolCall]) -> str:
    return json.dumps(
        [(call.name, call.malformed or dict(call.arguments)) for call in calls], sort_keys=True, default=str
    )


_FENCED = re.compile(r"```.*?(?:```|\Z)|^(?: {4}|\t)[^\n]*$|\"[^\"\n]*\"", re.DOTALL | re.MULTILINE)
_EXCLUDED = re.compile(
    r"\blet me (?:explain|know|think|summari[sz]e|clarify|describe|help|understand|break|outline|walk you|provide"
    r"|suggest|elaborate|start by)\b",
    re.IGNORECASE,
)
_INTENT = re.compile(
    r"\b(?:let me|i'll|i will|i'm going to)\b[^.!?\n]{0,120}?\b"
    r"(?:search|look up|check|fetch|find|read the|write the|create|run the|execute|query|retrieve"
    r"|add (?:it|the|this|that)|update the|delete|remove the|look into)\b",
    re.IGNORECASE,
)


def announces_action(text: str) -> bool:
    """Whether a text promises a tool call in its own words, code and quotations left aside."""
    plain = _FENCED.sub(" ", text.replace("\u2019", "'"))
    return _EXCLUDED.search(plain) is None and _INTENT.search(plain) is not None
