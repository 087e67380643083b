"""Names and texts of other people's servers, made fit for a prompt: data, of one length, with nothing hidden in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from agent.safety.sanitizer import sanitize

LONGEST_DESCRIPTION = 1_000
LONGEST_TOOL_NAME = 64  # Anthropic and OpenAI take no longer names of tools
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")
# Variation selectors are marks, not control characters, but bytes can be hidden in rows of them.
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SPACES = re.compile(r"[ \t\u00a0]+")


def clean_text(text: str, limit: int) -> str:
    """`text` without what cannot be seen and with critical phrases made harmless, in at most `limit` characters."""
    head = _SELECTORS.sub("", text[: 4 * limit])
    visible = "".join(char for char in head if char in "\n\t" or not unicodedata.category(char).startswith("C"))
    sanitized = sanitize(_SPACES.sub(" ", visible).strip()).text
    return sanitized if len(sanitized) <= limit and len(text) <= 4 * limit else sanitized[: limit - 1] + "…"


def is_plain(text: str, limit: int) -> bool:
    """Whether cleaning would leave `text` as it is: such a text may be used word for word."""
    return len(text) <= limit and clean_text(text, limit) == text


def tool_description(server: str, text: str) -> str:
    """A tool's description that says whose word it is."""
    prefix = f"[{server}] "
    said = clean_text(text, LONGEST_DESCRIPTION - len(prefix))
    return prefix + (said or "The server does not say what this does.")


def tool_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """What each of a server's tools is called here: `server__tool`, each once. The same for any order of `names`."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(set(names)):
        wanted = f"{server}__{_UNUSABLE.sub('_', name) or 'tool'}"[:LONGEST_TOOL_NAME]
        given[name] = _free(wanted, taken)
        taken.add(given[name])
    return given


def _free(wanted: str, taken: set[str]) -> str:
    candidate, number = wanted, 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = wanted[: LONGEST_TOOL_NAME - len(suffix)] + suffix, number + 1
    return candidate
