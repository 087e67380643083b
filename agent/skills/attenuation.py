"""What the model may still do while it reads instructions that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterable

from agent.skills.skill import Trust

ATTENUATED = frozenset(
    {"memory_search", "memory_read", "memory_tree", "time", "echo", "json", "skill_list", "skill_search"}
)
"""The tools beside an installed skill: they read what the person may see anyway and reach nobody."""


def allowed_tools(trusts: Iterable[Trust]) -> frozenset[str] | None:
    """The tools that may be offered and run while skills of these trusts are active; None: no limit."""
    return ATTENUATED if any(trust is Trust.INSTALLED for trust in trusts) else None
