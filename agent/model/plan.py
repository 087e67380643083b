"""`/plan …`: wishes about plans, put to the model in words. A plan lives in the conversation where it was made."""

from __future__ import annotations

import re

_PLAN = re.compile(r"/plan(?:\s+(?P<rest>\S.*))?", re.IGNORECASE | re.DOTALL)


def parse_plan(text: str) -> str | None:
    """What a `/plan` asks of the model, or None for other texts."""
    match = _PLAN.fullmatch(text.strip())
    if match is None:
        return None
    word, _, rest = (match["rest"] or "list").partition(" ")
    rest = rest.strip()
    which = f" {rest}" if rest else ""
    match word.lower():
        case "list" if not rest:
            return "[plan mode] List the plans we made in this conversation, each with its state."
        case "approve":
            return f"[plan mode] I approve the plan{which}. Carry it out now, step by step."
        case "status":
            return f"[plan mode] Tell me how far the plan{which} is: what is done, what comes next, what is in the way."
        case "revise":
            return f"[plan mode] Revise the plan and show it again; do not act on it yet: {rest or 'improve it'}"
        case _:
            return (
                "[plan mode] Make a plan for the following, as numbered steps with what each needs and risks. "
                f"Only look things up; change nothing until I approve.\n\n{match['rest']}"
            )
