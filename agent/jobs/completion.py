"""Whether the model says that its job is done. Pure; the phrases are those of IronClaw's worker."""

from __future__ import annotations

import re

_NOT_YET = re.compile(
    r"\bnot (?:yet )?(?:complete|completed|done|finished)\b"
    r"|\bincomplete\b|\bunfinished\b"
    r"|\bisn't (?:yet )?(?:complete|completed|done|finished)\b"
    r"|\bis not (?:yet )?(?:complete|completed|done|finished)\b"
)
_DONE = re.compile(
    r"\b(?:job|task|work) is (?:now )?(?:complete|completed|done|finished)\b"
    r"|\bsuccessfully completed\b"
    r"|\bhave (?:completed|finished) the (?:job|task)\b"
    r"|\ball steps are (?:complete|completed|done)\b"
    r"|\bi have completed\b|\bi've completed\b"
    r"|\ball done\b|\ball tasks (?:are )?complete\b"
)


def says_done(text: str) -> bool:
    """Whether a text of the model ends its job. Any word that something is missing outweighs every other."""
    lower = " ".join(text.replace("\u2019", "'").lower().split())
    return _NOT_YET.search(lower) is None and _DONE.search(lower) is not None
