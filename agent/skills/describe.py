"""Skills as lines of text: what their files say of themselves is data, on one line and bounded."""

from __future__ import annotations

from collections.abc import Sequence

from agent.skills.folders import Fault
from agent.skills.skill import Skill, folded

_LONGEST = 200
_HARMLESS = str.maketrans("<>[]`@*", "‹›()'  ")


def skill_line(skill: Skill) -> str:
    """Name, version, trust and description."""
    about = one_line(skill.description)
    return f"{skill.name} {one_line(skill.version)} ({skill.trust}){f': {about}' if about else ''}"


def fault_line(fault: Fault) -> str:
    """Where a skill lies that was passed over, and why."""
    return f"{one_line(fault.where)}: {one_line(fault.reason)}"


def details(skill: Skill) -> str:
    """When a skill is used, what it requires and how much of a prompt it takes, in brackets."""
    activation, requires = skill.activation, skill.requires
    parts = {
        "keywords": activation.keywords,
        "not for": activation.exclude_keywords,
        "tags": activation.tags,
        "needs": (*requires.bins, *requires.env, *requires.config),
    }
    said = [f"{label}: {one_line(', '.join(words))}" for label, words in parts.items() if words]
    return f"[{'; '.join([*said, f'about {skill.cost_tokens} tokens'])}]"


def one_line(text: str, limit: int = _LONGEST) -> str:
    """`text` without line ends and markup, at most `limit` characters of it."""
    flat = " ".join(text[: 4 * limit].split()).translate(_HARMLESS)
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def matches(found: Sequence[Skill | Fault], query: str) -> tuple[Skill | Fault, ...]:
    """Those that have words of `query` in what they say of themselves; the more words, the earlier."""
    words = frozenset(folded(query).split())
    counted = [(sum(word in about for word in words), each) for each in found if (about := _about(each))]
    return tuple(each for count, each in sorted(counted, key=lambda pair: -pair[0]) if count)


def _about(found: Skill | Fault) -> str:
    if isinstance(found, Fault):
        return folded(f"{found.name} {found.where}")
    activation = found.activation
    return folded(" ".join((found.name, found.description, *activation.keywords, *activation.tags)))
